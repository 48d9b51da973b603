"""Hooks that are changed behind the back of registrars and handles: the next call of a compiled step acts on it."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow._src.base.hooks import CountedHooks


def times(factor: float) -> Callable[..., Any]:
    return lambda *args: args[-1] * factor


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.layer.register_forward_hook(times(3))
        self.layer.register_forward_hook(lambda *args: args[-1] + 1)
        self.layer.weight.register_hook(times(5))
        self.layer.bias._backward_hooks = OrderedDict()  # one that does not count

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def node_of(tensor: Any) -> Any:
    return tensor.expand_as(tensor).grad_fn.next_functions[0][0]


def replaced(model: Model) -> None:
    model.layer._forward_hooks = OrderedDict()
    model.layer._forward_hooks[0] = times(7)


def replaced_by_an_equal_one(model: Model) -> None:
    """The new map is as the old one at first."""
    model.layer.weight._backward_hooks = OrderedDict(model.layer.weight._backward_hooks)
    model.layer.weight._backward_hooks[10**9] = times(7)


def on_the_node(model: Model) -> None:
    model.node = node_of(model.layer.weight)
    model.node.register_prehook(lambda grads: (grads[0] * 11,))


CHANGES: dict[str, Callable[[Model], Any]] = {
    "cleared": lambda model: model.layer._forward_hooks.clear(),
    "put in": lambda model: model.layer._forward_hooks.update({10**9: times(7)}),
    "set by default": lambda model: model.layer._forward_hooks.setdefault(10**9, times(7)),
    "popped": lambda model: model.layer._forward_hooks.popitem(),
    "another in its place": lambda model: model.layer._forward_hooks.update(
        dict.fromkeys(model.layer._forward_hooks, times(7))
    ),
    "past who counts": lambda model: OrderedDict.__setitem__(model.layer._forward_hooks, 10**9, times(7)),
    "past who counts, pre-hook": lambda model: OrderedDict.__setitem__(
        model.layer._forward_pre_hooks, 10**9, lambda module, args: (args[0] * 17,)
    ),
    "past who counts, another": lambda model: [
        OrderedDict.__setitem__(model.layer._forward_hooks, key, times(7)) for key in model.layer._forward_hooks
    ],
    "past who counts, order": lambda model: OrderedDict.move_to_end(
        model.layer._forward_hooks, next(iter(model.layer._forward_hooks))
    ),
    "replaced": replaced,
    "into the dict": lambda model: model.layer.__dict__.__setitem__("_forward_hooks", OrderedDict({0: times(7)})),
    "leaf, cleared": lambda model: model.layer.weight._backward_hooks.clear(),
    "leaf, none": lambda model: setattr(model.layer.weight, "_backward_hooks", None),
    "leaf, replaced": replaced_by_an_equal_one,
    "leaf, in a plain map": lambda model: model.layer.bias.register_hook(times(7)),
    "leaf, after accumulation": lambda model: model.layer.weight.register_post_accumulate_grad_hook(
        lambda weight: setattr(weight, "grad", weight.grad * 13)
    ),
    "node": on_the_node,
    "pre-hook": lambda model: model.layer._forward_pre_hooks.update({10**9: lambda module, args: (args[0] * 17,)}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_call_acts_on_it(change: Callable[[Model], Any]) -> None:
    torch.manual_seed(0)
    model = Model()
    twin = copy.deepcopy(model)
    twin.layer.weight.register_hook(times(5))  # copies of leaves come without hooks

    def step(model: Model) -> tuple[Any, ...]:
        model.zero_grad()
        loss = model(torch.ones(2)).sum()
        loss.backward()
        return loss.detach(), model.layer.weight.grad, model.layer.bias.grad

    @torch.compile
    def compiled() -> Any:
        model.zero_grad()
        loss = model(torch.ones(2)).sum()
        loss.backward()
        return loss

    def both() -> Any:
        loss = compiled()
        found = (loss.detach(), model.layer.weight.grad.clone(), model.layer.bias.grad.clone())
        expected = step(twin)
        torch.testing.assert_close(found, expected)
        return [each.tolist() for each in found]

    for _ in range(3):  # until guards are known to hold
        before = both()
    change(model), change(twin)
    assert both() != before
    both()


def test_a_map_of_hooks_is_an_ordered_dict_to_everybody() -> None:
    hooks = torch.nn.Linear(1, 1)._forward_hooks
    assert type(hooks) is CountedHooks and isinstance(hooks, OrderedDict)
    assert repr(hooks) == repr(OrderedDict())
    hooks[1] = print
    assert hooks == OrderedDict({1: print})
    assert type(pickle.loads(pickle.dumps(hooks))) is OrderedDict
    copied = copy.deepcopy(hooks)
    assert type(copied) is CountedHooks and copied == hooks and copied is not hooks


@pytest.mark.parametrize(
    "change",
    [
        lambda hooks: hooks.update({2: len}),
        lambda hooks: hooks.__ior__({2: len}),
        lambda hooks: hooks.__setitem__(2, len),
        lambda hooks: hooks.setdefault(2, len),
        lambda hooks: hooks.__delitem__(0),
        lambda hooks: hooks.pop(0),
        lambda hooks: hooks.popitem(),
        lambda hooks: hooks.move_to_end(0),
        lambda hooks: hooks.clear(),
    ],
)
def test_every_change_counts(change: Callable[[Any], Any]) -> None:
    hooks = CountedHooks({0: print, 1: id})
    before = CountedHooks.changes
    change(hooks)
    assert CountedHooks.changes > before
