"""Schedulers: the same learning rates, states, warnings and errors as PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


class Doubling:
    """A schedule that is an object, whose attributes a checkpoint keeps."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: float) -> float:
        return self.rate ** -float(epoch)


# Each makes a scheduler from (torch.optim.lr_scheduler, optimizer, last_epoch).
SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda lr, o, k: lr.LambdaLR(o, lambda epoch: 0.9**epoch, k),
    "LambdaLR per group": lambda lr, o, k: lr.LambdaLR(o, [lambda epoch: 0.9**epoch, Doubling(2.0)], k),
    "MultiplicativeLR": lambda lr, o, k: lr.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * epoch, k),
    "MultiplicativeLR per group": lambda lr, o, k: lr.MultiplicativeLR(o, [lambda epoch: 0.9, Doubling(1.1)], k),
    "StepLR": lambda lr, o, k: lr.StepLR(o, 3, 0.5, k),
    "MultiStepLR": lambda lr, o, k: lr.MultiStepLR(o, [2, 5, 5, 8], 0.5, k),
    "ConstantLR": lambda lr, o, k: lr.ConstantLR(o, 0.25, 4, k),
    "LinearLR": lambda lr, o, k: lr.LinearLR(o, 0.25, 0.75, 6, k),
    "ExponentialLR": lambda lr, o, k: lr.ExponentialLR(o, 0.8, k),
    "PolynomialLR": lambda lr, o, k: lr.PolynomialLR(o, 7, 2.0, k),
    "CosineAnnealingLR": lambda lr, o, k: lr.CosineAnnealingLR(o, 4, 0.01, k),
    "CosineAnnealingWarmRestarts": lambda lr, o, k: lr.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, k),
    "CosineAnnealingWarmRestarts even": lambda lr, o, k: lr.CosineAnnealingWarmRestarts(o, 4, last_epoch=k),
    "CyclicLR": lambda lr, o, k: lr.CyclicLR(o, 0.01, 0.1, 3, last_epoch=k),
    "CyclicLR triangular2": lambda lr, o, k: lr.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], 2, 3, mode="triangular2", base_momentum=[0.5, 0.6], last_epoch=k
    ),
    "CyclicLR exp_range": lambda lr, o, k: lr.CyclicLR(o, 0.01, 0.1, 2, mode="exp_range", gamma=0.9, last_epoch=k),
    "CyclicLR scale_fn": lambda lr, o, k: lr.CyclicLR(
        o, 0.01, 0.1, 2, scale_fn=Doubling(2.0), scale_mode="iterations", cycle_momentum=False, last_epoch=k
    ),
    "OneCycleLR": lambda lr, o, k: lr.OneCycleLR(o, 0.1, 15, last_epoch=k),
    "OneCycleLR linear": lambda lr, o, k: lr.OneCycleLR(
        o, [0.1, 0.3], epochs=5, steps_per_epoch=3, anneal_strategy="linear", three_phase=True, last_epoch=k
    ),
    "OneCycleLR plain": lambda lr, o, k: lr.OneCycleLR(
        o, 0.1, 15, pct_start=0.5, cycle_momentum=False, div_factor=5, final_div_factor=7, last_epoch=k
    ),
}
COMPOSED: dict[str, Any] = {
    "SequentialLR": lambda lr, o: lr.SequentialLR(
        o, [lr.ConstantLR(o, 0.1, 2), lr.ExponentialLR(o, 0.9), lr.StepLR(o, 2, 0.5)], [3, 7]
    ),
    "SequentialLR warmup": lambda lr, o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=4), lr.CosineAnnealingLR(o, 8)], [4]
    ),
    "SequentialLR restarts": lambda lr, o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=3), lr.CosineAnnealingWarmRestarts(o, 4)], [3]
    ),
    "SequentialLR nested": lambda lr, o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1), lr.ChainedScheduler([lr.StepLR(o, 2), lr.ExponentialLR(o, 0.9)])], [20]
    ),
    "ChainedScheduler": lambda lr, o: lr.ChainedScheduler([lr.ConstantLR(o, 0.1, 3), lr.ExponentialLR(o, 0.9)], o),
    "ChainedScheduler three": lambda lr, o: lr.ChainedScheduler(
        [lr.LinearLR(o), lr.StepLR(o, 4), lr.MultiplicativeLR(o, lambda epoch: 0.99)]
    ),
}
EVERY: dict[str, Any] = {
    **{name: (lambda make: lambda lr, o: make(lr, o, -1))(make) for name, make in SCHEDULERS.items()},
    **COMPOSED,
}


