"""Guards by themselves: each holds until what it watches changes, and then says what did."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import nn, optim
from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import known_value
from undertow._src.compile.effects import Read
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.carried_state import Renewed
from undertow._src.compile.guards.code_guard import CodeGuard
from undertow._src.compile.guards.graph_guards import GraphGuard
from undertow._src.compile.guards.guard import Guard, GuardList, failure
from undertow._src.compile.guards.hook_reads_guard import ReadGuard
from undertow._src.compile.guards.input_checks import InputValueGuard
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.guards.registered_hooks_guard import HookGuard
from undertow._src.compile.guards.scalar_guard import AnswerGuard
from undertow._src.compile.guards.setting_guard import SettingGuard
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.state_guards import StateGuards
from undertow._src.compile.guards.tensor_guards import ArrayGuard, GradientGuard, LayoutGuard, RequiresGradGuard
from undertow._src.compile.guards.tensor_metadata_guard import FactGuard
from undertow._src.compile.guards.variable_guard import VariableGuard
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.lr_schedulers import Schedules
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.python_draws import Generators
from undertow._src.compile.tracing.symbolic_scalars import Known, ScalarGuards
from undertow._src.types.devices import cpu


def reached(*roots: Any) -> Reached:
    walk = Walk()
    for root in roots:
        walk.follow(root, "root")
    return walk.found


def variable_guard(*roots: Any) -> VariableGuard:
    snapshot = Snapshot(reached(*roots))
    return VariableGuard(snapshot, snapshot.globals, set())


def hook_guard(*roots: Any) -> HookGuard:
    snapshot = Snapshot(reached(*roots))
    return HookGuard(snapshot, VariableGuard(snapshot, snapshot.globals, set()))


def check(guard: Guard, change: Callable[[], Any], said: str) -> None:
    """The guard holds, does not after a change, and says why. Words in memory tell the same; see `words`."""
    assert guard.hold([]) and guard.watches
    quick = GuardList([guard])
    assert quick.hold([]) and quick.hold([])
    change()
    assert not guard.hold([]) and not quick.hold([])
    assert said in guard.reason()


class Thing:
    def __init__(self) -> None:
        self.size, self._cache, self.names = 1, 0, ["a"]


def test_places() -> None:
    thing, table = Thing(), {"a": 1}
    check(variable_guard(thing), lambda: setattr(thing, "size", 2), "root: size was 1 and is 2")
    check(variable_guard(thing), lambda: thing.names.append("b"), "root.names had 1 entries and has 2")
    check(variable_guard(table), lambda: table.update(b=2), "b was absent and is 2")
    check(variable_guard(table), table.clear, "a was 1 and is absent")
    check(variable_guard(thing), lambda: setattr(thing, "__dict__", dict(vars(thing))), "in another dict")


def test_places_that_are_equal_hold() -> None:
    thing = Thing()
    guard = variable_guard(thing)
    thing.size = int("1")
    thing.names[0] = "".join(["a"])
    assert guard.hold([])


def test_places_that_do_not_count() -> None:
    thing = Thing()
    guards = StateGuards(Snapshot(reached(thing)))
    guards.ignore({(id(vars(thing)), "size")})
    thing.size = 2
    assert failure(guards, []) == ""
    thing.names = []
    assert "names" in failure(guards, [])


def test_private_names_explain_least() -> None:
    thing, array = Thing(), np.zeros(3)
    guards = StateGuards(Snapshot(reached(thing, array)))
    thing._cache = 1
    assert "_cache was 0 and is 1" in failure(guards, [])
    array[0] = 1
    assert failure(guards, []) == "the NumPy array root changed"


def test_closure_cells_and_names() -> None:
    inside = 1

    def step() -> int:
        return inside + len([])

    def change() -> None:
        nonlocal inside
        inside = 2

    check(variable_guard(step), change, "inside was 1 and is 2")


def test_hooks() -> None:
    layer = nn.Linear(2, 2)
    check(hook_guard(layer), lambda: layer.register_forward_hook(print), "the forward hooks of root")
    check(hook_guard(layer), lambda: layer.weight.register_hook(print), "the hooks on a tensor of shape [2, 2] changed")
    guard = hook_guard(layer)
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not guard.hold([]) and "all modules" in guard.reason()
    handle.remove()
    assert guard.hold([])


def test_hooks_that_go_past_the_count() -> None:
    layer = nn.Linear(2, 2)
    guard = hook_guard(layer)
    assert guard.hold([])
    super(type(layer._forward_hooks), layer._forward_hooks).__setitem__(1, print)
    assert not guard.hold([])


def test_tensors() -> None:
    x = torch.ones(2, requires_grad=True)
    check(RequiresGradGuard([x]), lambda: x.requires_grad_(False), "requires_grad of a tensor of shape [2] changed")
    x.requires_grad_()
    check(
        GradientGuard([x]), lambda: x.sum().backward(), "shape [2] had no gradient when the step was compiled, and now"
    )
    array = np.zeros(3)
    check(ArrayGuard([(array, array.copy())], [(array, "table")], set()), lambda: array.fill(1), "NumPy array table")


def test_layouts() -> None:
    w = torch.ones(2, 3)
    check(
        LayoutGuard([w]),
        lambda: setattr(w, "data", torch.ones(3, 2)),
        "the shape of a tensor of shape [2, 3] changed from (2, 3) to (3, 2)",
    )
    check(LayoutGuard([w]), lambda: setattr(w, "data", w.data.double()), "the dtype of a tensor")
    check(LayoutGuard([w]), lambda: setattr(w, "data", torch.ones(2, 3).double().T), "the strides of a tensor")
    guard = LayoutGuard([w])
    w.data = torch.zeros(2, 3).double().T
    assert guard.hold([])
    w.data = torch.zeros(5)
    guard.trust([(w, w._array)])  # what the program itself leaves there
    assert guard.hold([])
    w.data = torch.zeros(5)
    assert not guard.hold([])


def test_code() -> None:
    def step() -> int:
        return 1

    def other() -> int:
        return 2

    check(CodeGuard(reached(step)), lambda: setattr(step, "__code__", other.__code__), "step changed")
    layer = nn.Linear(2, 2)
    check(CodeGuard(reached(layer)), lambda: setattr(layer, "__class__", nn.Bilinear), "a Linear is a Bilinear now")


def test_graphs() -> None:
    y = torch.ones(2, requires_grad=True) * 2
    check(GraphGuard([y]), lambda: y.register_hook(print), "the hooks on MulBackward0")
    check(GraphGuard([y]), lambda: y.detach_(), "computed again")


def test_settings() -> None:
    def step() -> int:
        return sys.getrecursionlimit()

    guard = SettingGuard(reached(step))
    before = sys.getrecursionlimit()
    try:
        check(guard, lambda: sys.setrecursionlimit(before + 1), "getrecursionlimit was")
    finally:
        sys.setrecursionlimit(before)
    assert guard.hold([])


def test_facts_and_values_of_arguments() -> None:
    x = torch.ones(2)
    facts = FactGuard({"is_leaf"}, [])
    facts.compare([x], [x])
    assert facts.hold([x]) and not facts.hold([torch.ones(2, requires_grad=True) * 2])
    assert facts.reason() == "`.is_leaf` of a tensor changed"
    lengths = InputValueGuard([(lambda arguments: arguments[0].numpy(), np.array([1, 2]))])
    assert lengths.hold([torch.tensor([1, 2])]) and not lengths.hold([torch.tensor([1, 3])])


def test_options() -> None:
    optimizer = optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    group = optimizer.param_groups[0]
    options = Options([optimizer], True, Counters(()))
    group["lr"] = 0.2  # numbers are inputs
    check(options, lambda: group.update(nesterov=True), "param_groups[0]['nesterov'] was False and is True")


def test_values_that_hooks_read() -> None:
    limits: dict[str, Any] = {"top": 1.0, "names": []}
    reads = [Read(name, lambda name=name: limits[name], limits[name], kept_at=(limits, name)) for name in limits]
    assert not ReadGuard([]) and ReadGuard(reads)
    assert ReadGuard(reads).watches == "values that hooks read: `top`, `names`"
    check(ReadGuard(reads), lambda: limits.update(top=2.0), "`top`, which a hook reads, was 1.0 and is 2.0")
    assert list(ReadGuard(reads).changed_numbers().values()) == [(limits, "top")]
    limits["top"] = 1  # equal, but of another type, and so no number that could become an input
    assert not ReadGuard(reads).hold([]) and not ReadGuard(reads).changed_numbers()
    limits["top"] = float("1")
    limits["names"] = []  # lists count by what they hold
    check(ReadGuard(reads), lambda: limits.update(names=["a"]), "`names`, which a hook reads,")


def test_answers_about_numbers() -> None:
    optimizer = optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    (group,) = optimizer.param_groups
    options = Options([optimizer], False, Counters(()))
    asked = [(operator.lt, operator.itemgetter(0), lambda values: 0.5, True)]  # the step has asked whether lr < 0.5
    guard = AnswerGuard(
        ScalarGuards(asked, options.values()), options, Schedules(options, Known(), [], False, Generators([]))
    )
    assert guard.number == 1
    group["lr"] = 0.2  # another number with the same answer
    assert guard.hold([]) and guard.numbers()[0] == 0.2
    check(
        guard,
        lambda: group.update(lr=0.7),
        "SGD.param_groups[0]['lr'] was 0.2 and is 0.7, and a comparison in the step comes out",
    )
    group["lr"] = 0.3
    assert guard.hold([])
    group["momentum"] = 0.9  # nothing was asked about it
    assert guard.hold([])


def test_carried_state() -> None:
    state: dict[str, Any] = {"hidden": torch.ones(2)}
    said = "`hidden` holds tensors of a different kind or shape than when the step was compiled"
    for other in (torch.ones(3), torch.ones(2).double(), torch.ones(2, requires_grad=True), [torch.ones(2)], None):
        state["hidden"] = torch.ones(2)
        guard = Renewed([(state, "hidden")], Reached())
        state["hidden"] = torch.zeros(2)  # each step leaves another tensor there
        check(guard, lambda: state.update(hidden=other), said)
    state["hidden"] = (torch.ones(2), [torch.ones(3)])
    guard = Renewed([(state, "hidden")], Reached())
    assert "`hidden`" in guard.watches and len(guard.tensors()) == 2
    state["hidden"] = (torch.zeros(2), [torch.zeros(3)])
    check(guard, lambda: state["hidden"][1].append(torch.ones(1)), said)


def test_carried_state_whose_shape_does_not_count() -> None:
    state = {"last": torch.ones(2)}

    def in_trace(tensor: Any) -> Any:
        shown = tensor.clone()
        shown._array = DeviceArray(known_value(shown._array), cpu)
        return shown

    guard = Renewed([(state, "last")], Reached())
    guard.show(in_trace)
    guard.take_back()
    guard.finish(lambda tensor: False)  # neither the trace nor the program read it
    state["last"] = torch.ones(7)
    check(guard, lambda: state.update(last=torch.ones(7).double()), "`last` holds tensors of a different kind")
    guard = Renewed([(state, "last")], Reached())
    guard.show(in_trace)
    guard.take_back()
    guard.finish(lambda tensor: True)
    check(guard, lambda: state.update(last=torch.ones(2).double()), "`last` holds tensors of a different kind or shape")


def test_places_that_cannot_be_carried() -> None:
    known = torch.ones(2)
    state = {"own": known, "hooked": torch.ones(2, requires_grad=True), "other": object()}
    state["hooked"].register_hook(print)
    guard = Renewed([(state, name) for name in state], Reached(seen={id(known)}))
    assert len(guard.refused) == 3


def test_every_guard_is_tested_alone() -> None:
    kinds = {kind.__name__ for kind in Guard.__subclasses__() if kind.__module__.startswith("undertow.")}
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_guards*.py"))
    assert len(kinds) >= 17 and {name for name in kinds if f"{name}(" not in text} == set()


def test_a_program_lists_all_that_it_depends_on() -> None:
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model.register_forward_hook(lambda module, args, output: output * 2)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(3, 2)
    for _ in range(3):
        step(x)
    (programs,) = step.programs.values()
    program = programs[0]
    assert program.guards_hold([x]) and all(guard.hold([x]) for guard in program.guards)
    listed = torch.compile.explain(step).data[0]["programs"][0]["guards"]
    assert len(listed) == len({guard.watches for guard in program.guards}) < len(program.guards)
    assert "hooks on modules, optimizers, tensors and nodes: 1" in listed
    assert "which tensors require a gradient: 2" in listed
    said = str(torch.compile.explain(step)).splitlines()
    assert all(f"      {line}" in said for line in listed)
    model.register_forward_hook(lambda module, args, output: None)
    failing = [guard for guard in program.guards if not guard.hold([x])]
    assert [type(guard) for guard in failing] == [HookGuard]
    assert program.guard_failure([x]) == failing[0].reason()


@pytest.mark.parametrize("name", ["is_leaf", "_version"])
def test_properties_of_tensors_that_code_looks_up_by_strings(name: str) -> None:
    def look(tensor: Any, key: str) -> Any:
        return getattr(tensor, key)

    def step_for(name: str) -> Any:
        if name == "is_leaf":
            return torch.compile(lambda x: x * (2 if look(x, "is_leaf") else 3))
        return torch.compile(lambda x: x * (1 + look(x, "_version")))

    step = step_for(name)
    step(torch.ones(2, requires_grad=True))
    with pytest.raises(CompileError, match=name):
        step(torch.ones(2, requires_grad=True) * 1 if name == "is_leaf" else torch.ones(2).add_(1))
