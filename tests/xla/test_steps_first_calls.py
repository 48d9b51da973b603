"""Calls that leave something which later calls find run as they are written: caches that fill, states that begin."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_first_calls(name: str) -> None:
    agree(case[name], steps=5, programs=1)


def batches(turn: int) -> tuple[Any, ...]:
    return (torch.randn(4, 3),)


def training(loss: Any, make: Any, log: list[Any], prepare: Any = None) -> Case:
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters())
    if prepare is not None:
        prepare(model, optimizer)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model(x))
        value.backward()
        optimizer.step()
        return value

    return Case(step, model, optimizer, args=batches, log=log, look=lambda: len(log))


@case
def a_cached_mask() -> Case:
    log: list[Any] = []

    @functools.lru_cache(None)
    def mask(n: int) -> Any:
        log.append(n)
        return torch.tril(torch.ones(n, n))

    return training(lambda y: (mask(4) @ y).pow(2).mean(), lambda p: optim.SGD(p, lr=0.1, momentum=0.9), log)


@case
def a_step_hook_that_reads_the_state() -> Case:
    log: list[Any] = []

    def prepare(model: Any, optimizer: Any) -> None:
        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            log.append(optimizer.state[model.weight]["exp_avg"].norm().item())

        optimizer.register_step_post_hook(after)

    return training(lambda y: y.pow(2).mean(), lambda p: optim.Adam(p, lr=0.01), log, prepare)


@case
def a_gradient_hook_that_reads_the_state() -> Case:
    log: list[Any] = []

    def prepare(model: Any, optimizer: Any) -> None:
        def after(p: Any) -> None:
            state = optimizer.state[p]
            log.append(state["momentum_buffer"].norm().item() if "momentum_buffer" in state else 0.0)

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(after)

    return training(lambda y: y.pow(2).mean(), lambda p: optim.SGD(p, lr=0.1, momentum=0.9), log, prepare)


def test_explain_says_so() -> None:
    mask = functools.lru_cache(None)(lambda n: torch.ones(n))
    step = torch.compile(lambda x: x * mask(2))
    results = [step(torch.tensor([1.0, turn])).tolist() for turn in range(3)]
    assert results == [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]
    report = torch.compile.explain(step)
    assert "a call ran eagerly: `mask` caches its results" in str(report)
    assert len(report.data[0]["as_written"]) == 1 and len(report.data[0]["programs"]) == 1
    mask.cache_clear()
    assert step(torch.tensor([1.0, 5.0])).tolist() == [1.0, 5.0]
    assert len(report := torch.compile.explain(step).data[0]["as_written"]) == 2, report


def test_a_cache_that_keeps_others_is_not_emptied_in_vain() -> None:
    mask = functools.lru_cache(None)(lambda n: torch.ones(n))
    mask(3)
    with pytest.raises(CompileError, match="Fill it before the step: call it once with each argument"):
        torch.compile(lambda x: x * mask(2))(torch.ones(2))
