"""Steps that call more code of installed packages than is read: of that, only what runs is."""

from __future__ import annotations

import cProfile
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import undertow as torch
from undertow import nn
from undertow._src.compile import CompileError, CompileWarning, compiled
from undertow._src.compile.effects import Coverage, analyzer, purity
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.splitting import step_reading
from undertow._src.compile.tracing.code_coverage import Recording

NAME = "undertow_tests_large"
LARGE = "\n".join(f"def rare_{n}(v):\n    LOG.append({n})\n    return rare_{n + 1}(v) * 1.01" for n in range(20))
# fmt: off
PACKAGE = """
import collections, functools, random, time
import undertow
from undertow import nn
from undertow.autograd import Function

MODE, FLAG, RATE, COUNT, TABLE = "usual", False, 0.0, 0, None
LOG, SEEN, MEMO = [], set(), {}

def rare_20(v): return v
%s

def usual(v):
    if MODE != "usual":
        v = rare_0(v)
    return v * 2

def flag(v):
    if FLAG:
        print("flagged")
        return v * 3
    return v

def counts(v):
    global COUNT
    COUNT += 1
    return v + 1

def prints(v):
    print("a line")
    return v * 2

def swallows(v):
    try:
        print("tried")
    except Exception:
        return v
    return v * 2

@functools.cache
def factor(n):
    LOG.append(n)
    return n + 1

def cached(v): return v * factor(2)

@functools.cache
def announced(n):
    print("announced", n)
    return n + 1

def cached_with_a_line(v): return v * announced(2)

def warns_once(v):
    if "warned" not in SEEN:
        SEEN.add("warned")
        print("once")
    return v * 2

def fills(v):
    global TABLE
    if TABLE is None:
        TABLE = [1.0, 2.0]
        MEMO["filled"] = True
    return v * TABLE[1]

def imports(v):
    from undertow_tests_large_part import doubled
    return doubled(v)

def imports_what_acts(v):
    from undertow_tests_large_acting import tripled
    return tripled(v)

def parts(v):
    LOG.append("begin")
    yield v
    LOG.append("middle")
    yield v * 2
    LOG.append("end")

def sums(v): return sum(parts(v))

class Doubled(Function):
    @staticmethod
    def forward(ctx, v): return v * 2
    @staticmethod
    def backward(ctx, g):
        LOG.append("backward")
        return g * 2

def custom(v): return Doubled.apply(v)

def short(v):
    if RATE > 0 and random.getrandbits(3) < 9:
        return v * 3
    return v

def clock(v): return v + 0 * (time.time() > 0)

def writes(v, path):
    with open(path, "a") as file:
        file.write("x")
    return v

def saves(v, path):
    undertow.save({"one": 1}, path)
    return v

def raises(v): raise KeyError("of the package")

class Makers(collections.OrderedDict):
    def __getitem__(self, key):
        LOG.append(key)
        return super().__getitem__(key)()

MAKERS = Makers(one=lambda: 1.0, two=lambda: 2.0)

def makes(v): return v * MAKERS["two"]

class Meter:
    def __init__(self): self.best, self.total, self.steps = None, 0.0, 0
    def update(self, value):
        self.total += value
        self.steps += 1
        if self.best is None or value < self.best:
            self.best = value
            print("best", round(value, 3))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls, self.kept = nn.Linear(3, 3), 0, None
    def forward(self, v):
        self.calls += 1
        if self.kept is None:
            self.kept = self.inner.weight.detach().sum().reshape(1)
        return self.inner(v) + self.kept
""" % LARGE  # noqa: UP031  (there are braces in it)
# fmt: on
ACTING = """
import time

print("imported")
BEGIN = time.time()

def tripled(v): return v * 3
"""
STATE = "COUNT", "TABLE", "LOG", "SEEN", "MEMO"
FUNCTIONS = [
    "usual", "flag", "counts", "prints", "swallows", "cached", "cached_with_a_line", "warns_once", "fills", "imports",
    "imports_what_acts", "sums", "custom", "short", "makes",
]  # fmt: skip


