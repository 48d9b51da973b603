"""After a trace nothing differs from before: whatever the trace met, and whatever refuses to be put back."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict, deque
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.compile import CompileError, CompileWarning
from undertow._src.compile.effects import purity
from undertow._src.compile.guards import snapshot
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.tracing import capture as tracing

case = Cases()


class Fixed(OrderedDict[str, Any]):
    """As packages' results are: entries are set one by one, and everything else is forbidden."""

    def __delitem__(self, key: str) -> None:
        raise TypeError("not like this")

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("not like this")

    def pop(self, *args: Any) -> Any:
        raise TypeError("not like this")

    def clear(self) -> None:
        raise TypeError("not like this")


class Tidy(dict[str, Any]):
    """Counts what is set."""

    sets = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.sets += 1
        super().__setitem__(key, value)


class Instantiating(OrderedDict[str, Any]):
    """As packages keep their activations: what it holds are classes, what it gives are instances."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()

    def values(self) -> Any:
        raise TypeError("not like this")

    def items(self) -> Any:
        raise TypeError("not like this")


class Counting(list[Any]):
    """Gives something else than it holds."""

    def __iter__(self) -> Any:
        return iter([each.tolist() for each in list.__iter__(self)])


class Cautious(list[Any]):
    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(place, slice):
            raise TypeError("not like this")
        super().__setitem__(place, value)

    def clear(self) -> None:
        raise TypeError("not like this")


class Short(deque[Any]):
    def clear(self) -> None:
        raise TypeError("not like this")


def keeping(held: Any, keep: Any, look: Any = None) -> Case:
    """A training step that keeps its loss somewhere."""
    model = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).sum()
        keep(held, loss.detach())
        loss.backward()
        return loss.detach()

    return Case(step, model, args=lambda turn: (torch.ones(3, 2) * (turn + 1),), look=look or (lambda: held))


@case
def in_a_dict_that_forbids_update() -> Case:
    def keep(held: Any, loss: Any) -> None:
        held["loss"] = loss

    return keeping(Fixed(loss=torch.zeros(())), keep)


@case
def in_a_dict_that_forbids_update_and_was_empty() -> Case:
    def keep(held: Any, loss: Any) -> None:
        held["loss"] = loss

    return keeping(Fixed(), keep)


@case
def in_a_dict_that_counts_what_is_set() -> Case:
    held = Tidy()

    def keep(held: Any, loss: Any) -> None:
        held["loss"] = loss

    return keeping(held, keep, lambda: [dict(held), held.sets])


@case
def in_a_list_that_forbids_slices() -> Case:
    def keep(held: Any, loss: Any) -> None:
        held[0] = loss

    return keeping(Cautious([torch.zeros(())]), keep)


@case
def in_a_longer_list_that_forbids_slices() -> Case:
    def keep(held: Any, loss: Any) -> None:
        held.append(loss)

    return keeping(Cautious(), keep)


@case
def in_a_deque_that_forbids_clear() -> Case:
    held = Short(maxlen=2)

    def keep(held: Any, loss: Any) -> None:
        held.append(loss)

    return keeping(held, keep, lambda: [*held])


@case
def under_another_key_with_the_same_value() -> Case:
    mark = object()
    held: dict[str, Any] = {"a": mark}

    def keep(held: Any, loss: Any) -> None:
        held["b" if "a" in held else "a"] = held.pop("a" if "a" in held else "b")

    return keeping(held, keep, lambda: [*held])


@case
def beside_a_dict_that_gives_something_else_than_it_holds() -> Case:
    table = Instantiating(tanh=nn.Tanh, relu=nn.ReLU)
    held: list[Any] = []

    def keep(held: Any, loss: Any) -> None:
        held.append(table["tanh"](loss))

    return keeping(held, keep, lambda: [[*held], [*dict.values(table)] == [nn.Tanh, nn.ReLU]])


@case
def in_a_dict_that_gives_something_else_than_it_holds() -> Case:
    table = Instantiating(tanh=nn.Tanh, relu=nn.ReLU)

    def keep(held: Any, loss: Any) -> None:
        name = "relu" if isinstance(held["tanh"], nn.Tanh) else "tanh"
        OrderedDict.__setitem__(held, "last", type(held[name]))

    return keeping(table, keep, lambda: [each.__name__ for each in dict.values(table)])


@case
def in_a_list_that_gives_something_else_than_it_holds() -> Case:
    held = Counting()

    def keep(held: Any, loss: Any) -> None:
        held.append(loss)

    return keeping(held, keep, lambda: [each.item() for each in list.__iter__(held)])


@pytest.mark.parametrize("build", case.values(), ids=case.keys())
def test_containers_with_methods_of_their_own(build: Any) -> None:
    agree(build)


class Output(OrderedDict[str, Any]):
    """As packages return results: entries are attributes as well, and may only be set one by one."""

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        for name, value in entries.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError("not like this")

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("not like this")

    def pop(self, *args: Any) -> Any:
        raise TypeError("not like this")


def test_a_result_of_a_package_as_an_argument_and_a_result() -> None:
    def step(given: Any) -> Any:
        return Output(twice=given.loss * 2, thrice=given["loss"] * 3)

    compiled = torch.compile(step)
    for turn in range(3):
        out = compiled(Output(loss=torch.ones(2) * turn))
        expected = step(Output(loss=torch.ones(2) * turn))
        assert type(out) is Output and [*out] == [*expected]
        for name in expected:
            torch.testing.assert_close(out[name], expected[name])
            assert getattr(out, name) is out[name]


def values_of(model: Any) -> list[Any]:
    return [each.detach().numpy().copy() for each in model.parameters()]


def test_what_cannot_be_put_back_is_named_and_the_rest_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 1)
    stuck: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    before = values_of(model)
    put_back = snapshot.put_back

    def refuses(holder: Any, held: Any) -> None:
        if holder is stuck:
            raise TypeError("it refuses")
        put_back(holder, held)

    def step(x: Any) -> Any:
        stuck["loss"] = kept["loss"] = loss = model(x).sum()
        loss.backward()
        return loss.detach()

    monkeypatch.setattr(snapshot, "put_back", refuses)
    with pytest.raises(CompileError, match="`stuck` in a way that can't be undone"):
        torch.compile(step)(torch.ones(1, 2))
    assert kept == {} and model.weight.grad is None
    for was, now in zip(before, values_of(model)):
        np.testing.assert_array_equal(was, now)
    assert isinstance(model(torch.ones(1, 2)).sum().item(), float)


@pytest.mark.parametrize("method", ["_callbacks", "_guards"])
def test_an_error_after_the_trace_leaves_nothing_of_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    seen: list[float] = []
    model.weight.register_hook(lambda gradient: seen.append(gradient.sum().item()))

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def fails(*args: Any) -> None:
        raise OSError("of the compiler's own")

    monkeypatch.setattr(tracing._Capturing, method, fails)
    with pytest.warns(CompileWarning, match="of the compiler's own"):
        torch.compile(step)(torch.ones(1, 2))
    assert seen == [2.0] and len(optimizer.state) == 2
    assert isinstance(model.weight.sum().item(), float)


def test_code_of_jax_is_not_looked_at_wherever_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace changes what JAX remembers: to put that back would break it."""
    monkeypatch.setattr(purity, "is_installed", lambda file: False)
    import jax

    walk = Walk()
    walk.follow(lambda: jax.numpy.sin, "step")
    state = walk.found
    assert not [kind for kind in state.classes if kind.__module__.startswith("jax")]
    assert not [each for each in state.functions if each.__module__.startswith("jax")]


