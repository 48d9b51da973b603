"""What is imported when it is first used: methods, functions and names; and how little that leaves for the beginning."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import undertow
from undertow._src.base.lazy import LateMethod, late_function

# Some of what programs do without until they use it, and modules of Python's that only such files need.
SELDOM = """
    autograd.functional cuda linalg random utils return_types _src.random _src.arrays.numpy.conv _src.arrays.numpy.fft
    _src.arrays.numpy.gamma _src.arrays.numpy.linalg _src.arrays.numpy.nn _src.arrays.numpy.sort _src.arrays.tensor
    _src.ops.activation _src.ops.arithmetic _src.ops.arrange _src.ops.compare _src.ops.conv _src.ops.elementwise
    _src.ops.factor _src.ops.foreach _src.ops.indexing _src.ops.join _src.ops.loss _src.ops.matmul _src.ops.pool
    _src.ops.reduce _src.ops.sort _src.rules.conv _src.rules.elementwise _src.rules.factor _src.rules.loss
    _src.rules.special _src.rules.trigonometry
""".split()
SELDOM_OF_PYTHON = {"array", "ipaddress", "mmap", "numpy.typing", "pathlib", "urllib.parse"}
CORE = 80  # files with code: the package file of a room in `_src` holds a docstring only


def is_door(name: str) -> bool:
    """Tell whether a module is the package file of a room, which says what is in it and does nothing."""
    file = importlib.import_module(name).__file__ or ""
    return file.endswith("__init__.py") and len(ast.parse(Path(file).read_text()).body) == 1


def test_importing_undertow_imports_the_core_only() -> None:
    code = "import sys, json, numpy, ml_dtypes; before = set(sys.modules); import undertow; "
    code += "print(json.dumps(sorted(set(sys.modules) - before)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(answer.stdout))
    assert loaded.isdisjoint(f"undertow.{name}" for name in SELDOM)
    assert loaded.isdisjoint(SELDOM_OF_PYTHON)
    own = {name for name in loaded if name.startswith("undertow") and not is_door(name)}
    assert len(own) <= CORE, f"{len(own)} files are imported with undertow: should one wait for its first use?"


def test_the_names_of_a_package_stay_the_same() -> None:
    before = dir(undertow), dir(undertow.nn)
    importlib.import_module("undertow._src.overrides.custom_operators")
    undertow.vmap(undertow.nn.functional.relu)(undertow.ones(2))
    assert (dir(undertow), dir(undertow.nn)) == before
    assert {"rules", "operators", "modes"}.isdisjoint(before[0]) and {"why", "fft", "vmap"} <= {*before[0]}


@pytest.fixture
def home() -> Iterator[ModuleType]:
    """A module that has a function and a family of methods."""
    module = ModuleType("home_of_late_things")
    exec("def double(x):\n    return 2 * x\nclass Family:\n    def greet(self): return ['late']", vars(module))
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_threads_that_come_first_together_get_the_same_things() -> None:
    """In a process of its own, where nothing has been used yet."""
    code = """
import sys, threading, undertow
sys.setswitchinterval(1e-6)
start, seen = threading.Barrier(8), []
def use():
    x = undertow.ones(3, requires_grad=True)
    start.wait()
    y = ((x * 2).exp() @ x).softmax(-1).clamp(0, 1) + undertow.linalg.norm(x)
    gradient, = undertow.autograd.grad(y, x, create_graph=True)
    seen.append((undertow.Tensor.exp, undertow.exp, undertow.Tensor.T, undertow.conv2d, gradient.tolist()))
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(len(seen), all(one == seen[0] for one in seen))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["8", "True"], answer.stderr


@pytest.mark.parametrize("package", ["distributions", "optim", "func"])
def test_threads_may_import_the_files_of_a_package_at_once(package: str) -> None:
    """In a process of its own; in whatever order, and with or without the package itself."""
    code = f"""
import importlib, pathlib, sys, threading, undertow
sys.setswitchinterval(1e-6)
folder = pathlib.Path(undertow.__file__).parent / {package!r}
names = ["undertow.{package}." + file.stem for file in sorted(folder.glob("*.py")) if file.stem != "__init__"]
start, failed = threading.Barrier(8), []
def use(number):
    start.wait()
    try:
        for name in names[number * 3 % len(names) :] + ["undertow.{package}"]:
            importlib.import_module(name)
        assert all(getattr(undertow.{package}, name) is not None for name in undertow.{package}.__all__)
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(failed)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n", answer.stderr


def test_late_properties_refuse_or_take_what_is_assigned_first() -> None:
    """In a process of its own, where nothing has been used yet."""
    code = """
import undertow
x = undertow.zeros(2, dtype=undertow.complex64)
x.real = undertow.ones(2)
try:
    x.T = 1
except AttributeError as error:
    print(x.tolist(), error)
x.sort = 7
print(x.sort, "sort" in vars(x), callable(undertow.zeros(1).sort))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [
        "[(1+0j), (1+0j)] attribute 'T' of 'torch._C.TensorBase' objects is not writable",
        "7 True True",
    ]


def test_a_late_function_gives_its_place_to_the_real_one(home: ModuleType) -> None:
    here = ModuleType("reader_of_late_things")
    sys.modules[here.__name__] = here
    try:
        here.double = late_function(here.__name__, home.__name__, "double")  # type: ignore[attr-defined]
        assert here.double(4) == 8
        assert here.double is home.double
    finally:
        del sys.modules[here.__name__]


def test_an_override_that_calls_a_late_method_runs_once(home: ModuleType) -> None:
    class Base:
        pass

    class Override(Base):
        calls = 0

        def greet(self) -> Any:
            self.calls += 1
            return [*super().greet(), "override"]  # type: ignore[misc]

    Base.greet = LateMethod(Base, f"{home.__name__}:Family", "greet", lambda found, name: found)  # type: ignore[attr-defined]
    instance = Override()
    assert instance.greet() == ["late", "override"]
    assert instance.calls == 1
    assert vars(Base)["greet"] is home.Family.greet


def test_a_late_method_that_was_set_aside_is_still_itself(home: ModuleType) -> None:
    class Base:
        pass

    late = LateMethod(Base, f"{home.__name__}:Family", "greet", lambda found, name: found)
    Base.greet = lambda self: [*late.__get__(self)(), "patched"]  # type: ignore[attr-defined]
    assert Base().greet() == ["late", "patched"]  # type: ignore[attr-defined]


def test_threads_that_import_parts_of_each_other() -> None:
    """Each begins at another end of files that need each other; none may be given half a file."""
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
import undertow
errors, wanted = [], %r
barrier = threading.Barrier(len(wanted))
def use(text):
    barrier.wait()
    try: exec(text, {"undertow": undertow})
    except BaseException as error: errors.append(repr(error))
threads = [threading.Thread(target=use, args=(text,)) for text in wanted]
[each.start() for each in threads], [each.join() for each in threads]
assert not errors, errors
"""
    wanted = ["import undertow.nn.utils.rnn", "import undertow.nn.utils.parametrizations", "undertow.nn.LSTM(1, 1)"]
    wanted += ["undertow.nn.utils.weight_norm", "undertow.nn.utils.clip_grad_norm_", "import undertow.nn.modules.rnn"]
    for turn in range(2):
        subprocess.run([sys.executable, "-c", code % (wanted[turn:] + wanted[:turn])], check=True)
    assert undertow.nn.utils.weight_norm is importlib.import_module("undertow.nn.utils").weight_norm
    assert callable(undertow.nn.utils.weight_norm) and callable(undertow.nn.utils.spectral_norm)
