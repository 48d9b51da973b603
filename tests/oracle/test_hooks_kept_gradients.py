"""What a hook keeps of a leaf's gradient, and whether `.grad` shares memory with it from then on.

The first gradient becomes `.grad` without a copy unless the tensor that the hook was given is held: a kept `g` is a value
of its own, a kept `g.detach()` is an alias of `.grad`, which later writes to `.grad` reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import leaf

ways: dict[str, Callable[[Any], Any]] = {
    "itself": lambda g: g, "detached": lambda g: g.detach(), "data": lambda g: g.data, "numpy": lambda g: g.numpy(),
    "slice": lambda g: g[:1], "view": lambda g: g.view(-1), "clone": lambda g: g.clone(), "nothing": lambda g: None,
}  # fmt: skip


def written_to(x: Any, kept: Any, log: Any) -> None:
    """Write to `.grad` and log what was kept."""
    x.grad.mul_(5)
    log([each if each is None else each.tolist() for each in kept], x.grad.tolist())


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("inputs", [False, True], ids=["backward", "backward(inputs)"])
@pytest.mark.parametrize("anomaly", [False, True], ids=["", "anomaly"])
def test_hook_on_the_leaf(way, inputs, anomaly):
    def program(torch, log):
        x, kept = leaf(torch), []
        x.register_hook(lambda g: kept.append(ways[way](g)))
        with torch.autograd.set_detect_anomaly(anomaly):
            x.pow(2).sum().backward(inputs=[x] if inputs else None)
        written_to(x, kept, log)

    agree(program)


@pytest.mark.parametrize("way", ways)
def test_prehook_of_the_accumulator(way):
    def program(torch, log):
        x, kept = leaf(torch), []
        accumulator = x.view_as(x).grad_fn.next_functions[0][0]
        accumulator.register_prehook(lambda gs: kept.append(ways[way](gs[0])))
        x.pow(2).sum().backward()
        written_to(x, kept, log)

    agree(program)


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("summed", [False, True])
def test_hook_of_the_accumulator(way, summed):
    def program(torch, log):
        torch.manual_seed(0)
        model, kept = torch.nn.Linear(2, 3), []
        x = model.weight
        accumulator = x.view_as(x).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda _, gs: kept.append(ways[way](gs[0])))
        y = model(torch.ones(2, 2))
        (y + model(torch.ones(2, 2)) if summed else y).pow(2).sum().backward()
        x.grad.zero_()
        log([each is not None and not torch.as_tensor(each).any().item() for each in kept])

    agree(program)


@pytest.mark.parametrize("way", ["itself", "detached", "clone"])
def test_hook_on_a_tensor_whose_gradient_passes_on_unchanged(way):
    def program(torch, log):
        x, kept = leaf(torch), []
        y = x.clone()
        y.register_hook(lambda g: kept.append(ways[way](g)))
        y.pow(2).sum().backward()
        written_to(x, kept, log)

    agree(program)


@pytest.mark.parametrize("first", [True, False])
def test_one_gradient_for_two_leaves(first):
    def program(torch, log):
        a, b, kept = leaf(torch), leaf(torch), []
        hooked = a if first else b
        hooked.register_hook(lambda g: kept.append(g.detach()))
        (a + b).pow(2).sum().backward()
        written_to(hooked, kept, log)
        log(a.grad, b.grad)

    agree(program)


@pytest.mark.parametrize("held", [True, False])
def test_hook_returns_memory_of_its_own(held):
    def program(torch, log):
        x, memory = leaf(torch), torch.full((2, 2), 7.0)
        x.register_hook(lambda g: memory[0] if not held else row)
        row = memory[0]
        x.pow(2).sum().backward()
        written_to(x, [memory], log)

    agree(program)


def test_second_hook_keeps_what_the_first_returned():
    def program(torch, log):
        x, kept = leaf(torch), []
        x.register_hook(lambda g: kept.append(g.detach()))
        x.register_hook(lambda g: g * 3)
        x.register_hook(lambda g: kept.append(g.detach()))
        x.pow(2).sum().backward()
        written_to(x, kept, log)

    agree(program)


def test_kept_alias_follows_accumulation():
    def program(torch, log):
        x, kept = leaf(torch), []
        x.register_hook(lambda g: kept.append(g.detach()))
        for _ in range(3):
            x.pow(2).sum().backward()
            log([each.tolist() for each in kept])
        x.grad = None
        x.pow(2).sum().backward()
        log([each.tolist() for each in kept])

    agree(program)