def optimizer_of(torch: Any, name: str = "SGD", lr: Any = 0.1) -> Any:
    a, b = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    options = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(torch.optim, name)([{"params": [a]}, {"params": [b], "lr": lr * 2}], lr=lr, **options)


def options_of(optimizer: Any) -> Any:
    wanted = ("lr", "momentum", "betas")
    return [{key: group[key] for key in wanted if key in group} for group in optimizer.param_groups]


def epochs(log: Any, optimizer: Any, scheduler: Any, count: int = 12) -> None:
    for _ in range(count):
        log(options_of(optimizer), scheduler.get_last_lr())
        optimizer.step()
        scheduler.step()


TIGHT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-14}


@pytest.mark.parametrize("name", EVERY)
def test_learning_rates(name):
    def program(torch, log):
        for kind in ("SGD", "AdamW"):
            optimizer = optimizer_of(torch, kind)
            scheduler = EVERY[name](torch.optim.lr_scheduler, optimizer)
            epochs(log, optimizer, scheduler)
            log([{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups])

    agree(program, **TIGHT)


@pytest.mark.parametrize("name", EVERY)
def test_states(name):
    """What a checkpoint holds, and that a scheduler which loads it goes on alike."""

    def program(torch, log):
        optimizer = optimizer_of(torch)
        scheduler = EVERY[name](torch.optim.lr_scheduler, optimizer)
        for _ in range(5):
            optimizer.step()
            scheduler.step()
        state = scheduler.state_dict()
        log({key: state[key] for key in sorted(state)})
        other = optimizer_of(torch)
        twin = EVERY[name](torch.optim.lr_scheduler, other)
        other.load_state_dict(optimizer.state_dict())
        twin.load_state_dict(state)
        epochs(log, other, twin, 8)

    agree(program, **TIGHT)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_resuming_from_an_epoch(name):
    def program(torch, log):
        for last_epoch in range(9):
            optimizer = optimizer_of(torch)
            for group in optimizer.param_groups:
                group.update(initial_lr=group["lr"], max_lr=0.5, min_lr=0.001, max_momentum=0.9, base_momentum=0.8)
                group["lr"] *= 0.5
            scheduler = SCHEDULERS[name](torch.optim.lr_scheduler, optimizer, last_epoch)
            log(scheduler.last_epoch)
            epochs(log, optimizer, scheduler, 5)
        fresh = optimizer_of(torch)
        attempt(log, "fresh", lambda: SCHEDULERS[name](torch.optim.lr_scheduler, fresh, 2) and None)

    agree(program, **TIGHT)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_stepping_to_an_epoch(name):
    def program(torch, log):
        optimizer = optimizer_of(torch)
        scheduler = SCHEDULERS[name](torch.optim.lr_scheduler, optimizer, -1)
        for epoch in (0, 1, 3, 8, 2, None, None, 5):
            optimizer.step()
            scheduler.step(epoch)
            log(epoch, options_of(optimizer), scheduler.last_epoch)

    agree(program, warns=True, **TIGHT)


@pytest.mark.parametrize("name", EVERY)
def test_learning_rate_in_a_tensor(name):
    def program(torch, log):
        optimizer = optimizer_of(torch, lr=torch.tensor(0.1))
        held = [group["lr"] for group in optimizer.param_groups]
        scheduler = EVERY[name](torch.optim.lr_scheduler, optimizer)
        epochs(log, optimizer, scheduler, 8)
        log([group["lr"] is rate for group, rate in zip(optimizer.param_groups, held)])

    agree(program, rtol=1e-5)


@cases
def plateau(torch, log):
    losses = [1.0, 0.9, 0.95, 0.94, 0.93, 0.92, 0.91, 0.5, 0.5, 0.5, 0.5, 0.5, 0.49, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    for options in (
        {"patience": 2},
        {"patience": 1, "cooldown": 2, "factor": 0.5},
        {"patience": 0, "mode": "max", "threshold": 0.05},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.02, "min_lr": [0.05, 0.001]},
        {"patience": 1, "mode": "max", "threshold_mode": "abs", "min_lr": 0.01, "eps": 0.02},
    ):
        optimizer = optimizer_of(torch)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        for loss in losses:
            scheduler.step(torch.tensor(loss) if loss > 0.7 else loss)
            log(options_of(optimizer), scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.in_cooldown)
        state = scheduler.state_dict()
        log({key: state[key] for key in sorted(state)})
        twin = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        twin.load_state_dict(state)
        twin.step(0.1)
        log(twin.best, options_of(optimizer))


@cases
def plateau_with_a_new_group(torch, log):
    for least in (0.0, [0.0, 0.0]):
        optimizer = optimizer_of(torch)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=least)
        optimizer.add_param_group({"params": [torch.ones(1, requires_grad=True)]})
        scheduler.step(1.0)
        attempt(log, str(least), lambda: scheduler.step(2.0))
        log(options_of(optimizer))
    scheduler.step(1.0, epoch=7)
    log(scheduler.last_epoch)


