"""Tensors from outside whose memory or gradient the step replaces, functions under modes, and arithmetic that raises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

case = Cases()


def ones() -> Any:
    return nn.Parameter(torch.ones(3))


@case
def a_gradient_that_the_step_writes() -> Case:
    weight, kept = ones(), torch.ones(3)

    def step(x: Any) -> Any:
        kept.mul_(0.5)
        weight.grad = kept
        return x.sum()

    return Case(step, kept, weight, args=lambda turn: (torch.ones(3),))


@case
def momentum_by_hand() -> Case:
    weight, kept = ones(), torch.zeros(3)
    optimizer = optim.SGD([weight], 0.1)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        kept.mul_(0.9).add_(weight.grad)
        weight.grad = kept
        optimizer.step()

    return Case(step, kept, weight, args=lambda turn: (torch.ones(3) + turn,))


@case
def a_model_that_an_evaluation_without_gradients_switches() -> Case:
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.Dropout()), []

    @torch.no_grad()
    def evaluate(x: Any) -> Any:
        model.eval()
        return model(x)

    def step(x: Any) -> Any:
        return evaluate(x) + 1

    def between(turn: int) -> None:
        seen.append(model.training)
        model.train()

    return Case(step, model, args=lambda turn: (torch.ones(3),), log=seen, between=between)


@case
def a_scheduler_under_a_decorator() -> Case:
    weight = ones()
    optimizer = optim.SGD([weight], 0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    @torch.enable_grad()
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        scheduler.step()

    return Case(step, weight, args=lambda turn: (torch.ones(3),), look=lambda: optimizer.param_groups[0]["lr"])


@case
def statements_on_the_host_after_new_data() -> Case:
    weight, other, log = ones(), nn.Parameter(torch.zeros(3)), []

    def step(x: Any) -> Any:
        weight.data = (weight.data * 2 + x).clamp(-5, 5)
        log.append(weight.sum().item())
        weight.data, other.data = other.data, weight.data
        log.append(str(weight.data.tolist()))
        return other.sum().item()

    return Case(step, weight, other, args=lambda turn: (torch.ones(3),), log=log)


@pytest.mark.parametrize("build", case.values(), ids=case)
def test_agrees(build: Callable[[], Case]) -> None:
    agree(build, steps=4)


def test_aliases_of_memory_that_a_tensor_has_left_are_refused() -> None:
    weight, log = ones(), []
    alias = weight.data

    def keeps(x: Any) -> None:
        log.append(weight.detach())
        weight.data = weight.data * 2

    def writes(x: Any) -> Any:
        weight.data = weight.data.clone()
        alias.add_(1)
        return weight.sum()

    def returns(x: Any) -> Any:
        old = weight.data
        weight.data = x * 2
        return old

    for step in (keeps, writes, returns):
        with pytest.raises(CompileError, match="an alias of its old memory"):
            torch.compile(step)(torch.ones(3))
    assert weight.tolist() == alias.tolist() == [1, 1, 1] and not log


@pytest.mark.parametrize(
    ("compute", "numbers"),
    [
        (lambda d: 1 / d, (1, 2, 0, 3, 4)),
        (lambda d: 5 % d, (1, 2, 0, 3)),
        (lambda d: math.log(d), (1.0, 2.0, 0.0, 3.0, 0.0)),
        (lambda d: 2.0**d, (1.0, 1e4, 2.0)),
        (lambda d: 1 / (d - 1), (3, 2, 1, 5)),
    ],
)
def test_arithmetic_whose_errors_the_step_handles(compute: Any, numbers: tuple[Any, ...]) -> None:
    @torch.compile
    def step(x: Any, d: Any) -> Any:
        try:
            return x * compute(d)
        except (ArithmeticError, ValueError):
            return x * 100

    def expected(d: Any) -> float:
        try:
            return float(compute(d))
        except (ArithmeticError, ValueError):
            return 100.0

    assert [step(torch.ones(1), d).item() for d in numbers] == pytest.approx([expected(d) for d in numbers])
