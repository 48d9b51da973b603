"""What is timed. A row is one line of `ROWS`; a new one is a new line and, where it needs one, a new builder.

A builder gets the torch-like module and returns a step: a function of no arguments that is called over and over.
Builders only use what both libraries have, and keep nothing between steps that a step does not undo. A step that trains
returns its loss, so that a clock can wait for the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], Any]


class Row(NamedTuple):
    """A name, how to build the step, and the ratios to torch's eager mode that are aimed for (None: only reported)."""

    name: str
    build: Callable[[ModuleType], Step]
    aim: float | None = None  # undertow's eager mode
    compiled_aim: float | None = None  # undertow.compile
    by_hand: bool = False  # benchmarks/jax_rows.py has it too, and `make bench-compile` runs it


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


def mlp(torch: ModuleType, sizes: tuple[int, ...], batch: int, adam: bool = False) -> Step:
    """A perceptron learns to name classes."""
    nn = torch.nn
    layers = [layer for wide, narrow in pairwise(sizes) for layer in (nn.Linear(wide, narrow), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optim = torch.optim
    optimizer = optim.Adam(model.parameters(), lr=1e-3) if adam else optim.SGD(model.parameters(), lr=0.01)
    x, target, loss_of = normal(torch, 0, batch, sizes[0]), classes(torch, 1, sizes[-1], batch), nn.CrossEntropyLoss()

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def adam_mlp(torch: ModuleType) -> Step:
    return mlp(torch, (784, 512, 512, 10), 128, adam=True)


def wide_mlp(torch: ModuleType) -> Step:
    return mlp(torch, (1024, 2048, 2048, 1024), 256)


def hooked_mlp(torch: ModuleType) -> Step:
    """Sixteen modules with a forward and a full backward hook each, sixteen parameters with two hooks each."""
    nn = torch.nn
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.ReLU())])
    for module in model:
        module.register_forward_hook(lambda module, args, output: None)
        module.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 1.0)
        parameter.register_post_accumulate_grad_hook(lambda parameter: None)
    x = normal(torch, 0, 16, 32).requires_grad_()

    def step() -> Any:
        model.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        x.grad = None
        return loss

    return step


def cnn(torch: ModuleType) -> Step:
    """Two convolutions, normalised and pooled, on 64 small pictures."""
    nn, layers = torch.nn, []
    for wide, narrow in ((3, 16), (16, 32)):
        layers += [nn.Conv2d(wide, narrow, 3, padding=1), nn.BatchNorm2d(narrow), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = normal(torch, 0, 64, 3, 32, 32), classes(torch, 1, 10, 64)

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def lstm(torch: ModuleType) -> Step:
    """16 sequences of 40 steps, classed by the last output."""
    nn = torch.nn
    model, head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
    x, target = normal(torch, 0, 16, 40, 32), classes(torch, 1, 4, 16)

    def step() -> Any:
        optimizer.zero_grad()
        output, _ = model(x)
        loss = nn.functional.cross_entropy(head(output[:, -1]), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt(
    torch: ModuleType, layers: int = 4, width: int = 128, heads: int = 4, context: int = 128, words: int = 512
) -> Step:
    """A small GPT on 8 sequences."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (part.view(batch, time, heads, width // heads).transpose(1, 2) for part in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, time, width)
            x = x + self.projection(y)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    embeddings = nn.ModuleList([nn.Embedding(words, width), nn.Embedding(context, width)])
    blocks = nn.Sequential(*[Block() for _ in range(layers)], nn.LayerNorm(width), nn.Linear(width, words, bias=False))
    optimizer = torch.optim.AdamW([*embeddings.parameters(), *blocks.parameters()], lr=3e-4)
    tokens, targets = classes(torch, 0, words, 8, context), classes(torch, 1, words, 8, context)
    places = torch.arange(context)

    def step() -> Any:
        optimizer.zero_grad()
        logits = blocks(embeddings[0](tokens) + embeddings[1](places))
        loss = F.cross_entropy(logits.view(-1, words), targets.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def classes(torch: ModuleType, seed: int, count: int, *shape: int) -> Any:
    """Numbers of classes, the same on both libraries."""
    return torch.from_numpy(np.random.RandomState(seed).randint(0, count, shape))


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
    Row("8-layer MLP with 64 hooks", hooked_mlp, aim=0.8, by_hand=True),
    Row("MLP 16-32-4", lambda torch: mlp(torch, (16, 32, 4), 8), aim=0.8, compiled_aim=0.25, by_hand=True),
    Row("MLP 784-128-10", lambda torch: mlp(torch, (784, 128, 10), 32), compiled_aim=0.8, by_hand=True),
    Row("MLP 784-512-512-10, Adam", adam_mlp, aim=1.2, compiled_aim=0.8, by_hand=True),
    Row("MLP 1024-2048-2048-1024", wide_mlp, compiled_aim=1.0, by_hand=True),
    Row("small CNN", cnn, aim=2.0, compiled_aim=1.3, by_hand=True),
    Row("LSTM", lstm, aim=2.0, compiled_aim=1.0, by_hand=True),
    Row("small GPT, AdamW", gpt, aim=1.6, compiled_aim=1.3, by_hand=True),
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