@cases
def stepping_in_the_wrong_order(torch, log):
    optimizer = optimizer_of(torch)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scheduler.step()
    scheduler.step()


@cases
def a_step_before_the_scheduler_does_not_count(torch, log):
    optimizer = optimizer_of(torch)
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    log(getattr(optimizer, "_opt_called", None))
    scheduler.step()


@cases
def an_overridden_step(torch, log):
    optimizer = optimizer_of(torch)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    optimizer.step()
    scheduler.step()


@cases
def two_schedulers_wrap_once(torch, log):
    optimizer = optimizer_of(torch)
    torch.optim.lr_scheduler.StepLR(optimizer, 2)
    wrapped = optimizer.step
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    log(optimizer.step is wrapped, optimizer.step._wrapped_by_lr_sched, optimizer.step.__name__)
    optimizer.step()
    log(optimizer._opt_called)


@cases
def asking_outside_a_step(torch, log):
    lr = torch.optim.lr_scheduler
    optimizer = optimizer_of(torch)
    for name, make in SCHEDULERS.items():
        scheduler = make(lr, optimizer, -1)
        log(name, scheduler.get_lr())
    log(torch.optim.lr_scheduler.EPOCH_DEPRECATION_WARNING[:60], lr._LRScheduler is lr.LRScheduler)


