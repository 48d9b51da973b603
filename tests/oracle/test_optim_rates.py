"""Learning rates that are tensors of any dims, and options that exclude one another once a step is made."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.oracle.harness import Log, agree

NAMES = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD",
         "Adafactor"]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_rate_of_one_element(name: str, shape: tuple[int, ...]) -> None:
    def program(torch: Any, log: Log) -> Any:
        param = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4) / 5)
        rate = torch.full(shape, 0.1)
        optimizer = getattr(torch.optim, name)([param], lr=rate)
        for _ in range(3):
            optimizer.zero_grad()
            (param * param).sum().backward()
            optimizer.step()
            log(param, rate)
        return optimizer.state_dict()

    agree(program)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Adafactor", "SGD")])
def test_foreach_is_not_differentiable(name: str) -> None:
    def program(torch: Any) -> None:
        start = torch.ones(3, requires_grad=True)
        param = start.clone()
        param.grad = torch.ones(3)
        getattr(torch.optim, name)([param], lr=0.1, differentiable=True, foreach=True).step()

    agree(program, raises=True)


def test_loading_leaves_no_cycles() -> None:
    """What load_state_dict makes is freed without the garbage collector."""

    def program(torch: Any, log: Log) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(2, 2)).sum().backward()
        optimizer.step()
        state = model.state_dict()
        gc.collect()
        gc.disable()
        try:
            model.load_state_dict(state)
            log(gc.collect())
            model.state_dict()
            log(gc.collect())
        finally:
            gc.enable()

    agree(program)
