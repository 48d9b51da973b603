"""Steps with a backward pass for many gradients at once: `is_grads_batched`, `jacrev` and their like."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile.errors import CompileError


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))


def test_jacobians_in_a_training_step() -> None:
    def build() -> Case:
        model = layers()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            slopes = torch.func.jacrev(model)(x), torch.func.jacfwd(model)(x)
            loss = sum(each.pow(2).sum() for each in slopes) + model(x).sum()
            loss.backward()
            optimizer.step()
            return [each.detach() for each in (*slopes, loss)]

        return Case(step, model, optimizer, args=lambda turn: (torch.rand(3),))

    agree(build)


def test_hooks_that_compute_with_all_gradients() -> None:
    def build() -> Case:
        model = layers()
        model[0].register_full_backward_hook(lambda module, given, results: (given[0] * 2,))

        def step(x: Any) -> Any:
            x = x.clone().requires_grad_()
            hidden = model[0](x)
            hidden.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1) / gradient.norm())
            result = model[1:](hidden)
            return torch.autograd.grad(result, (x, *model.parameters()), torch.eye(2), is_grads_batched=True)

        return Case(step, model, args=lambda turn: (torch.rand(3),))

    agree(build)


@pytest.mark.parametrize("look", [lambda g, log: log.append(g.norm()), lambda g, log: print(g.shape)])
def test_hooks_that_do_more_are_refused(look: Any) -> None:
    log: list[Any] = []

    def step(x: Any) -> Any:
        x = x.clone().requires_grad_()
        y = x.sin()
        y.register_hook(lambda gradient: look(gradient, log))
        return torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)

    with pytest.raises(CompileError, match="in a backward pass for many gradients at once"):
        torch.compile(step)(torch.rand(3))