class World:
    """The package, newly imported, and what can be seen of what it did."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        for name in (NAME, f"{NAME}_part", f"{NAME}_acting"):
            sys.modules.pop(name, None)
        self.package = __import__(NAME)
        self._capsys = capsys
        capsys.readouterr()

    def seen(self) -> Any:
        said = self._capsys.readouterr().out.splitlines()
        return [line for line in said if line], {name: getattr(self.package, name) for name in STATE}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], World]:
    """Import a package that is installed, and is too large to be read."""
    (tmp_path / f"{NAME}.py").write_text(PACKAGE)
    (tmp_path / f"{NAME}_part.py").write_text("def doubled(v): return v * 2\n")
    (tmp_path / f"{NAME}_acting.py").write_text(ACTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(purity, "_INSTALLED_FOLDERS", (*purity._INSTALLED_FOLDERS, str(tmp_path)))
    monkeypatch.setattr(step_reading, "FEW_STEPS", 12)
    purity.origin_of_file.cache_clear()
    return lambda: World(capsys)


Step = Callable[[ModuleType], Callable[[Any], Any]]


def agree(make: Callable[[], World], step: Step, between: Callable[[int, ModuleType], Any] = lambda *_: None) -> Any:
    """Compiled calls do what eager calls do, and leave what those leave. The step, compiled."""
    outcomes: list[list[str]] = []
    made: Any = None
    for compiles in (False, True):
        torch.manual_seed(0)
        world = make()
        called: Any = step(world.package)
        called = made = torch.compile(called) if compiles else called
        outcome = []
        for turn in range(4):
            result = called(torch.full((3,), turn + 1.0, requires_grad=True))
            outcome.append(repr(([round(each, 3) for each in result.flatten().tolist()], world.seen())))
            between(turn, world.package)
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]
    assert made.coverage is not None, "it was read in full"
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_package(make: Callable[[], World], name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)  # nothing is too large to follow
        agree(make, lambda package: lambda x: getattr(package, name)(x).detach())


def test_what_the_collector_calls_is_no_part_of_a_step(make: Callable[[], World]) -> None:
    times = []

    def note(phase: str, info: dict[str, int]) -> None:
        times.append(time.perf_counter())

    gc.callbacks.append(note)
    try:
        agree(make, lambda package: lambda x: package.makes(x).detach())
    finally:
        gc.callbacks.remove(note)
    assert times


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_package_in_training(make: Callable[[], World], name: str) -> None:
    def build(package: Any) -> Any:
        layer = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(layer.parameters(), 0.001, momentum=0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = getattr(package, name)(layer(x)).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    agree(make, build)


@pytest.mark.parametrize(
    ("name", "change", "value"),
    [("flag", "FLAG", True), ("usual", "MODE", "rare"), ("fills", "TABLE", None), ("cached", "factor", lambda n: n)],
)
def test_other_ways_through_a_package(make: Callable[[], World], name: str, change: str, value: Any) -> None:
    """A program is for one way: what changes later makes another one, for which the code is read again."""

    def between(turn: int, package: ModuleType) -> None:
        if turn == 1:
            setattr(package, change, value)

    agree(make, lambda package: lambda x: getattr(package, name)(x).detach(), between)


def test_ways_of_the_step_itself(make: Callable[[], World]) -> None:
    """What a step calls behind a test of its own is read when it has come to it, and not before."""

    def build(package: Any) -> Any:
        turns = iter(range(8))
        way = {"loud": False, "deep": False}

        def step(x: Any) -> Any:
            if way["loud"]:
                x = package.prints(x)
            elif way["deep"]:
                x = package.rare_0(x)
            return package.usual(x).detach()

        def turned(x: Any) -> Any:
            turn = next(turns)
            way["loud"], way["deep"] = turn in (1, 3), turn == 2
            return inner(x)

        inner = torch.compile(step) if building.pop() else step
        return turned

    outcomes = []
    for compiles in (False, True):
        building, world = [compiles], make()
        called = build(world.package)
        outcomes.append([repr((called(torch.ones(3)).tolist(), world.seen())) for _ in range(4)])
    assert outcomes[0] == outcomes[1]


def test_what_the_reader_was_not_told_of_makes_no_trace_again(
    make: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own code is read whether it runs or not: that it runs is no news."""
    package: Any = make().package
    tried: list[Any] = []

    made = compiled.make_program

    def make_program(*args: Any) -> Any:
        tried.append(args)
        return made(*args)

    def own(x: Any, doubles: bool) -> Any:
        return x * 2 if doubles else x * 3

    monkeypatch.setattr(compiled, "make_program", make_program)
    step = torch.compile(lambda x, doubles: own(package.usual(x), doubles))
    assert step(torch.ones(2), True).tolist() == [4.0, 4.0]
    assert step(torch.ones(2), False).tolist() == [6.0, 6.0]
    assert len(tried) == 3  # the first of which was thrown away


def test_a_function_in_c_that_comes_later(make: Callable[[], World]) -> None:
    """Behind a test that fails random numbers are no obstacle; when it does not, they are."""
    package: Any = make().package
    step = torch.compile(lambda x: package.short(x))
    assert step(torch.ones(2)).tolist() == [1.0, 1.0]
    package.RATE = 1.0
    with pytest.raises(CompileError, match=r"Random\.getrandbits|random\.getrandbits"):
        step(torch.ones(2))


def test_a_clock(make: Callable[[], World]) -> None:
    package: Any = make().package
    with pytest.raises(CompileError, match="time"):
        torch.compile(lambda x: package.clock(x))(torch.ones(2))


