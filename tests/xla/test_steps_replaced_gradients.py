"""A hook on the host keeps `.grad`, or an alias of it, and replaces `.grad`: each kept one has the value of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow._src.compile import CompileError

Keep = Callable[[Any], Any]

KEEPS: dict[str, Keep] = {
    "itself": lambda g: g, "detached": lambda g: g.detach(), "numpy": lambda g: g.numpy(), "row": lambda g: g.detach()[0],
}  # fmt: skip


def _build(keep: Keep, by_value: bool, zero: Callable[[Any, int], None]) -> Case:
    model, kept, calls = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), [], [0]

    def hook_by_value(p: Any) -> None:
        kept.append(keep(p.grad))
        if p.grad.norm() > 0.2:
            p.grad = p.grad * 0.5

    def hook_by_count(p: Any) -> None:
        kept.append(keep(p.grad))
        if len(kept) % 2:
            p.grad = p.grad * 0.5

    model[2].weight.register_post_accumulate_grad_hook(hook_by_value if by_value else hook_by_count)

    def step(x: Any) -> Any:
        zero(model, calls[0])
        y = model(x)
        for part in y.split(1):
            part.pow(2).mean().backward(retain_graph=True)
        return y.sum().item()

    def between(turn: int) -> None:
        calls[0] += 1

    return Case(step, model, log=kept, args=lambda turn: (torch.randn(3, 2),), between=between, look=lambda: [
        np.array(each.detach() if isinstance(each, torch.Tensor) else each) for each in kept
    ])  # fmt: skip


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("by_value", [True, False])
@pytest.mark.parametrize("zero", ["to_none", "in_place", "at_times", "never"])
def test_what_a_hook_keeps_of_a_gradient_that_it_replaces(keep: str, by_value: bool, zero: str) -> None:
    def zeroed(model: Any, turn: int) -> None:
        if zero in ("to_none", "in_place"):
            model.zero_grad(set_to_none=zero == "to_none")
        elif zero == "at_times" and turn % 2:
            model.zero_grad()

    agree(lambda: _build(KEEPS[keep], by_value, zeroed), steps=4)


@pytest.mark.parametrize("of_gradient", [True, False])
def test_a_hook_on_the_host_that_gives_a_tensor_other_memory_is_refused(of_gradient: bool) -> None:
    layer, kept = nn.Linear(2, 1, bias=False), []

    def hook(p: Any) -> None:
        kept.append(p.grad.detach())
        if p.grad.norm() > 0:
            if of_gradient:
                p.grad.data = p.grad.data * 0.5
            else:
                p.data = p.data * 0.5

    layer.weight.register_post_accumulate_grad_hook(hook)
    step = torch.compile(lambda x: layer(x).sum().backward())
    with pytest.raises(CompileError, match="gives a tensor other memory"):
        for _ in range(2):
            step(torch.ones(1, 2))
