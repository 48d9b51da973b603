"""What undertow's engine tells a listener of a backward pass, and that nobody pays for one that is not there."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

import undertow as torch
from tests.why.engines import both
from undertow._src.base.modes import slow_path
from undertow.why.watch.engine import carried_level, engine_of
from undertow.why.watch.watcher import Watcher


def peak(carried: Any) -> float:
    return float(np.max(np.abs(np.asarray(getattr(carried, "_array", carried)))))


def heard(go: Any) -> list[tuple[str, float | None, list[float | None]]]:
    told: list[tuple[str, float | None, list[float | None]]] = []

    def listener(node: Any, got: Any, gave: Any) -> None:
        peaks = [peak(part) for part in gave if part is not None]
        told.append((node.name().rpartition("::")[2], peak(got), peaks))

    slow_path.listeners.append(listener)
    try:
        go()
    finally:
        slow_path.listeners.remove(listener)
    return told


def test_every_node_is_told_once_with_its_gradients() -> None:
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    assert heard((x * 3).relu().sum().backward) == [
        ("SumBackward0", 1.0, [1.0]),
        ("ReluBackward0", 1.0, [1.0]),
        ("MulBackward0", 1.0, [3.0]),
        ("AccumulateGrad", 3.0, []),
    ]


def test_gradients_are_told_as_hooks_left_them() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    y.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad * 0)
    assert heard(y.sum().backward)[1:] == [("MulBackward0", 10.0, [30.0]), ("AccumulateGrad", 0.0, [])]


def test_aimed_passes_are_told_too() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    z = y * 2
    told = heard(lambda: torch.autograd.grad(z.sum(), y))
    assert [name for name, _, _ in told] == ["SumBackward0", "MulBackward0"]


def test_a_watched_program_takes_the_fast_paths_between_its_lines() -> None:
    x = torch.ones(2, requires_grad=True)
    inside = []
    before = slow_path.count
    with Watcher(torch) as watcher:
        y = x * 2
        y.register_hook(lambda grad: inside.append(slow_path.count))  # user code in a hook is watched
        y.sum().backward()
        assert slow_path.count == before + 1
    assert not watcher.trace.problems
    assert (slow_path.count, slow_path.listeners, inside) == (before, [], [before + 1])


@both
def test_a_level_is_zero_nan_or_inf_only_if_values_are(torch: Any) -> None:
    engine = engine_of(torch)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        told = [
            engine.level(torch.tensor(values, dtype=dtype))
            for values in (
                [0.0, 0.0],
                [1.0, -1.0],
                [6e4, 6e4],
                [0.0, 1e-7],
                [1.0, float("inf")],
                [float("nan"), 0.0],
                [],
            )
        ]
        assert told[0] == 0 and all(0 < level < float("inf") for level in told[1:4]), (dtype, told)
        assert told[4] == float("inf") and isnan(told[5]) and told[6] is None
    assert 0 < engine.level(torch.tensor([1e-30, 0.0])) < 1 and engine.level(torch.tensor([1, 2])) is None
    assert 0 < carried_level(np.full((3, 4), 1e30, np.float32)[:, ::2]) < float("inf")
