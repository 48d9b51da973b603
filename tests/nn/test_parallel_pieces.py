"""The pieces of data parallelism by themselves: copies of modules, calls of several, tensors cut and joined."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from undertow.nn.parallel import _functions, parallel_apply, replicate


def test_gradients_reach_the_module_through_its_copies() -> None:
    layer = torch.nn.Linear(2, 3)
    network = torch.nn.Sequential(layer, torch.nn.ReLU(), layer_twice := torch.nn.Sequential(torch.nn.Linear(3, 1)))
    copies = replicate(network, ["cpu", "cpu"])
    results = parallel_apply(copies, [torch.ones(1, 2), (torch.ones(1, 2),)])
    assert [list(copy.parameters()) for copy in copies] == [[], []]
    sum(result.sum() for result in results).backward()
    assert layer.weight.grad is not None and layer_twice[0].weight.grad.shape == (1, 3)
    expected = network(torch.ones(1, 2))
    assert all(torch.equal(result, expected) for result in results)
    detached: Any = replicate(network, ["cpu"], detach=True)[0]
    assert not detached[0].weight.requires_grad


def test_an_error_says_which_copy_it_was() -> None:
    with pytest.raises(RuntimeError, match=r"^Caught RuntimeError in replica 1 on device cpu\."):
        parallel_apply([torch.nn.Linear(2, 3)] * 2, [torch.ones(1, 2), torch.ones(1, 5)], devices=["cpu", "cpu"])


def test_cutting_and_joining_have_gradients() -> None:
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    parts = _functions.Scatter.apply(["cpu", "cpu"], None, 0, x)
    whole = _functions.Gather.apply("cpu", 0, *parts)
    first, again = _functions.Broadcast.apply(["cpu", "cpu"], whole)
    (first * again).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())
    numbers = [torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)]
    (_functions.Gather.apply("cpu", 0, *numbers) * torch.tensor([3.0, 4.0])).sum().backward()
    assert [number.grad.item() for number in numbers] == [3.0, 4.0]
