"""PyTorch's names outside, one private house inside: what lies directly under `undertow`, and what torch's name finds."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch as real_torch  # before a test pretends

import undertow

SOURCE = Path(undertow.__file__).parent
OWN = {"_src", "cli", "pretend", "why"}  # what PyTorch has nothing like
ROOMS = sorted(path.name for path in (SOURCE / "_src").iterdir() if any(path.glob("*.py")))


def modules_directly_under_undertow() -> list[str]:
    files = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    return sorted(files | {path.name for path in SOURCE.iterdir() if any(path.rglob("*.py"))})


def is_of_pytorch(name: str) -> bool:
    return f"torch.{name}" in sys.modules or importlib.util.find_spec(f"torch.{name}") is not None


def test_every_module_directly_under_undertow_has_a_name_of_pytorch_s() -> None:
    assert {name for name in modules_directly_under_undertow() if not is_of_pytorch(name)} == OWN


def test_the_house_has_the_rooms_that_the_map_names() -> None:
    assert ROOMS == sorted(
        "arrays base compat compile distributed engine ops overrides random rules tensor types".split()
    )


ALSO_PYTORCH_S = {"distributed", "ops", "overrides", "random", "types"}
LACKING = {*ROOMS, *OWN, "_src.rules", "_src.compile.api", "dtypes", "xla", "why.trace"} - ALSO_PYTORCH_S


@pytest.mark.parametrize("name", sorted(LACKING))
def test_pretending_does_not_add_modules_to_torch(name: str) -> None:
    with undertow.pretend_torch():
        with pytest.raises(ModuleNotFoundError, match=f"No module named 'torch.{name.partition('.')[0]}' in undertow"):
            importlib.import_module(f"torch.{name}")
        assert not [each for each in sys.modules if each.startswith("torch._src")]


def test_undertow_s_own_code_works_while_it_pretends() -> None:
    """In a process of its own, where every file is imported after `torch` has become undertow."""
    program = """if True:
        import undertow
        undertow.pretend_torch()
        import torch
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss
        x = torch.ones(3, 2)
        torch.manual_seed(0)
        eager, compiled = step(x), torch.compile(step)(x)
        print(type(eager).__module__, torch.no_grad.__module__, torch.Generator.__module__, bool(compiled < eager))
        print(torch.why is undertow.why)
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.splitlines() == ["torch torch.autograd.grad_mode torch._C True", "True"], answer.stderr


def test_classes_that_pytorch_has_too_do_not_show_the_house() -> None:
    shown = []
    for part in ("", "autograd", "autograd.function", "autograd.graph", "autograd.grad_mode", "autograd.profiler",
                 "storage", "nn", "optim", "utils.hooks", "profiler", "linalg", "hub", "_C", "futures"):  # fmt: skip
        ours = importlib.import_module(f"undertow.{part}".rstrip("."))
        theirs = importlib.import_module(f"torch.{part}".rstrip("."))
        for name, kind in vars(theirs).items():
            own = getattr(ours, name, None)
            if isinstance(kind, type) and isinstance(own, type) and kind.__module__.startswith("torch"):
                if own.__module__.startswith("undertow._src") and own.__name__ == name:
                    shown.append(f"{part}.{name} says {own.__module__}, PyTorch's {kind.__module__}")
    assert not shown, "\n".join(shown)


@pytest.mark.parametrize("question", ["mps.is_available(0)", "mps.manual_seed()", "mtia.device_count(0)",
                                      "backends.mkl.is_available(0)", "backends.cusparselt.version(0)"])  # fmt: skip
def test_modules_made_from_a_table_take_what_pytorch_s_take(question: str) -> None:
    for library in (undertow, real_torch):
        importlib.import_module(f"{library.__name__}.backends.cusparselt")
        with pytest.raises(TypeError, match="positional argument"):
            eval(question, {}, {name: getattr(library, name) for name in ("mps", "mtia", "backends")})
    assert undertow.mtia.memory_stats() is not undertow.mtia.memory_stats()
