"""What is timed. A row is one line of `ROWS`; a new one is a new line and, where it needs one, a new builder.

A builder gets the torch-like module and returns a step: a function of no arguments that is called over and over.
Builders only use what both libraries have, and keep nothing between steps that a step does not undo.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], Any]


class Row(NamedTuple):
    """A name, how to build the step, and the ratio undertow/torch that is aimed for (None: only reported)."""

    name: str
    build: Callable[[ModuleType], Step]
    aim: float | None = None


def chain(torch: ModuleType, operations: int = 1000, hook: bool = False, backward: bool = True) -> Step:
    """One small tensor through many operations, one after the other."""
    x = torch.ones(4, requires_grad=True)

    def look(gradient: Any) -> None:
        pass

    def step() -> None:
        y = x
        for _ in range(operations):
            y = y * 1.0001
            if hook:
                y.register_hook(look)
        if backward:
            y.sum().backward()
        x.grad = None

    return step


def diamond(torch: ModuleType, diamonds: int = 300) -> Step:
    """Paths that part and meet again, where gradients are summed."""
    x = torch.ones(8, requires_grad=True)

    def step() -> None:
        y = x
        for _ in range(diamonds):
            y = y * 0.5 + y.tanh() * 0.5
        y.sum().backward()
        x.grad = None

    return step


def double_backward(torch: ModuleType) -> Step:
    """A gradient penalty: the backward pass is recorded and differentiated."""
    w = normal(torch, 0, 16, 16).requires_grad_()
    x = normal(torch, 1, 8, 16).requires_grad_()

    def step() -> None:
        y = ((x @ w).tanh() @ w).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        (gradient**2).sum().backward()
        w.grad = x.grad = None

    return step


def saved_hooks(torch: ModuleType, operations: int = 200) -> Step:
    """Every saved tensor through a pair of pack and unpack hooks."""
    x = torch.ones(4, requires_grad=True)

    def same(value: Any) -> Any:
        return value

    def step() -> None:
        y = x
        with torch.autograd.graph.saved_tensors_hooks(same, same):
            for _ in range(operations):
                y = y.tanh()
        y.sum().backward()
        x.grad = None

    return step


def normal(torch: ModuleType, seed: int, *shape: int) -> Any:
    """A float32 tensor with the same values on both libraries, not by way of their random numbers."""
    return torch.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


ROWS: tuple[Row, ...] = (
    Row("chain of 1000 ops, forward", lambda torch: chain(torch, backward=False)),
    Row("chain of 1000 ops, forward + backward", chain, aim=0.7),
    Row("chain of 1000 ops, a hook on each", lambda torch: chain(torch, hook=True), aim=0.6),
    Row("diamonds, 900 ops", diamond, aim=0.8),
    Row("double backward", double_backward, aim=1.0),
    Row("saved-tensor hooks on 200 ops", saved_hooks),
)


def nodes(torch: ModuleType, size: int) -> Callable[[], Step]:
    """For the growth of the backward pass: makes a graph of `size` nodes and returns the step that runs it backward."""
    x = torch.ones(4, requires_grad=True)

    def make() -> Step:
        y = x
        for _ in range(size):
            y = y * 1.0001
        seed = torch.ones(4)
        return lambda: y.backward(seed)

    return make


def long_chain(torch: ModuleType) -> None:
    """For peak memory: a graph of many small nodes."""
    chain(torch, operations=100_000)()


def wide_activations(torch: ModuleType) -> None:
    """For peak memory: few nodes that save 4 MB each."""
    y = x = torch.ones(1_000_000, requires_grad=True)
    for _ in range(32):
        y = y.tanh()
    y.sum().backward()
    x.grad = None


MEMORY: dict[str, Callable[[ModuleType], None]] = {
    "import": lambda torch: None,
    "chain of 100,000 ops": long_chain,
    "32 saved tensors of 4 MB": wide_activations,
}
