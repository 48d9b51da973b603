"""Schedulers stepped inside a compiled step: they step on the host, and never make it compile again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow.optim import lr_scheduler as lr

SCHEDULERS: dict[str, Any] = {
    "warm restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 2),
    "one cycle": lambda o: lr.OneCycleLR(o, 0.5, total_steps=20),  # moves betas as well
    "lambda": lambda o: lr.LambdaLR(o, lambda epoch: min(1, (epoch + 1) / 4)),
    "one after the other": lambda o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=2), lr.CosineAnnealingLR(o, 10)], [2]
    ),
    "chained": lambda o: lr.ChainedScheduler([lr.ConstantLR(o, total_iters=3), lr.ExponentialLR(o, 0.9)]),
}


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_stepped_inside(name: str) -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        scheduler = SCHEDULERS[name](optimizer)
        states: list[Any] = []

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.detach(), optimizer.param_groups[0]["lr"]

        def between(turn: int) -> None:
            states.append((scheduler.last_epoch if hasattr(scheduler, "last_epoch") else None, scheduler.get_last_lr()))

        return Case(step, model, optimizer, states, args=batch, between=between)

    agree(build, steps=4, programs=2)


def test_rates_that_are_used_after_the_schedulers_stepped() -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(
            [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}], lr=0.1, momentum=0.9
        )
        one, other = lr.ExponentialLR(optimizer, 0.9), lr.StepLR(optimizer, 2, 0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            one.step()
            rate = optimizer.param_groups[1]["lr"]
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.99
            other.step()
            one.step()
            return rate, [group["lr"] for group in optimizer.param_groups], x.sum() * optimizer.param_groups[0]["lr"]

        return Case(step, model, optimizer, args=batch)

    with pytest.warns(UserWarning, match="before `optimizer.step"):
        agree(build, steps=5, programs=2)


def test_a_step_that_looks_at_the_scheduler_is_right_all_the_same() -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        scheduler = lr.StepLR(optimizer, 1, 0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            (model(x).pow(2).mean() * (1 + scheduler.last_epoch)).backward()
            optimizer.step()
            scheduler.step()
            return scheduler.get_last_lr()

        return Case(step, model, optimizer, args=batch)

    agree(build)


def test_what_is_logged_is_what_it_is_at_its_turn() -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        scheduler = lr.OneCycleLR(optimizer, 0.5, total_steps=20)
        seen: list[Any] = []
        model.weight.register_hook(
            lambda gradient: seen.append((scheduler.last_epoch, optimizer.param_groups[0]["lr"]))
        )

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            seen.append(("before", scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]))
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            seen.append(("after", scheduler.get_last_lr()[0], optimizer.param_groups[0]["momentum"], loss.item()))
            optimizer.param_groups[0]["lr"] *= 0.5
            seen.append(("halved", scheduler.get_last_lr()[0], optimizer.param_groups[0]["lr"]))

        return Case(step, model, optimizer, args=batch, look=lambda: list(seen))

    agree(build, steps=4, programs=2)


def test_a_step_that_fails_has_not_moved_the_scheduler() -> None:
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr.StepLR(optimizer, 1, 0.5)
    seen: list[Any] = []

    def watch(gradient: Any) -> None:
        seen.append(gradient.sum().item())
        if len(seen) == 2:
            raise ValueError("enough")

    model.weight.register_hook(watch)

    @torch.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        scheduler.step()

    step(torch.ones(1, 3))
    with pytest.raises(ValueError, match="enough"):
        step(torch.ones(1, 3))
    assert scheduler.last_epoch == 1 and optimizer.param_groups[0]["lr"] == 0.05
    step(torch.ones(1, 3))
    assert scheduler.last_epoch == 2 and optimizer.param_groups[0]["lr"] == 0.025


def test_numpy_numbers_are_inputs() -> None:
    """Schedules written with NumPy set them: `0.5 * (1 + np.cos(...))`."""

    def build() -> Case:
        model, log = nn.Linear(3, 2), list[Any]()
        optimizer = optim.Adam(model.parameters(), lr=np.float64(0.1))
        model.register_forward_hook(lambda *given: log.append(optimizer.param_groups[0]["lr"]))

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            rate = optimizer.param_groups[0]["lr"]
            return loss.detach() * rate, rate, rate * 2

        def between(turn: int) -> None:
            optimizer.param_groups[0]["lr"] = 0.05 * (1 + np.cos(turn / 10))
            log.append(type(log[-1]))

        return Case(step, model, optimizer, log, args=batch, between=between)

    agree(build, steps=5, programs=2)
