"""Every row of `hooks.POINTS` has a registrar, fires, and fires in PyTorch's order.

A program per row registers two hooks (and, where the row has one, a hook for all modules) through the row's registrars
and makes them fire. The log is compared with torch's, and must show every hook, in the order that the table states.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import undertow
from tests.oracle.harness import agree, outcome
from undertow._src.base.hooks import POINTS, Point, fire
from undertow._src.engine.node import Node

BEYOND_PYTORCH = {"module.parameters_ready"}


def resolve(torch: Any, path: str) -> Any:
    """A registrar by its dotted path; nodes are no public class."""
    found: Any = Node if path.startswith("Node.") else torch
    for name in path.removeprefix("Node.").split("."):
        if not hasattr(found, name):  # torch.optim hides its file optimizer
            importlib.import_module(f"{found.__name__}.{name}")
            found = sys.modules[f"{found.__name__}.{name}"]
        else:
            found = getattr(found, name)
    return found


class Bench:
    """What the programs are written with."""

    def __init__(self, torch: Any, log: Any, point: Point) -> None:
        self.torch, self.log, self.point = torch, log, point
        self.handles: list[Any] = []
        self.callers: set[Any] = set()  # the code that calls the hooks

    def hook(self, name: str, result: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def fired(*args: Any) -> Any:
            self.log(name)
            self.callers.add(sys._getframe(1).f_code)
            return None if result is None else result(*args)

        return fired

    def own(self, target: Any, *more: Any, result: Callable[..., Any] | None = None, **options: Any) -> None:
        """Two hooks on an object, by the method that the row names."""
        method = getattr(target, self.point.registrar.rpartition(".")[2])
        self.handles += [method(self.hook(name, result), *more, **options) for name in ("first", "second")]

    def everywhere(self) -> None:
        register = resolve(self.torch, self.point.everywhere or self.point.registrar)
        self.handles += [register(self.hook(name)) for name in ("for all", "for all too")]

    def finish(self) -> None:
        for handle in self.handles:
            handle.remove()
        space = self.torch.nn.modules.module
        for home in (space, getattr(space, "_registry", space)):
            home._global_is_full_backward_hook = None

    def leaf(self) -> Any:
        return self.torch.tensor([1.0, 2.0], requires_grad=True)

    def called(self) -> None:
        """A module with the row's hooks, called and differentiated."""
        module = self.torch.nn.Tanh()
        self.own(module)
        self.everywhere()
        module(self.leaf()).sum().backward()

    def registering(self, make: Callable[[Any], Any]) -> None:
        self.everywhere()
        make(self.torch.nn.Module())

    def saved(self, pack: Any, unpack: Any) -> None:
        with self.torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out = self.leaf().exp()
        out.sum().backward()

    def multi(self, mode: str) -> None:
        a, b = self.leaf(), self.leaf()
        register = resolve(self.torch, self.point.registrar)
        self.handles += [register((a, b), self.hook(name), mode=mode) for name in ("first", "second")]
        (a * b).sum().backward()


PROGRAMS: dict[str, Callable[[Bench], Any]] = {
    "tensor.grad": lambda b: _tensor(b),
    "tensor.post_accumulate": lambda b: _tensor(b),
    "node.pre": lambda b: _node(b),
    "node.post": lambda b: _node(b),
    "multi_grad.all": lambda b: b.multi("all"),
    "multi_grad.any": lambda b: b.multi("any"),
    "saved.pack": lambda b: b.saved(b.hook("first", lambda t: t), lambda t: t),
    "saved.unpack": lambda b: b.saved(lambda t: t, b.hook("first", lambda t: t)),
    "module.forward_pre": Bench.called,
    "module.forward": Bench.called,
    "module.backward_pre": Bench.called,
    "module.backward": Bench.called,
    "module.backward_old": Bench.called,
    "module.parameters_ready": lambda b: _parameters_ready(b),
    "module.parameter_registration": lambda b: b.registering(
        lambda m: m.register_parameter("p", b.torch.nn.Parameter(b.torch.ones(1)))
    ),
    "module.buffer_registration": lambda b: b.registering(lambda m: m.register_buffer("p", b.torch.ones(1))),
    "module.module_registration": lambda b: b.registering(lambda m: m.add_module("p", b.torch.nn.ReLU())),
    "module.state_dict_pre": lambda b: _state(b),
    "module.state_dict": lambda b: _state(b),
    "module.load_state_dict_pre": lambda b: _load(b),
    "module.load_state_dict": lambda b: _load(b),
    "optimizer.step_pre": lambda b: _optimize(b),
    "optimizer.step": lambda b: _optimize(b),
    "optimizer.state_dict_pre": lambda b: _optimize(b),
    "optimizer.state_dict": lambda b: _optimize(b),
    "optimizer.load_state_dict_pre": lambda b: _optimize(b),
    "optimizer.load_state_dict": lambda b: _optimize(b),
}


