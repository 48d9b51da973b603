"""Hooks in the program and on the host that change one place: each finds and leaves there what eager hooks would."""

from __future__ import annotations

import types
from collections import OrderedDict
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn

case = Cases()


@pytest.mark.parametrize("name", case)
def test_acts_as_in_eager_mode(name: str) -> None:
    agree(case[name], steps=4)


class Notes:
    """What hooks note down."""

    count, shared = 0, 0

    def __init__(self) -> None:
        self.n, self.last, self.entries = 0, None, dict[str, Any]()


def hooked(notes: Any, *hooks: Any, look: Any = None) -> Case:
    """A step with forward hooks on the layers of a model, in their order."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for layer, hook in zip(model, hooks):
        layer.register_forward_hook(hook)

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    shown = look or (lambda: [{**vars(notes)}, [*vars(notes)], [*notes.entries]])
    return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=shown)


@case
def a_counter_that_a_later_hook_sets_back() -> Case:
    notes = Notes()

    def counts(module: Any, args: Any, out: Any) -> None:
        notes.n += 1

    def sets_back(module: Any, args: Any, out: Any) -> None:
        notes.n = len(notes.entries)

    return hooked(notes, counts, sets_back)


@case
def a_tensor_that_a_later_hook_replaces_by_a_number() -> Case:
    notes = Notes()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.last = out.detach()

    def measures(module: Any, args: Any, out: Any) -> None:
        notes.last = out.norm().item()

    return hooked(notes, keeps, measures)


@case
def a_number_that_a_later_hook_replaces_by_a_tensor() -> Case:
    notes = Notes()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.entries["last"] = out.detach()

    def measures(module: Any, args: Any, out: Any) -> None:
        notes.entries["last"] = out.norm().item()

    return hooked(notes, measures, keeps)


@case
def tensors_of_two_shapes_in_one_entry() -> Case:
    notes, kept = Notes(), list[Any]()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.entries["last"] = out.detach()

    def keeps_more(module: Any, args: Any, out: Any) -> None:
        kept.append(out.detach().clone())
        notes.entries["last"] = out.detach()

    return hooked(notes, keeps_more, (lambda module, args, out: None), keeps)


@case
def entries_in_the_order_of_the_hooks() -> Case:
    notes = Notes()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.entries["kept"] = out.detach()

    def measures(module: Any, args: Any, out: Any) -> None:
        notes.entries.setdefault("norms", []).append(out.norm().item())

    def keeps_again(module: Any, args: Any, out: Any) -> None:
        notes.entries["again"] = out.detach()

    return hooked(notes, keeps, measures, keeps_again)


@case
def attributes_in_the_order_of_the_hooks() -> Case:
    notes = types.SimpleNamespace(entries={})

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.kept = out.detach()

    def measures(module: Any, args: Any, out: Any) -> None:
        notes.norm = out.norm().item()

    return hooked(notes, keeps, measures)


@case
def entries_that_a_later_hook_clears() -> Case:
    notes = Notes()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes.entries["kept"] = out.detach()

    return hooked(notes, keeps, lambda module, args, out: notes.entries.clear())


@case
def entries_that_a_later_hook_moves() -> Case:
    entries: OrderedDict[str, Any] = OrderedDict()

    def keeps(name: str) -> Any:
        def hook(module: Any, args: Any, out: Any) -> None:
            entries[name] = out.detach()

        return hook

    def moves(module: Any, args: Any, out: Any) -> None:
        entries.move_to_end("first")

    return hooked(None, keeps("first"), keeps("second"), moves, look=lambda: [[*entries], dict(entries)])


@case
def attributes_of_a_class() -> Case:
    class Own(Notes):
        pass

    def counts(module: Any, args: Any, out: Any) -> None:
        Own.count += 1

    def sets_back(module: Any, args: Any, out: Any) -> None:
        Own.count = 0

    return hooked(None, counts, sets_back, look=lambda: Own.count)


COUNT = 0


@case
def globals_of_a_module() -> Case:
    def counts(module: Any, args: Any, out: Any) -> None:
        global COUNT
        COUNT += 1

    def sets_back(module: Any, args: Any, out: Any) -> None:
        global COUNT
        COUNT = 0

    return hooked(None, counts, sets_back, look=lambda: COUNT)


@case
def a_hook_that_the_step_makes() -> Case:
    model, notes = nn.Linear(3, 2), dict[str, Any]()

    def step(x: Any) -> None:
        out = model(x)

        def keeps(gradient: Any) -> None:
            notes["gradient"] = gradient.detach()

        out.register_hook(keeps)
        loss = out.pow(2).mean()
        loss.backward()
        notes.setdefault("losses", []).append(loss.item())

    look = lambda: [[*notes], dict(notes)]
    return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=look)


@case
def a_statement_of_the_step_after_a_hook() -> Case:
    model, notes = nn.Linear(3, 2), dict[str, Any]()

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes["kept"] = out.detach()

    model.register_forward_hook(keeps)

    def step(x: Any) -> Any:
        out = model(x)
        notes["norm"] = out.norm().item()
        return out.detach()

    look = lambda: [[*notes], dict(notes)]
    return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=look)


def noted(around: Any, hook: Any) -> Case:
    """A step that sets attributes of an object around those that a hook on the host sets."""
    model, notes = nn.Linear(3, 2), Notes()
    model.weight.register_hook(lambda gradient: hook(notes, gradient))

    def step(x: Any) -> None:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        around(notes, loss)

    look = lambda: [[*vars(notes)], {**vars(notes)}]
    return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=look)


def before(notes: Any, loss: Any) -> None:
    notes.loss = loss.detach()
    loss.backward()


def after(notes: Any, loss: Any) -> None:
    loss.backward()
    notes.loss = loss.detach()


def around(notes: Any, loss: Any) -> None:
    notes.loss = loss.detach()
    loss.backward()
    notes.done = True


def for_a_while(notes: Any, loss: Any) -> None:
    notes.loss = loss.detach()
    loss.backward()
    del notes.loss


def measures(notes: Any, gradient: Any) -> None:
    notes.norm = gradient.norm().item()


@pytest.mark.parametrize("where", [before, after, around, for_a_while])
def test_attributes_that_the_step_and_a_hook_add(where: Any) -> None:
    agree(lambda: noted(where, measures))


def test_attributes_that_are_added_before_a_hook_raises() -> None:
    """The step runs again as it is written, without what the hook has done."""

    def order(compiled: bool) -> list[str]:
        def raises(notes: Any, gradient: Any) -> None:
            notes.norm = gradient.norm().item()
            notes_of.append(notes)
            raise ValueError("stop")

        notes_of: list[Any] = []
        case = noted(before, raises)
        with pytest.raises(ValueError, match="stop"):
            (torch.compile(case.step) if compiled else case.step)(torch.ones(2, 3))
        return [*vars(notes_of[0])]

    assert order(True) == order(False)


def test_entries_of_their_own_leave_a_hook_in_the_program() -> None:
    """Hooks that change different entries, which are there already, need not wait for each other."""
    notes: dict[str, Any] = {"norm": 0.0, "last": None}
    layer = nn.Linear(3, 2)

    def keeps(module: Any, args: Any, out: Any) -> None:
        notes["last"] = out.detach()

    def measures(module: Any, args: Any, out: Any) -> None:
        notes["norm"] = out.norm().item()

    layer.register_forward_hook(keeps)
    layer.register_forward_hook(measures)
    step = torch.compile(lambda x: layer(x).sum())
    step(torch.ones(2, 3))
    placed = torch.compile.explain(step).data[0]["programs"][0]["hooks"]
    assert [each["runs"] for each in placed] == ["in the program", "in the program"], placed


def test_what_a_hook_writes_before_it_raises() -> None:
    """A hook that writes into gradients and raises at its second turn leaves what eager mode leaves."""

    def left(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model, turns = nn.Linear(3, 2), list[int]()

        def halves(parameter: Any) -> None:
            turns.append(1)
            parameter.grad.mul_(0.5)
            if len(turns) == 2:
                raise ValueError("stop")

        model.weight.register_post_accumulate_grad_hook(halves)

        def step(x: Any) -> None:
            model(x).pow(2).mean().backward()
            model(x).sum().backward()

        with pytest.raises(ValueError, match="stop"):
            (torch.compile(step) if compiled else step)(torch.ones(2, 3))
        return [each.grad for each in model.parameters()]

    for compiled, eager in zip(left(True), left(False)):
        torch.testing.assert_close(compiled, eager)
