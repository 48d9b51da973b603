"""GradScaler in compiled steps: gradients that are not finite skip the optimizer's step, inside the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
    "nadam": lambda p: optim.NAdam(p, lr=0.1),
}
BAD = {"first": {0, 1}, "later": {1, 4}, "never": set(), "always": set(range(6))}


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def batches(bad: set[int]) -> Callable[[int], tuple[Any, ...]]:
    def batch(turn: int) -> tuple[Any, ...]:
        x = torch.randn(5, 3)
        if turn in bad:
            x[0, 0] = float("inf")
        return (x,)

    return batch


def scaled(optimizer: str, bad: set[int], clip: bool, log: list[Any] | None = None, hook: Any = None) -> Case:
    model = mlp()
    steps = OPTIMIZERS[optimizer](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    if hook is not None:
        hook(steps)

    def step(x: Any) -> Any:
        steps.zero_grad()
        loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()
        norm = None
        if clip:
            scaler.unscale_(steps)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(steps)
        scaler.update()
        return loss.detach(), norm, scaler._scale.clone(), scaler._growth_tracker.clone()

    return Case(step, model, steps, args=batches(bad), log=log)


@pytest.mark.parametrize("optimizer, bad", [("momentum", "first"), ("adam", "later"), ("nadam", "first")])
def test_skipped_steps(optimizer: str, bad: str) -> None:
    agree(lambda: scaled(optimizer, BAD[bad], clip=optimizer == "adam"), steps=6, programs=3)


@pytest.mark.parametrize("bad", ["never", "always"])
def test_the_scale_grows_and_shrinks(bad: str) -> None:
    agree(lambda: scaled("sgd", BAD[bad], clip=True), steps=6, programs=3)


def appends(optimizer: Any, log: list[Any]) -> None:
    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        log.append(("before", optimizer.param_groups[0]["params"][1].grad.sum().item()))

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        log.append(("after", optimizer.param_groups[0]["params"][1].sum().item()))

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)


def shrinks(optimizer: Any, log: list[Any]) -> None:
    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].mul_(0.5)

    optimizer.register_step_post_hook(after)


def shrinks_and_appends(optimizer: Any, log: list[Any]) -> None:
    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        log.append("before")
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].mul_(0.5)

    optimizer.register_step_pre_hook(before)


class Last:
    value: Any = None


def stores(optimizer: Any, log: list[Any]) -> None:
    last = Last()
    log.append(last)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        last.value = optimizer.param_groups[0]["params"][0].detach().clone()

    optimizer.register_step_post_hook(after)


@pytest.mark.parametrize("hooks", [appends, shrinks, shrinks_and_appends, stores])
def test_step_hooks_fire_for_steps_that_are_made(hooks: Any) -> None:
    def build() -> Case:
        log: list[Any] = []
        return scaled("sgd", {0, 3}, clip=False, log=log, hook=lambda optimizer: hooks(optimizer, log))

    agree(build, steps=5)


def test_two_optimizers_and_an_update_outside() -> None:
    def build() -> Case:
        one, two = mlp(), mlp()
        first, second = optim.Adam(one.parameters(), lr=0.1), optim.SGD(two.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        scales: list[float] = []

        def step(x: Any, y: Any) -> None:
            first.zero_grad()
            second.zero_grad()
            scaler.scale(one(x).sum()).backward()
            scaler.scale(two(y).sum()).backward()
            scaler.step(first)
            scaler.step(second)

        def between(turn: int) -> None:
            scaler.update()
            scales.append(scaler.get_scale())

        def args(turn: int) -> tuple[Any, ...]:
            return (*batches({1})(turn), torch.randn(5, 3))

        return Case(step, one, two, first, second, scales, args=args, between=between)

    agree(build, steps=5)


def test_accumulation_and_a_loaded_state() -> None:
    def build() -> Case:
        model = mlp()
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=1)

        def step(x: Any) -> Any:
            optimizer.zero_grad(set_to_none=False)
            for part in x.chunk(2):
                scaler.scale(model(part).pow(2).mean() / 2).backward()
            scaler.step(optimizer)
            scaler.update()

        def between(turn: int) -> None:
            if turn == 1:
                scaler.load_state_dict({**scaler.state_dict(), "scale": 16.0})
            scales.append(scaler.state_dict())

        scales: list[Any] = []
        return Case(step, model, optimizer, scales, args=batches({2}), between=between)

    agree(build, steps=4)


def test_an_optimizer_that_draws_in_its_step_is_refused() -> None:
    class Noisy(optim.SGD):
        def step(self, closure: Any = None) -> None:
            for p in self.param_groups[0]["params"]:
                p.grad.add_(torch.randn_like(p))
            super().step()

    model = mlp()
    optimizer = Noisy(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step(x: Any) -> None:
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    with pytest.raises(CompileError, match="draws random numbers"):
        torch.compile(step)(torch.randn(5, 3))