def test_what_undertow_does_outside_is_done_once_for_each_call(
    make: Callable[[], World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a trace that is thrown away."""
    package: Any = make().package
    step = torch.compile(lambda x: package.saves(x, tmp_path / "saved") * 2)
    saved: list[Any] = []
    real = os.replace

    def replace(*args: Any) -> None:
        saved.append(args)
        real(*args)

    monkeypatch.setattr(os, "replace", replace)
    for turn in range(3):
        step(torch.ones(2))
        assert len(saved) == turn + 1


def test_an_error_of_the_package(make: Callable[[], World]) -> None:
    package: Any = make().package
    with pytest.raises(KeyError, match="of the package"):
        torch.compile(lambda x: package.raises(x))(torch.ones(2))


def test_a_module_of_a_package(make: Callable[[], World]) -> None:
    def build(package: Any) -> Any:
        net = package.Net()

        def step(x: Any) -> Any:
            package.LOG.append(net.calls)
            return net(x).detach()

        return step

    agree(make, build)


def test_statements_on_the_host_come_to_other_code_than_traces_do(make: Callable[[], World]) -> None:
    """What is done with a value is never traced: all of it is read."""

    def build(package: Any) -> Any:
        meter = package.Meter()

        def step(x: Any) -> Any:
            loss = package.usual(x).sum()
            meter.update(-loss.item())
            package.LOG.append((meter.best, meter.total, meter.steps))
            return loss.detach()

        return step

    agree(make, build)


def test_what_the_step_returns_of_what_a_statement_on_the_host_changes(make: Callable[[], World]) -> None:
    def build(package: Any) -> Any:
        meter = package.Meter()

        def step(x: Any) -> Any:
            loss = package.usual(x).sum()
            meter.update(loss.item())
            return loss.detach() + meter.steps

        return step

    try:
        agree(make, build)
    except CompileError as error:
        assert "update" in str(error) or "value" in str(error)


def test_hooks_that_call_a_package(make: Callable[[], World]) -> None:
    """A hook runs with values, and is read in full."""

    def build(package: Any) -> Any:
        layer, meter = nn.Linear(3, 3), package.Meter()
        layer.weight.register_hook(lambda gradient: meter.update(gradient.norm().item()))

        def step(x: Any) -> Any:
            layer.zero_grad()
            loss = package.usual(layer(x)).sum()
            loss.backward()
            return loss.detach()

        return step

    agree(make, build)


def test_lines_of_the_users_own_code(make: Callable[[], World]) -> None:
    def build(package: Any) -> Any:
        losses: list[float] = []

        def step(x: Any) -> Any:
            print("before")
            loss = package.usual(x).sum()
            losses.append(loss.item())
            print("after", len(losses))
            return loss.detach()

        return step

    agree(make, build)


def test_a_package_in_which_a_file_is_written(make: Callable[[], World], tmp_path: Path) -> None:
    def build(package: Any) -> Any:
        path = tmp_path / f"lines{len(list(tmp_path.iterdir()))}"

        def step(x: Any) -> Any:
            package.LOG.append(path.read_text() if path.exists() else "")
            return package.usual(package.writes(x, str(path))).detach()

        return step

    agree(make, build)


def test_what_a_trace_that_is_thrown_away_did_is_put_back(make: Callable[[], World]) -> None:
    """The first trace ends before the line is printed; until then the package has counted, and filled its table."""
    world = make()
    package: Any = world.package

    def step(x: Any) -> Any:
        return package.prints(package.fills(package.counts(x)))

    torch.compile(step)(torch.ones(2))
    assert package.COUNT == 1
    assert world.seen()[0] == ["a line"]


def test_a_step_keeps_what_it_knows(make: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    """Further programs of a step are read at once as the first one was in the end."""
    package: Any = make().package
    tried: list[Any] = []

    made = compiled.make_program

    def make_program(*args: Any) -> Any:
        tried.append(args)
        return made(*args)

    monkeypatch.setattr(compiled, "make_program", make_program)
    step = torch.compile(lambda x: package.usual(x))
    for size in (2, 3, 4):
        step(torch.ones(size))
    assert len(tried) == 4  # the first of which was thrown away


def test_a_profiler_and_a_debugger_go_on() -> None:
    def tracing(frame: Any, event: str, arg: Any) -> Any:
        return None

    profiler, before = cProfile.Profile(), sys.gettrace()
    sys.settrace(tracing)
    try:
        profiler.enable()
        with Recording(Coverage(), Reached(), lambda: None):
            assert sys.gettrace() is not tracing
        assert sys.gettrace() is tracing
        sorted([1])
        profiler.disable()
    finally:
        sys.settrace(before)
    assert any("sorted" in str(each.code) for each in profiler.getstats())


def test_code_that_is_too_large_even_so(make: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "MOST_STEPS", 12)
    package: Any = make().package
    with pytest.warns(CompileWarning, match="too large"):
        torch.compile(lambda x: package.usual(x) + package.counts(x))(torch.ones(2))