def _optimize(b: Bench) -> None:
    parameter = b.leaf()
    optimizer = b.torch.optim.SGD([parameter], lr=0.1)
    b.own(optimizer)
    if b.point.everywhere:
        b.everywhere()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())


def _tensor(b: Bench) -> None:
    x = b.leaf()
    b.own(x)
    (x * 2).sum().backward()


def _node(b: Bench) -> None:
    y = b.leaf() * 2
    b.own(y.grad_fn)
    y.sum().backward()


def _parameters_ready(b: Bench) -> None:
    module = b.torch.nn.Linear(2, 2)
    b.own(module)
    module(b.torch.ones(2)).sum().backward()


def _state(b: Bench) -> None:
    module = b.torch.nn.Linear(1, 1)
    b.own(module)
    module.state_dict()


def _load(b: Bench) -> None:
    module = b.torch.nn.Linear(1, 1)
    b.own(module)
    module.load_state_dict(module.state_dict())


def program_of(point: Point) -> Callable[..., None]:
    def program(torch: Any, log: Any) -> None:
        bench = Bench(torch, log, point)
        try:
            PROGRAMS[point.name](bench)
        finally:
            bench.finish()
        if torch is undertow:
            assert bench.callers == {fire.__code__}, "one function calls all hooks"

    return program


def test_every_row_has_a_program() -> None:
    assert [point.name for point in POINTS] == list(PROGRAMS)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_row(point: Point) -> None:
    for path in filter(None, (point.registrar, point.everywhere)):
        assert callable(resolve(undertow, path)), path
    assert point.read in ("live", "forward")
    if point.name in BEYOND_PYTORCH:
        done = outcome(undertow, program_of(point))
        assert done.error is None
    else:
        done = agree(program_of(point), raises=False)
    order = [entry[0] for entry in done.log]
    own = ["first"] if point.name.startswith("saved.") else ["first", "second"] * ("registration" not in point.name)
    for_all = ["for all", "for all too"] * bool(point.everywhere or "registration" in point.name)
    assert order == (own + for_all if point.name == "optimizer.step" else for_all + own)


DOCUMENT = Path(__file__).parents[2] / "docs" / "hooks.md"
TABLE = re.compile(r"(<!-- table: hooks.POINTS -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def rendered() -> str:
    lines = ["| point | registered by | called with | its result | read |", "|---|---|---|---|---|"]
    for point in POINTS:
        registrars = "<br>".join(f"`{path}`" for path in (point.registrar, point.everywhere) if path)
        lines.append(f"| {point.name} | {registrars} | `{point.arguments}` | {point.result} | {point.read} |")
    return "\n".join(lines) + "\n"


def test_the_documented_table_is_this_one() -> None:
    """To write it anew: python -c "from tests.oracle.test_hook_points import write; write()"."""
    found = TABLE.search(DOCUMENT.read_text())
    assert found is not None and found[2] == rendered()


def write() -> None:
    DOCUMENT.write_text(TABLE.sub(lambda found: found[1] + rendered() + found[3], DOCUMENT.read_text()))
