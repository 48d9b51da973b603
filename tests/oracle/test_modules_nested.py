"""Modules nested as deep as PyTorch survives, and deeper where it costs nothing."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree


def nested(torch: Any, depth: int, mixed: bool = False) -> Any:
    module = torch.nn.Linear(1, 1)
    for level in range(depth):
        match level % 3 if mixed else 0:
            case 0:
                module = torch.nn.Sequential(module)
            case 1:
                module = torch.nn.ModuleList([module, torch.nn.ReLU(), torch.nn.ReLU()])
            case 2:
                module = torch.nn.ModuleDict({"inside": module})
    return module


def on_a_fresh_stack(function: Callable[[], Any]) -> Any:
    """What a function returns in a thread, whose stack holds none of pytest's frames."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    assert results, "it failed"
    return results[0]


def _mixed_text(torch: Any) -> str:
    return repr(nested(torch, 200, mixed=True))


def test_texts_of_nests_are_those_of_torch() -> None:
    texts = [on_a_fresh_stack(partial(_mixed_text, torch)) for torch in (real_torch, undertow)]
    assert texts[0] == texts[1]


def test_texts_of_deep_nests() -> None:
    text = on_a_fresh_stack(lambda: repr(nested(undertow, 1500)))
    assert text.count("Sequential(") == 1500 and text.endswith("\n)")


def test_texts_by_methods_of_ones_own() -> None:
    def program(torch: Any) -> Any:
        class Named(torch.nn.Module):
            def __init__(self, inside: Any = None) -> None:
                super().__init__()
                self.inside = inside

            def extra_repr(self) -> str:
                return "one\ntwo"

        class Loud(Named):
            def __repr__(self) -> str:
                return "LOUD " + super().__repr__()

        class Short(Named):
            def __repr__(self) -> str:
                return "short"

        shared = torch.nn.Linear(1, 2)
        return [
            repr(torch.nn.Sequential(Named(Loud(Named(Short(shared)))), shared, shared)),
            repr(torch.nn.ModuleList([Loud(shared), Loud(shared), Named()])),
            repr(torch.nn.ModuleList()), str(torch.nn.ModuleDict()), repr(torch.nn.ParameterList()),
        ]  # fmt: skip

    agree(program)


@pytest.mark.parametrize("torch", [real_torch, undertow], ids=["torch", "undertow"])
def test_a_module_inside_of_itself_has_no_text(torch: Any) -> None:
    module = torch.nn.Sequential(torch.nn.ReLU())
    module.append(torch.nn.ModuleList([module]))
    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        repr(module)


def saved(torch: Any, value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


# How deep both survive, with some room for the frames that an op takes at the bottom.
OPERATIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "state_dict": (950, lambda torch, module: module.state_dict()),
    "named_modules": (950, lambda torch, module: len(list(module.named_modules()))),
    "apply": (950, lambda torch, module: module.apply(lambda each: None)),
    "to": (950, lambda torch, module: module.to(torch.float64)),
    "eval": (950, lambda torch, module: module.eval()),
    "zero_grad": (950, lambda torch, module: module.zero_grad()),
    "deepcopy": (150, lambda torch, module: copy.deepcopy(module)),
    "pickle": (180, lambda torch, module: pickle.loads(pickle.dumps(module))),
    "save": (190, lambda torch, module: torch.load(saved(torch, module), weights_only=False)),
    "call": (240, lambda torch, module: module(torch.ones(1, 1)).sum().backward()),
}


@pytest.mark.parametrize("torch", [real_torch, undertow], ids=["torch", "undertow"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_torch_survives(operation: str, torch: Any) -> None:
    depth, operate = OPERATIONS[operation]
    on_a_fresh_stack(lambda: operate(torch, nested(torch, depth)) or True)
