"""swa_utils: averaged models, their schedule, and batch norm statistics."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def swa(torch: Any) -> Any:
    return import_module(f"{torch.__name__}.optim.swa_utils")


def model_of(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))


def shift(torch: Any, model: Any) -> None:
    model(torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]))
    with torch.no_grad():
        for number, param in enumerate(model.parameters()):
            param.add_(0.5 + number)


AVERAGES: dict[str, Any] = {
    "default": lambda utils: {},
    "with buffers": lambda utils: {"use_buffers": True},
    "ema": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.9)},
    "ema of lists": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
    "ema with buffers": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(), "use_buffers": True},
    "mean": lambda utils: {"avg_fn": utils.get_swa_avg_fn()},
    "mean of lists": lambda utils: {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
    "own": lambda utils: {"avg_fn": lambda averaged, current, count: 0.5 * averaged + 0.5 * current + count},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name):
    def program(torch, log):
        utils, model = swa(torch), model_of(torch)
        averaged = utils.AveragedModel(model, **AVERAGES[name](utils))
        log(list(averaged.state_dict()), averaged.n_averaged)
        for _ in range(4):
            shift(torch, model)
            averaged.update_parameters(model)
        log(averaged.state_dict())
        averaged.eval()
        log(averaged(torch.tensor([[1.0, 2.0]])))
        twin = utils.AveragedModel(model)
        twin.load_state_dict(averaged.state_dict())
        log(twin.n_averaged, copy.deepcopy(averaged).state_dict())

    agree(program)


@cases
def wrong_arguments(torch, log):
    utils, model = swa(torch), model_of(torch)
    attempt(log, "both", lambda: utils.AveragedModel(model, avg_fn=abs, multi_avg_fn=abs))
    for function in (utils.get_ema_avg_fn, utils.get_ema_multi_avg_fn):
        for decay in (2, -1):
            attempt(log, decay, lambda: function(decay))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attempt(log, "strategy", lambda: utils.SWALR(optimizer, 0.01, anneal_strategy="exp"))
    attempt(log, "epochs", lambda: utils.SWALR(optimizer, 0.01, anneal_epochs=-1))
    attempt(log, "fraction", lambda: utils.SWALR(optimizer, 0.01, anneal_epochs=1.5))
    attempt(log, "length", lambda: utils.SWALR(optimizer, [0.01, 0.02]))


@cases
def schedule(torch, log):
    utils = swa(torch)
    for options in ({}, {"anneal_epochs": 3}, {"anneal_epochs": 4, "anneal_strategy": "linear"}, {"anneal_epochs": 0}):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.4}], lr=0.1)
        scheduler = utils.SWALR(optimizer, [0.01, 0.02], **options)
        for _ in range(7):
            log(scheduler.get_last_lr(), optimizer.param_groups[0]["swa_lr"])
            optimizer.step()
            scheduler.step()
        state = scheduler.state_dict()
        log({key: state[key] for key in sorted(state)})


@cases
def schedule_after_another(torch, log):
    utils = swa(torch)
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    falling, flat = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8), utils.SWALR(optimizer, 0.05, 3)
    for epoch in range(8):
        optimizer.step()
        (falling if epoch < 4 else flat).step()
        log(optimizer.param_groups[0]["lr"])


@cases
def batch_norm_statistics(torch, log):
    utils, model = swa(torch), model_of(torch)
    model.eval()
    batches = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, -2.0], [1.5, 1.0]])]
    utils.update_bn(batches, model)
    log(model[1].running_mean, model[1].running_var, model[1].num_batches_tracked, model[1].momentum, model.training)
    utils.update_bn([[batches[1], "label"], (batches[0],)], utils.AveragedModel(model))
    log(model[1].running_mean)
    plain = torch.nn.Linear(2, 2)
    utils.update_bn(iter([]), plain)


@cases.test
def test_swa(program):
    agree(program, warns=True)