@cases
def wrong_arguments(torch, log):
    lr = torch.optim.lr_scheduler
    o = optimizer_of(torch)
    other = optimizer_of(torch)
    plain = torch.optim.Adagrad([torch.ones(1, requires_grad=True)])
    for label, make in {
        "not an optimizer": lambda: lr.StepLR(3, 2),
        "cyclic of no optimizer": lambda: lr.CyclicLR(3, 0.1, 0.2),
        "one cycle of no optimizer": lambda: lr.OneCycleLR(3, 0.1, 5),
        "plateau of no optimizer": lambda: lr.ReduceLROnPlateau(3),
        "too many lambdas": lambda: lr.LambdaLR(o, [abs] * 3),
        "too few lambdas": lambda: lr.MultiplicativeLR(o, [abs]),
        "not a function": lambda: lr.MultiplicativeLR(o, [3, 4]),
        "also not a function": lambda: lr.MultiplicativeLR(o, 3),
        "constant factor": lambda: lr.ConstantLR(o, 1.5),
        "negative factor": lambda: lr.ConstantLR(o, -1),
        "start factor": lambda: lr.LinearLR(o, 0),
        "end factor": lambda: lr.LinearLR(o, 0.5, 2),
        "T_0": lambda: lr.CosineAnnealingWarmRestarts(o, 0),
        "T_0 a fraction": lambda: lr.CosineAnnealingWarmRestarts(o, 1.5),
        "T_mult": lambda: lr.CosineAnnealingWarmRestarts(o, 1, 0),
        "eta_min": lambda: lr.CosineAnnealingWarmRestarts(o, 1, 1, "a"),
        "negative epoch": lambda: lr.CosineAnnealingWarmRestarts(o, 1).step(-1),
        "mode": lambda: lr.CyclicLR(o, 0.1, 0.2, mode="square"),
        "base_lr": lambda: lr.CyclicLR(o, [0.1], 0.2),
        "no momentum": lambda: lr.CyclicLR(plain, 0.1, 0.2),
        "no momentum either": lambda: lr.OneCycleLR(plain, 0.1, 5),
        "no steps": lambda: lr.OneCycleLR(o, 0.1),
        "total_steps": lambda: lr.OneCycleLR(o, 0.1, total_steps=0),
        "epochs": lambda: lr.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
        "steps_per_epoch": lambda: lr.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=-3),
        "pct_start": lambda: lr.OneCycleLR(o, 0.1, 5, pct_start=2.0),
        "anneal_strategy": lambda: lr.OneCycleLR(o, 0.1, 5, anneal_strategy="exp"),
        "max_lr": lambda: lr.OneCycleLR(o, [0.1], 5),
        "plateau factor": lambda: lr.ReduceLROnPlateau(o, factor=1.0),
        "plateau mode": lambda: lr.ReduceLROnPlateau(o, mode="mean"),
        "plateau threshold": lambda: lr.ReduceLROnPlateau(o, threshold_mode="mean"),
        "min_lr": lambda: lr.ReduceLROnPlateau(o, min_lr=[0.1]),
        "no schedulers": lambda: lr.SequentialLR(o, [], []),
        "no chained schedulers": lambda: lr.ChainedScheduler([]),
        "not schedulers": lambda: lr.SequentialLR(o, [3], []),
        "not chained schedulers": lambda: lr.ChainedScheduler([3], o),
        "milestones": lambda: lr.SequentialLR(o, [lr.StepLR(o, 1)], [2]),
        "another optimizer": lambda: lr.SequentialLR(o, [lr.StepLR(o, 1), lr.StepLR(other, 1)], [2]),
        "another chained optimizer": lambda: lr.ChainedScheduler([lr.StepLR(o, 1), lr.StepLR(other, 1)]),
        "a plateau": lambda: lr.SequentialLR(o, [lr.StepLR(o, 1), lr.ReduceLROnPlateau(o)], [2]),
        "a chained plateau": lambda: lr.ChainedScheduler([lr.ReduceLROnPlateau(o)]),
        "base class": lambda: lr.LRScheduler(o),
        "verbose": lambda: lr.StepLR(o, 1, verbose=True),
    }.items():
        attempt(log, label, lambda: make() and None, words=10)


@cases
def too_many_steps(torch, log):
    optimizer = optimizer_of(torch)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 3)
    for _ in range(5):
        optimizer.step()
        attempt(log, "step", scheduler.step, words=20)
    log(options_of(optimizer))


@cases
def a_scheduler_of_ones_own(torch, log):
    class Sine(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            log("get_lr", self.last_epoch)
            return [base * (1 + math.sin(self.last_epoch)) for base in self.base_lrs]

    optimizer = optimizer_of(torch)
    scheduler = Sine(optimizer)
    epochs(log, optimizer, scheduler, 4)
    scheduler.step(7)
    log(scheduler.state_dict(), options_of(optimizer))


@cases.test
def test_schedulers(program):
    agree(program, warns=True, **TIGHT)
