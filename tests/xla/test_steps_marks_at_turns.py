"""What a hook on the host sees of a tensor from outside besides its value: flag, version and node are those of its turn."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim

case = Cases()


@pytest.mark.parametrize("name", case)
def test_acts_as_eager_code_does(name: str) -> None:
    agree(case[name], programs=None)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 0.5 + 0.25 * turn),)


@case
def version_of_a_gradient_that_accumulates() -> Case:
    model, log = nn.Linear(3, 2), []
    model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad._version))

    def step(x: Any) -> None:
        model(x).pow(2).mean().backward()

    return Case(step, model, args=one, log=log)


@case
def version_under_hooks_on_saved_tensors() -> Case:
    """What is packed is an alias of the weight: showing it must not set the weight's own count back."""
    model, log, packed = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), [], {"n": 0}
    weight = model[1].weight
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    weight.register_post_accumulate_grad_hook(lambda p: log.append(p._version))

    def pack(x: Any) -> Any:
        packed["n"] += 1
        return x

    def unpack(x: Any) -> Any:
        log.append("unpack")
        return x.clone()

    def step(x: Any) -> None:
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = model(x)
        y.pow(2).mean().backward()
        optimizer.step()

    return Case(step, model, args=one, log=log, look=lambda: (weight._version, packed["n"]))


@case
def version_seen_by_a_hook_that_is_added_later() -> Case:
    model, log = nn.Linear(3, 2), []

    def step(x: Any) -> None:
        (model(x) + model(x * 2)).sum().backward()

    def between(turn: int) -> None:
        if turn == 1:
            model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad._version))

    return Case(step, model, args=one, log=log, between=between)


@case
def version_of_a_gradient_that_the_hook_replaces() -> Case:
    model, log = nn.Linear(3, 2), []

    def halve(p: Any) -> None:
        log.append(p.grad._version)
        p.grad = p.grad * 0.5

    model.weight.register_post_accumulate_grad_hook(halve)

    def step(x: Any) -> None:
        model(x).pow(2).mean().backward()

    return Case(step, model, args=one, log=log, look=lambda: model.weight.grad._version)


@case
def version_of_a_parameter_after_an_update() -> Case:
    model, log = nn.Linear(3, 2), []
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *given: log.append(model.weight._version))
    optimizer.register_step_pre_hook(lambda *given: log.append((model.weight._version, model.weight[0]._version)))

    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return Case(step, model, optimizer, args=one, log=log)


@case
def version_of_an_argument_that_is_written() -> Case:
    model, log = nn.Linear(3, 2), []
    model.register_forward_pre_hook(
        lambda module, inputs: log.append((inputs[0]._version, inputs[0].detach()._version))
    )

    def step(x: Any) -> Any:
        x.mul_(2)
        y = model(x)
        x.add_(1)
        return y.sum() + model(x).sum()

    return Case(step, model, args=one, log=log)


@case
def flag_of_a_parameter_that_is_frozen_for_the_backward() -> Case:
    model, log = nn.Linear(3, 2), []
    model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.requires_grad))

    def step(x: Any) -> None:
        loss = model(x).pow(2).mean()
        model.requires_grad_(False)
        loss.backward()
        model.requires_grad_(True)

    return Case(step, model, args=one, log=log)


@case
def flag_that_the_step_leaves_changed() -> Case:
    model, log = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), []
    model[0].register_forward_hook(lambda *given: log.append(("first", model[1].weight.requires_grad)))
    model[1].register_forward_hook(lambda *given: log.append(("second", model[1].weight.requires_grad)))

    def step(x: Any) -> None:
        h = model[0](x)
        model[1].weight.requires_grad_(not model[1].weight.requires_grad)
        model[1](h).sum().backward()

    return Case(step, model, args=one, log=log)


@case
def node_of_a_buffer_that_joins_a_graph_and_leaves_it() -> Case:
    model, log = nn.Linear(3, 2), []
    buffer = torch.zeros(2)
    model.register_forward_hook(
        lambda *given: log.append((buffer.is_leaf, buffer.requires_grad, buffer.grad_fn is None))
    )

    def step(x: Any) -> None:
        model(x)
        buffer.add_(model.bias)
        model(x)
        buffer.sum().backward()
        buffer.detach_()

    return Case(step, model, [buffer], args=one, log=log)


def test_draws_of_hooks_count_when_a_later_hook_raises() -> None:
    """The step draws too, in a checkpoint: its stream is rewound before the step runs as it is written."""

    def run(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model, log = nn.Linear(3, 2), []

        def limited(p: Any) -> None:
            log.append("leaf")
            if log.count("leaf") == 4:
                raise ValueError("limited")

        model.weight.register_post_accumulate_grad_hook(limited)

        def step(x: Any) -> None:
            y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

            def thin_out(g: Any) -> Any:
                g = g * torch.bernoulli(torch.full_like(g, 0.5))
                log.append(g.tolist())
                return g

            y.register_hook(thin_out)
            loss = y.pow(2).mean()
            loss.backward(retain_graph=True)
            loss.backward()

        called = torch.compile(step) if compiled else step
        for turn in range(3):
            try:
                called(*one(turn))
            except ValueError:
                log.append("raised")
            log.append(torch.get_rng_state().tolist())
        return log

    eager, compiled = run(False), run(True)
    assert [type(each) for each in compiled] == [type(each) for each in eager]
    assert [each for each in compiled if isinstance(each, list) and len(each) > 9] == [
        each for each in eager if isinstance(each, list) and len(each) > 9
    ]
