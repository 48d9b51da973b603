"""`compile(model)` differentiated more than once: gradient penalties, Hessian-vector products, third derivatives."""

from __future__ import annotations

from typing import Any

import undertow as torch
from tests.xla.test_steps_modules import same, same_state, twins
from undertow import nn, optim


def critic() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1))


def test_gradient_penalty() -> None:
    model, other, compiled = twins(critic)
    optimizers = [optim.Adam(each.parameters(), lr=0.05) for each in (model, other)]
    for _ in range(3):
        real, fake = torch.randn(5, 3), torch.randn(5, 3)
        for run, optimizer in ((model, optimizers[0]), (compiled, optimizers[1])):
            optimizer.zero_grad()
            mixed = (real * 0.3 + fake * 0.7).requires_grad_()
            out = run(mixed)
            (slope,) = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True)
            loss = run(fake).mean() - run(real).mean() + 10 * (slope.norm(dim=1) - 1).pow(2).mean()
            loss.backward()
            optimizer.step()
    same_state(model, other)


def test_gradients_of_parameters_are_differentiated() -> None:
    model, other, compiled = twins(critic)
    x, vector = torch.randn(5, 3), None
    products = []
    for run, params in ((model, list(model.parameters())), (compiled, list(other.parameters()))):
        for _ in range(2):
            vector = [torch.ones_like(p) for p in params]
            slopes = torch.autograd.grad(run(x).pow(2).mean(), params, create_graph=True)
            dot = sum((g * v).sum() for g, v in zip(slopes, vector))
            products.append(torch.autograd.grad(dot, params))
    for a, b in zip(products[1], products[3], strict=True):
        same(a, b)


def test_third_derivatives_after_the_parameters_have_moved() -> None:
    model, other, compiled = twins(critic)
    compiled(torch.randn(5, 3)).sum().backward()
    with torch.no_grad():
        for a, b in zip(model.parameters(), other.parameters()):
            a.mul_(1.5)
            b.mul_(1.5)
    x, found = torch.randn(5, 3), []
    for run in (model, compiled):
        y = x.clone().requires_grad_()
        value = run(y).pow(3).sum()
        for last in (False, False, True):
            (value,) = torch.autograd.grad(value, y, create_graph=not last)
            value = value if last else value.pow(2).sum()
        found.append(value)
    same(*found)


def test_hooks_inside_fire_in_both_passes() -> None:
    logs: list[list[Any]] = [[], []]
    model, other, compiled = twins(critic)
    x = torch.randn(5, 3)
    for run, log, net in ((model, logs[0], model), (compiled, logs[1], other)):

        def watch(module: Any, grad_input: Any, grad_output: Any, log: Any = log) -> None:
            log.append(round(grad_output[0].abs().sum().item(), 4))

        net[3].register_full_backward_hook(watch)
        net[0].weight.register_hook(lambda g: g * 2)
        for _ in range(2):
            y = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(run(y).sum(), y, create_graph=True)
            slope.pow(2).sum().backward()
    assert logs[0] == logs[1] and logs[0]
    same_state(model, other)


def test_several_results() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.5, 2.0]))

        def forward(self, x: Any) -> Any:
            return {"power": (self.weight * x) ** 3, "sum": x.sum()}

    model, other, compiled = twins(Two)
    for run in (model, compiled):
        x = torch.ones(2, requires_grad=True)
        (slope,) = torch.autograd.grad(run(x)["power"].sum(), x, create_graph=True)
        (slope.sum() * run(x)["sum"]).backward()
        x.grad = None
    same_state(model, other)


def test_settings_are_part_of_a_program() -> None:
    step = torch.compile(lambda x: (x @ x, torch.zeros(1)))
    before = torch.get_float32_matmul_precision()
    try:
        step(torch.ones(2, 2))
        torch.set_float32_matmul_precision("high")
        assert torch.backends.cuda.matmul.allow_tf32
        step(torch.ones(2, 2))
        torch.backends.cuda.matmul.allow_tf32 = False
        step(torch.ones(2, 2))
        assert torch.get_float32_matmul_precision() == "highest"
        assert len(torch.compile.explain(step).data[0]["programs"]) == 2
    finally:
        torch.set_float32_matmul_precision(before)
    torch.set_default_dtype(torch.float64)
    try:
        assert step(torch.ones(2, 2))[1].dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
