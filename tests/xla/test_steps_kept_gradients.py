"""What hooks on the host keep of a gradient shares memory with `.grad`, or does not, as in eager mode.

A leaf's first gradient becomes `.grad` without a copy, unless something holds the tensor that hooks were shown. So a kept
`g` is a value of its own, and a kept `g.detach()`, `.numpy()` or view is an alias of `.grad`: it follows later writes, in
the step and in later calls. `tests/oracle/test_hooks_kept_gradients.py` compares eager mode with PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

Alias = Callable[[Any], Any]

ALIASES: dict[str, Alias] = {
    "itself": lambda g: g, "detached": lambda g: g.detach(), "data": lambda g: g.data, "numpy": lambda g: g.numpy(),
    "numpy_row": lambda g: g.numpy()[0], "row": lambda g: g.detach()[0], "view": lambda g: g.view(-1),
    "clone": lambda g: g.clone(),
}  # fmt: skip

observers, changers = Cases(), Cases()  # hooks that run after the program, and hooks that it stops for


@observers
def hook(p: Any, kept: list[Any], alias: Alias) -> None:
    p.register_hook(lambda g: kept.append(alias(g)))


@observers
def hook_that_logs(p: Any, kept: list[Any], alias: Alias) -> None:
    p.register_hook(lambda g: kept.append((g.sum().item(), alias(g))))


@observers
def prehook_of_the_accumulator(p: Any, kept: list[Any], alias: Alias) -> None:
    p.accumulator = p.view_as(p).grad_fn.next_functions[0][0]
    p.accumulator.register_prehook(lambda gs: kept.append(alias(gs[0])))


@observers
def hook_of_the_accumulator(p: Any, kept: list[Any], alias: Alias) -> None:
    p.accumulator = p.view_as(p).grad_fn.next_functions[0][0]
    p.accumulator.register_hook(lambda _, gs: kept.append(alias(gs[0])))


@observers
def hook_of_the_accumulator_after_a_hook_that_keeps_nothing(p: Any, kept: list[Any], alias: Alias) -> None:
    leaves: list[bool] = []
    p.register_hook(lambda g: leaves.append(g.grad_fn is None))
    hook_of_the_accumulator(p, kept, alias)


@observers
def hooks_before_and_after(p: Any, kept: list[Any], alias: Alias) -> None:
    p.register_hook(lambda g: kept.append(alias(g)))
    p.register_post_accumulate_grad_hook(lambda p: kept.append(alias(p.grad)))


@observers
def hook_that_drops_what_another_kept(p: Any, kept: list[Any], alias: Alias) -> None:
    p.register_hook(lambda g: kept.extend([g, alias(g)]))
    p.register_post_accumulate_grad_hook(lambda p: kept.__delitem__(-2))


@observers
def hook_in_front_of_a_traced_one(p: Any, kept: list[Any], alias: Alias) -> None:
    p.register_hook(lambda g: kept.append(alias(g)))
    p.register_hook(double)


@observers
def hook_on_a_tensor_whose_gradient_passes_on_unchanged(p: Any, kept: list[Any], alias: Alias) -> None:
    p.hook_inside = lambda g: kept.append(alias(g))


@observers
def prehook_of_the_accumulator_in_two_statements(p: Any, kept: list[Any], alias: Alias) -> None:
    def keep(gs: Any) -> None:
        array = gs[0].numpy()
        kept.append(array)

    p.accumulator = p.view_as(p).grad_fn.next_functions[0][0]
    p.accumulator.register_prehook(keep)


@changers
def hook_that_writes(p: Any, kept: list[Any], alias: Alias) -> None:
    def write(g: Any) -> None:
        kept.append(alias(g))
        g.mul_(2)

    p.register_hook(write)


@changers
def hook_that_returns_a_new_one(p: Any, kept: list[Any], alias: Alias) -> None:
    def change(g: Any) -> Any:
        g = g * 2
        kept.append(alias(g))
        return g

    p.register_hook(change)


@changers
def hook_that_returns_what_it_is_given(p: Any, kept: list[Any], alias: Alias) -> None:
    def same(g: Any) -> Any:
        kept.append(alias(g))
        return g

    p.register_hook(same)


@changers
def hook_that_returns_something_sometimes(p: Any, kept: list[Any], alias: Alias) -> None:
    def maybe(g: Any) -> Any:
        kept.append(alias(g))
        return g * 2 if len(kept) % 2 else None

    p.register_hook(maybe)


@changers
def hooks_around_one_that_returns_a_new_one(p: Any, kept: list[Any], alias: Alias) -> None:
    def triple(g: Any) -> Any:
        kept.append(len(kept))
        return g * 3

    p.register_hook(lambda g: kept.append(alias(g)))
    p.register_hook(triple)
    p.register_hook(lambda g: kept.append(alias(g)))


@changers
def hook_in_front_of_one_that_writes_to_grad(p: Any, kept: list[Any], alias: Alias) -> None:
    def write(p: Any) -> None:
        kept.append(len(kept))
        p.grad.mul_(2)

    p.register_hook(lambda g: kept.append(alias(g)))
    p.register_post_accumulate_grad_hook(write)


@changers
def hook_that_returns_a_view_of_what_it_is_given(p: Any, kept: list[Any], alias: Alias) -> None:
    def viewed(g: Any) -> Any:
        kept.append(alias(g))
        return g.view(-1).view(2, 3)

    p.register_hook(viewed)


@changers
def hook_that_makes_an_alias_before_it_keeps_it(p: Any, kept: list[Any], alias: Alias) -> None:
    def change(g: Any) -> Any:
        g = g * 2
        detached = g.detach()
        kept.append(detached)
        return g

    p.register_hook(change)


@changers
def hook_that_replaces_grad_sometimes(p: Any, kept: list[Any], alias: Alias) -> None:
    def maybe(p: Any) -> None:
        kept.append(alias(p.grad))
        if len(kept) % 3:
            p.grad = p.grad * 2

    p.register_post_accumulate_grad_hook(maybe)


def double(g: Any) -> None:
    g.mul_(2)


def looked_at(kept: Any) -> Any:
    """Aliases as arrays of their own."""
    if isinstance(kept, (list, tuple)):
        return [looked_at(each) for each in kept]
    return np.array(kept.detach()) if isinstance(kept, torch.Tensor) else np.array(kept)


def forward(parameters: list[Any], x: Any) -> Any:
    total = 0
    for p in parameters:
        y = p
        if hasattr(p, "hook_inside"):
            y = p.clone()
            y.register_hook(p.hook_inside)
        total = total + (y * x).pow(2).sum()
    return total


def write_and_accumulate(parameters: list[Any], x: Any) -> None:
    for p in parameters:
        p.grad.mul_(0.5)
    forward(parameters, x).backward()


def clip_and_replace(parameters: list[Any], x: Any) -> None:
    nn.utils.clip_grad_norm_(parameters, 0.3)
    for p in parameters:
        p.grad = p.grad * 0.5
        p.grad.mul_(0.5)


def with_some_aliases(hooks: Cases) -> Iterator[tuple[Any, Alias]]:
    """Each way to register, with the tensor itself and one of the other kinds in turn."""
    itself, *others = ALIASES.values()
    for register, other in zip(hooks.values(), cycle(others)):
        yield from [(register, itself), (register, other)]


@pytest.mark.parametrize(
    ("after", "clears"),
    [(write_and_accumulate, "never"), (clip_and_replace, "to_zero"), (write_and_accumulate, "to_none")],
)
@pytest.mark.parametrize("hooks", [observers, changers], ids=["observers", "changers"])
@pytest.mark.parametrize("part", range(4))  # a step is traced again for each of its hooks
def test_kept_gradients_follow_as_in_eager_mode(part: int, hooks: Cases, after: Any, clears: str) -> None:
    def build() -> Case:
        parameters, kept = list[Any](), list[Any]()
        for place, (register, alias) in list(enumerate(with_some_aliases(hooks)))[part::4]:
            parameters.append(nn.Parameter(torch.full((2, 3), 1.0 + 0.1 * place)))
            kept.append([])
            register(parameters[-1], kept[-1], alias)
        optimizer = optim.SGD(parameters, lr=0.1)

        def step(x: Any) -> None:
            if clears != "never":
                optimizer.zero_grad(set_to_none=clears == "to_none")
            forward(parameters, x).backward()
            after(parameters, x)
            optimizer.step()

        def between(turn: int) -> None:
            for each in kept:  # the next call finds what is written through an alias
                first = each[0][1] if isinstance(each[0], tuple) else each[0]
                np.asarray(first.detach() if isinstance(first, torch.Tensor) else first)[...] *= 0.5

        look = lambda: [looked_at(kept), [p.grad for p in parameters]]
        return Case(step, args=lambda turn: (torch.full((2, 3), 1.0 + 0.25 * turn),), look=look, between=between)

    agree(build)


def test_aliases_in_the_program_of_what_the_host_decides_about_are_refused() -> None:
    p, kept, stored = nn.Parameter(torch.ones(2)), list[Any](), dict[str, Any]()

    def store(g: Any) -> None:
        stored["alias"] = g.detach()

    p.register_hook(store)
    p.register_hook(lambda g: kept.append(g))  # so that .grad is a copy

    @torch.compile
    def step(x: Any) -> None:
        (p * x).sum().backward()
        p.grad.mul_(2)

    with pytest.raises(CompileError, match="keeps an alias of that gradient"):
        step(torch.ones(2))


def test_aliases_in_the_program_of_a_grad_that_the_host_replaces_are_refused() -> None:
    p, log, stored = nn.Parameter(torch.ones(2)), list[Any](), dict[str, Any]()

    def store(p: Any) -> None:
        stored["alias"] = p.grad.detach()

    def replace(p: Any) -> None:
        log.append(len(log))
        if len(log) % 2:
            p.grad = p.grad * 2

    p.register_post_accumulate_grad_hook(store)
    p.register_post_accumulate_grad_hook(replace)

    @torch.compile
    def step(x: Any) -> None:
        (p * x).sum().backward()

    with pytest.raises(CompileError, match=r"replace.* runs on the host and sets \.grad"):
        step(torch.ones(2))


@pytest.mark.parametrize("alias", ["detached", "numpy"])
def test_writes_through_a_kept_alias_that_the_program_can_not_know_of_are_refused(alias: str) -> None:
    p, q, kept = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2)), list[Any]()

    def write(q: Any) -> None:
        for each in kept:  # of p.grad
            each[0] = 5.0

    p.register_hook(lambda g: kept.append(ALIASES[alias](g)))
    q.register_post_accumulate_grad_hook(write)

    @torch.compile
    def step(x: Any) -> None:
        (p * x).sum().backward()
        (q * x).sum().backward()

    with pytest.raises(CompileError, match="through an alias kept from before"):
        step(torch.ones(2))
    assert p.grad is None and q.grad is None


@pytest.mark.parametrize("reader", ["in the program", "on the host"])
@pytest.mark.parametrize("clears", ["none", "late", "never"])
@pytest.mark.parametrize("turns", [(0,), (1, 2)])
def test_a_gradient_kept_between_calls_is_not_the_next_one(reader: str, clears: str, turns: tuple[int, ...]) -> None:
    """Only a hook finds it: it is a tensor of its own there, and not whatever `.grad` is by then."""

    def build() -> Case:
        layer = nn.Linear(2, 3)
        kept: list[Any] = []
        log: list[Any] = []

        def shift(module: Any, inputs: Any, output: Any) -> Any:
            return output + kept[-1].mean() if kept else output

        def look(module: Any, inputs: Any, output: Any) -> None:
            log.extend([each.sum().item() for each in kept])

        def step(x: Any) -> Any:
            if clears == "none":
                layer.zero_grad()
            loss = layer(x).pow(2).mean()
            if clears == "late":
                layer.zero_grad()
            loss.backward()
            return loss

        def keep(turn: int) -> None:
            if turn in turns:
                kept.append(layer.weight.grad)

        layer.register_forward_hook(shift if reader == "in the program" else look)
        return Case(step, layer, kept, args=lambda turn: (torch.ones(4, 2) * (turn + 1),), log=log, between=keep)

    agree(build, steps=5)


def test_a_gradient_that_the_program_reads_is_not_written_over() -> None:
    def build() -> Case:
        layer = nn.Linear(2, 3)

        def shift(module: Any, inputs: Any, output: Any) -> Any:
            return output if layer.weight.grad is None else output + layer.weight.grad.mean()

        def step(x: Any) -> Any:
            loss = layer(x).pow(2).mean()
            layer.zero_grad()
            loss.backward()
            return loss

        layer.register_forward_hook(shift)
        return Case(step, layer, args=lambda turn: (torch.ones(4, 2) * (turn + 1),))

    agree(build, steps=5)


@pytest.mark.parametrize("replaces", [torch.clone, lambda grad: grad.t().contiguous().t(), torch.zeros_like])
def test_a_gradient_that_a_hook_keeps_is_replaced_between_calls(replaces: Any) -> None:
    def build() -> Case:
        layer, kept = nn.Linear(2, 3), list[Any]()
        bias = layer.bias

        def keep(p: Any) -> None:
            kept[:] = kept[-3:]
            kept.append(layer.weight.grad)
            p.grad.add_(0.01)

        bias.register_post_accumulate_grad_hook(keep)

        def step(x: Any) -> Any:
            loss = layer(x).pow(2).mean()
            loss.backward(retain_graph=True)
            loss.backward()
            return loss

        def replace(turn: int) -> None:
            if turn == 2:
                layer.weight.grad = replaces(layer.weight.grad)

        return Case(step, layer, kept, args=lambda turn: (torch.ones(4, 2) * (turn + 1),), between=replace)

    agree(build, steps=5)


def test_gradients_that_a_hook_keeps_and_each_step_clears_are_one_program() -> None:
    def build() -> Case:
        layer, kept = nn.Linear(2, 3), list[Any]()
        layer.bias.register_post_accumulate_grad_hook(lambda p: kept.append(p.grad))

        def step(x: Any) -> Any:
            layer.zero_grad()
            loss = layer(x).pow(2).mean()
            loss.backward()
            return loss

        return Case(step, layer, kept, args=lambda turn: (torch.ones(4, 2) * (turn + 1),))

    agree(build, steps=5, programs=2)


@pytest.mark.parametrize("turn_of_change", [1, 2, 3])
def test_the_gradient_of_a_frozen_leaf_is_taken_away_or_given(turn_of_change: int) -> None:
    """An optimizer still uses it."""

    def build() -> Case:
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

        def step(x: Any) -> Any:
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        def between(turn: int) -> None:
            if turn == 1:
                model[0].weight.requires_grad_(False)
            if turn == turn_of_change:
                model[0].weight.grad = None
            if turn == 4:
                model[0].weight.grad = torch.ones(3, 2)

        return Case(step, model, optimizer, args=lambda turn: (torch.full((2, 2), 0.5),), between=between)

    agree(build, steps=7)