def test_packages_of_another_environment_are_installed() -> None:
    assert purity.is_installed("/opt/shared/lib/python3.11/site-packages/package/file.py")
    assert purity.is_installed("/usr/lib/python3/dist-packages/package/file.py")
    assert not purity.is_installed("/home/me/work/site/packages.py")


def test_classes_of_extension_modules_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """They make attributes when they are used first, which nobody may delete."""
    module = ModuleType("compiled_here")
    module.__file__ = "/home/me/work/compiled_here.cpython-311-x86_64-linux-gnu.so"
    monkeypatch.setitem(sys.modules, "compiled_here", module)
    kind = type("Made", (), {"__module__": "compiled_here"})
    assert not purity.written_here(kind)
    walk = Walk()
    walk.follow(kind(), "made")
    assert kind not in walk.found.classes


def test_a_container_is_not_asked_for_what_it_holds() -> None:
    table = Instantiating(tanh=nn.Tanh)
    step = torch.compile(lambda x: table["tanh"](x))
    for _ in range(3):
        torch.testing.assert_close(step(torch.ones(2)), torch.tanh(torch.ones(2)))
    assert [*dict.values(table)] == [nn.Tanh]
    assert len(torch.compile.explain(step).data[0]["programs"]) == 1


def test_no_warning_is_lost_for_the_sake_of_the_rest() -> None:
    held = Fixed()

    def step(x: Any) -> Any:
        held["x"] = x * 2
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        torch.compile(step)(torch.ones(2))
    assert held["x"].tolist() == [2.0, 2.0]
