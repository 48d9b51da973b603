"""On a device one program serves the first call of a step too: what that call makes is put in place before it.

Nothing may show that it was: not to the step, not to hooks, and not if the call fails.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import differences
from undertow import nn, optim

F = nn.functional
CALLS = 4


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
    with torch.device("xla"):
        yield


class Training:
    """A model with an optimizer, and the loss of a step."""

    def __init__(self, make: Callable[[Any], optim.Optimizer]) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = make(self.model.parameters())
        self.x, self.y = torch.randn(5, 4), torch.randint(0, 2, (5,))

    def loss(self) -> Any:
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        return loss.detach()


Train = Callable[[Training, list[Any]], Callable[[], Any]]  # given a log, returns a step


def left(training: Training) -> list[Any]:
    """Return the parameters, their gradients, and the optimizer's state."""
    weights = [*training.model.parameters()]
    return [
        [each.tolist() for each in weights],
        [None if each.grad is None else each.grad.tolist() for each in weights],
        [{name: each.tolist() for name, each in state.items()} for state in training.optimizer.state.values()],
    ]


def shown(log: Any) -> Any:
    if isinstance(log, list):
        return [shown(each) for each in log]
    return log.tolist() if isinstance(log, torch.Tensor) else log


def run(train: Train, make: Callable[[Any], optim.Optimizer], compiled: bool) -> tuple[list[Any], int]:
    """Return what is seen after each call and in the log, and how many programs there are."""
    training = Training(make)
    log: list[Any] = []
    found: list[Any] = []
    step: Any = train(training, log)
    step = torch.compile(step) if compiled else step
    for _ in range(CALLS):
        try:
            found.append(step())
        except ZeroDivisionError as error:
            found.append(type(error).__name__)
        found.append(left(training))
    return [shown(found), shown(log)], sum(map(len, step.programs.values())) if compiled else 0


def compare(train: Train, make: Callable[[Any], optim.Optimizer]) -> int:
    """Compare a training with its compiled twin; return how many programs there are."""
    (eager, _), (compiled, programs) = run(train, make, False), run(train, make, True)
    gc.collect()
    gc.collect()  # while a tensor lives on a device, ops look where their inputs are
    assert not differences(eager, compiled)
    return programs


def adam(parameters: Any) -> optim.Optimizer:
    return optim.Adam(parameters, 0.01)


def zeroed_first(training: Training, log: list[Any]) -> Callable[[], Any]:
    def step() -> Any:
        training.optimizer.zero_grad()
        loss = training.loss()
        training.optimizer.step()
        return loss

    return step


def zeroed_last(training: Training, log: list[Any]) -> Callable[[], Any]:
    def step() -> Any:
        loss = training.loss()
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        training.optimizer.step()
        training.optimizer.zero_grad()
        return loss

    return step


def never_zeroed(training: Training, log: list[Any]) -> Callable[[], Any]:
    def step() -> Any:
        loss = training.loss()
        training.optimizer.step()
        return loss

    return step


OPTIMIZERS: dict[str, tuple[Callable[[Any], optim.Optimizer], int]] = {
    "Adam": (adam, 1),
    "AdamW with amsgrad": (lambda p: optim.AdamW(p, 0.01, amsgrad=True), 1),
    "NAdam": (lambda p: optim.NAdam(p, 0.01), 1),
    "RMSprop": (lambda p: optim.RMSprop(p, 0.01, momentum=0.9), 1),
    "SGD with momentum": (lambda p: optim.SGD(p, 0.01, momentum=0.9, nesterov=True), 1),
    "SGD with dampening": (lambda p: optim.SGD(p, 0.01, momentum=0.9, dampening=0.1), 2),
    "Rprop, which begins with the rate": (lambda p: optim.Rprop(p, 0.01), 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("train", [zeroed_first, zeroed_last])
def test_one_program_serves_all_calls(train: Train, name: str) -> None:
    make, programs = OPTIMIZERS[name]
    assert compare(train, make) == programs


def test_gradients_that_add_up_begin_as_none() -> None:
    assert compare(never_zeroed, adam) == 2


def test_a_step_that_looks_at_the_state() -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        def step() -> Any:
            training.optimizer.zero_grad()
            training.loss()
            before = len(training.optimizer.state)
            training.optimizer.step()
            return before

        return step

    compare(train, adam)


@pytest.mark.parametrize("printed", [False, True])
def test_a_step_that_looks_at_gradients(printed: bool) -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        weight = training.model[0].weight

        def step() -> Any:
            if printed:
                log.append(str(weight.grad is None))
            known = weight.grad is not None
            training.optimizer.zero_grad()
            loss = training.loss()
            training.optimizer.step()
            return loss * 2 if known else loss

        return step

    compare(train, adam)


def test_a_hook_on_the_host_that_looks_at_gradients() -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        weight = training.model[0].weight
        training.model[2].register_forward_hook(lambda *_: log.append(weight.grad is None))
        return zeroed_last(training, log)

    compare(train, adam)


@pytest.mark.parametrize("forward", [False, True])
def test_a_hook_that_raises_in_the_first_call(forward: bool) -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        count = [0]

        def hook(*_: Any) -> None:
            count[0] += 1
            if count[0] == 1:
                raise ZeroDivisionError

        register = training.model[0].register_forward_hook if forward else training.model[0].weight.register_hook
        register(hook)
        return zeroed_first(training, log)

    compare(train, adam)


def test_a_step_that_branches_on_its_loss() -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        def step() -> Any:
            training.optimizer.zero_grad()
            loss = training.loss()
            if loss > 100:
                return loss * 0
            training.optimizer.step()
            return loss

        return step

    compare(train, adam)


@pytest.mark.parametrize("built_in", [False, True])
def test_code_that_looks_at_gradients_by_name(built_in: bool) -> None:
    def look(tensor: Any, name: str) -> Any:
        return attrgetter(name)(tensor)

    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        weight = training.model[0].weight
        zeroed = zeroed_first(training, log)

        def step() -> Any:
            log.append(str((getattr if built_in else look)(weight, "grad") is None))
            return zeroed()

        return step

    compare(train, adam)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_step_that_has_the_state_from_elsewhere(by_name: bool) -> None:
    def train(training: Training, log: list[Any]) -> Callable[[], Any]:
        held = {"found": None if by_name else training.optimizer.state}
        zeroed = zeroed_first(training, log)

        def step() -> Any:
            entries: Any = getattr(training.optimizer, "state") if by_name else held["found"]  # noqa: B009
            log.append(len(entries))
            return zeroed()

        return step

    compare(train, adam)
