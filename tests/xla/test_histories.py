"""Graphs that were made outside a step, and hooks on them; hooks on the nodes of leaves that are arguments."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow._src.compile import CompileError


def node_of(leaf: Any) -> Any:
    return leaf.expand_as(leaf).grad_fn.next_functions[0][0]


def ten_times(grads: Any) -> Any:
    return (grads[0] * 10,)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "hook": lambda w, y: y.register_hook(lambda g: g * 10),
    "pre-hook of the node": lambda w, y: y.grad_fn.register_prehook(ten_times),
    "hook of the node": lambda w, y: y.grad_fn.register_hook(lambda given, grads: (given[0] * 10, None)),
    "retain_grad": lambda w, y: y.retain_grad(),
    "deeper in the graph": lambda w, y: y.grad_fn.next_functions[0][0].register_prehook(ten_times),
    "written to": lambda w, y: y.mul_(2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_about_a_graph_from_outside(change: Callable[[Any, Any], Any]) -> None:
    def run(compiled: bool) -> list[Any]:
        w = torch.ones(2, requires_grad=True)
        y = w.exp() * 3

        def step() -> None:
            w.grad = None
            (y * 2).sum().backward(retain_graph=True)

        call = torch.compile(step) if compiled else step
        found = []
        kept = []
        for turn in range(4):
            if turn == 2:
                kept.append(change(w, y))
            call()
            found.append([w.grad.tolist(), y.grad.tolist() if y.retains_grad else None])
        return found

    eager, compiled = run(False), run(True)
    assert [pytest.approx(each) for each in (turn[0] for turn in eager)] == [turn[0] for turn in compiled]
    assert [turn[1] for turn in eager] == [turn[1] for turn in compiled]
    assert eager[1] != eager[2]


def test_a_tensor_with_a_graph_from_outside_is_not_written_to() -> None:
    y = torch.ones(2, requires_grad=True) * 3
    edge, step = y.grad_fn, torch.compile(lambda: y.mul_(2).sum())
    with pytest.raises(CompileError, match="computed outside"):
        step()
    assert y.grad_fn is edge and y.tolist() == [3.0, 3.0]


def test_hooks_on_the_node_of_an_argument() -> None:
    w = torch.ones(2, requires_grad=True)
    node = node_of(w)
    node.register_prehook(ten_times)

    @torch.compile
    def step(w: Any) -> None:
        (w * 2).sum().backward()

    seen = []
    for turn in range(4):
        if turn == 2:
            node.register_prehook(ten_times)
        w.grad = None
        step(w)
        seen.append(w.grad.tolist())
    assert seen == [[20.0, 20.0]] * 2 + [[200.0, 200.0]] * 2


@pytest.mark.parametrize("captured", [False, True])
def test_a_way_back_has_the_values_of_its_forward(captured: bool) -> None:
    x = torch.ones(3, 2)
    weight = torch.ones(2, requires_grad=True)

    class Scaled(torch.nn.Module):
        def forward(self, given: Any) -> Any:
            return (x if captured else given) * weight

    model = torch.compile(Scaled())
    for _ in range(2):
        weight.grad = None
        result = model(x).sum()
        x.mul_(2)
        result.backward()
        assert weight.grad.tolist() == [x[0, 0].item() / 2 * 3] * 2


def test_the_dtype_that_a_leaf_wants_its_gradient_in() -> None:
    _try_dtypes()
    gc.collect()  # passes take their general path while such a leaf is there


def _try_dtypes() -> None:
    weight = torch.ones(3, requires_grad=True)
    seen: list[Any] = []
    weight.register_hook(lambda g: seen.append(g.dtype))

    @torch.compile
    def step(x: Any) -> Any:
        weight.grad = x.grad = None
        loss = (weight * x).sum()
        loss.backward()
        return loss

    x = torch.ones(3, requires_grad=True)
    for wanted in (torch.float32, torch.float64, torch.float64, torch.float16):
        weight.grad = x.grad = None
        weight.grad_dtype = x.grad_dtype = wanted
        step(x)
        assert weight.grad.dtype is x.grad.dtype is seen[-1] is wanted
    assert len(seen) == 4
