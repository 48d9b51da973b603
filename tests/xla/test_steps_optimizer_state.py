"""Step counts, options and schedulers that code besides the optimizer reads: checkpoints, logs, hooks, the step itself."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

Use = Callable[["Training"], Any]


class Training:
    """A model, its optimizer and scheduler, and a log."""

    def __init__(self) -> None:
        self.model = nn.Linear(3, 2)
        self.weight = self.model.weight
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.1)
        self.scheduler = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        self.log: list[Any] = []
        self.loss: Any = None

    @property
    def count(self) -> Any:
        return self.optimizer.state[self.weight]["step"]

    def saved(self, *more: Any) -> Any:
        file = io.BytesIO()
        torch.save([self.optimizer.state_dict(), *more], file)
        file.seek(0)
        return torch.load(file)


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


def in_step(use: Use, returned: Use = lambda its: None) -> Callable[[], Case]:
    def build() -> Case:
        its = Training()

        def step(x: Any) -> Any:
            its.optimizer.zero_grad()
            its.loss = its.model(x).pow(2).mean()
            its.loss.backward()
            its.optimizer.step()
            its.scheduler.step()
            use(its)
            return returned(its)

        return Case(step, its.model, its.optimizer, its.log, args=batch)

    return build


# --- after the step: counts have been raised, and schedulers have stepped


def _nothing(its: Training) -> None:
    pass


def _reset(its: Training) -> None:
    for state in its.optimizer.state.values():
        state["step"].zero_()


def _log_often(its: Training) -> None:
    its.log.append(its.scheduler.get_last_lr())
    its.log.append((its.scheduler.last_epoch, its.loss.item()))


USES: dict[str, Use] = {
    "a count that is set": _reset,
    "a count that is logged": lambda its: its.log.append(int(its.count)),
    "counts in a copied state": lambda its: its.log.append(copy.deepcopy(its.optimizer.state_dict())),
    "a checkpoint": lambda its: its.log.append(its.saved(its.scheduler.state_dict(), its.loss.item())),
    "options in a state": lambda its: its.log.append([g["lr"] for g in its.optimizer.state_dict()["param_groups"]]),
    "an optimizer's description": lambda its: its.log.append(str(its.optimizer)),
    "a copied optimizer": lambda its: its.log.append(copy.deepcopy(its.optimizer).param_groups[0]["lr"]),
    "a scheduler's state": _log_often,
}

RESULTS: dict[str, Use] = {
    "a count": lambda its: its.count.clone(),
    "a product with a count": lambda its: its.loss.detach() * its.count,
    "a model's state": lambda its: its.model.state_dict()["weight"] * 2,  # also a method of schedulers
}


@pytest.mark.parametrize("name", USES)
def test_numbers_after_the_step_are_those_of_eager_mode(name: str) -> None:
    agree(in_step(USES[name]), steps=4, programs=2)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_eager_mode(name: str) -> None:
    agree(in_step(_nothing, RESULTS[name]), steps=4, programs=2)


# --- in hooks

HOOKS: dict[str, Callable[[Training], Any]] = {
    "counts after a step": lambda its: its.optimizer.register_step_post_hook(
        lambda optimizer, *_: its.log.append(float(sum(state["step"] for state in optimizer.state.values())))
    ),
    "a state after a step": lambda its: its.optimizer.register_step_post_hook(
        lambda optimizer, *_: its.log.append(copy.deepcopy(optimizer.state_dict()))
    ),
    "a scheduler in a forward": lambda its: its.model.register_forward_hook(
        lambda module, given, out: its.log.append((its.scheduler.last_epoch, out.norm().item()))
    ),
}


@pytest.mark.parametrize("name", HOOKS)
def test_numbers_in_hooks_are_those_of_eager_mode(name: str) -> None:
    def build() -> Case:
        case = in_step(_nothing)()
        its = case.step.__closure__[0].cell_contents  # type: ignore[attr-defined]
        HOOKS[name](its)
        return case

    agree(build, steps=4, programs=2)


def test_a_scheduler_whose_state_decides_is_guarded() -> None:
    def late(its: Training) -> Any:
        return its.loss.detach() * (2 if its.scheduler.last_epoch > 2 else 1)

    agree(in_step(_nothing, late), steps=4)


# --- what the step does to a group, besides its learning rate


def _count(its: Training) -> None:
    group = its.optimizer.param_groups[0]
    group["steps"] = group.get("steps", 0) + 1


def _remember_the_rate(its: Training) -> None:
    group = its.optimizer.param_groups[0]
    group["before"] = group["lr"]
    group.setdefault("rates", []).append(group["lr"])


CHANGES: dict[str, Use] = {
    "a count": _count,
    "an earlier rate": _remember_the_rate,
    "a flag": lambda its: its.optimizer.param_groups[0].update(amsgrad=False, decoupled=True),
    "a value of the loss": lambda its: its.optimizer.param_groups[0].update(loss=its.loss.item()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_groups_are_left_as_in_eager_mode(name: str) -> None:
    def use(its: Training) -> None:
        CHANGES[name](its)
        its.log.append((its.loss.item(), copy.deepcopy(its.optimizer.state_dict()["param_groups"])))  # traced again

    agree(in_step(use), steps=4)


def test_a_group_can_not_get_a_tensor_of_the_step() -> None:
    case = in_step(lambda its: its.optimizer.param_groups[0].update(loss=its.loss.detach()))()
    with pytest.raises(CompileError, match=r"param_groups\[0\]\['loss'\] to a tensor that it makes"):
        torch.compile(case.step)(*batch(0))


class Counting(optim.Optimizer):
    """An optimizer as users write it: its state has a plain count."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if len(state) == 0:
                    state["step"] = 0
                state["step"] += 1
                parameter.add_(parameter.grad, alpha=-group["lr"] / state["step"])


def test_an_optimizer_of_the_users_has_a_scheduler() -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = Counting(model.parameters(), 0.1)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()

        return Case(step, model, optimizer, args=batch, between=lambda turn: scheduler.step())

    agree(build, steps=4, programs=2)


class Faster:
    """A callback that raises the learning rate."""

    def on_end(self, its: Training, loss: float) -> None:
        for group in its.optimizer.param_groups:
            group["lr"] *= 1.5


def fire(callbacks: list[Any], event: str, *arguments: Any) -> None:
    for callback in callbacks:
        getattr(callback, event)(*arguments)


@pytest.mark.parametrize("schedules", [False, True])
def test_a_callback_that_changes_a_rate(schedules: bool) -> None:
    def build() -> Case:
        its, callbacks = Training(), [Faster()]

        def step(x: Any) -> None:
            its.optimizer.zero_grad()
            loss = its.model(x).pow(2).mean()
            loss.backward()
            its.optimizer.step()
            if schedules:
                its.scheduler.step()
            fire(callbacks, "on_end", its, loss.item())

        return Case(step, its.model, its.optimizer, args=batch)

    if not schedules:
        agree(build, steps=4)
        return
    with pytest.raises(CompileError, match="changes 'lr', a number that the step changes, too"):
        torch.compile(build().step)(*batch(0))
