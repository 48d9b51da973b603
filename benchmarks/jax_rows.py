"""The rows of `make bench-compile` and of the GPU, written by hand for JAX as its users write them.

Parameters are a dictionary, weights are kept as (in, out), pictures as NHWC, gradients come from `jax.grad`, the step is
one `jax.jit` whose old state is donated. Nothing is tuned to a backend: this is the program that undertow's compiled
step is held against. Names, shapes, batches and optimizers are those of `benchmarks.rows` and `benchmarks.gpu_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Tree = Any
Step = Callable[[], jax.Array]
Loss = Callable[[Tree], jax.Array]


def trained(loss_of: Loss, parameters: Tree, update: Callable[..., Tree]) -> Step:
    """A step of no arguments around a pure one; it returns the loss, and waits for nothing."""

    @partial(jax.jit, donate_argnums=0)
    def pure(state: Tree) -> tuple[Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(state["parameters"])
        return update(state, gradients), loss

    state = {"parameters": parameters}
    if update is not sgd:
        zeros = partial(jax.tree.map, jnp.zeros_like)
        state |= {"mean": zeros(parameters), "square": zeros(parameters), "count": jnp.zeros(())}

    def step() -> jax.Array:
        nonlocal state
        state, loss = pure(state)
        return loss

    return step


def sgd(state: Tree, gradients: Tree, rate: float = 0.01) -> Tree:
    return {"parameters": jax.tree.map(lambda p, g: p - rate * g, state["parameters"], gradients)}


def adam(state: Tree, gradients: Tree, rate: float = 1e-3, decay: float = 0.0) -> Tree:
    """Adam, or AdamW where `decay` is given."""
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradients)
    mean_scale, square_scale = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)

    def moved(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        return p * (1 - rate * decay) - rate * (m * mean_scale) / (jnp.sqrt(s * square_scale) + 1e-8)

    parameters = jax.tree.map(moved, state["parameters"], mean, square)
    return {"parameters": parameters, "mean": mean, "square": square, "count": count}


def clipped_adam(state: Tree, gradients: Tree) -> Tree:
    return adam(state, jax.tree.map(lambda g: jnp.clip(g, -0.1, 0.1), gradients))


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1).mean()


def mlp(sizes: tuple[int, ...], batch: int, update: Callable[..., Tree] = sgd) -> Step:
    x, target = normal(0, batch, sizes[0]), classes(1, sizes[-1], batch)

    def loss(parameters: Tree) -> jax.Array:
        hidden = x
        for layer in parameters[:-1]:
            hidden = jax.nn.relu(linear(layer, hidden))
        return cross_entropy(linear(parameters[-1], hidden), target)

    return trained(loss, [dense(wide, narrow) for wide, narrow in pairwise(sizes)], update)


def hooked_mlp() -> Step:
    """The same model without hooks, which JAX has not; a hook that multiplies by one is the multiplication it is."""
    x = normal(0, 16, 32)
    parameters = [dense(32, 32) for _ in range(8)]

    @jax.jit
    def pure(parameters: Tree) -> tuple[Tree, jax.Array]:
        def loss(parameters: Tree) -> jax.Array:
            hidden = x
            for layer in parameters:
                hidden = jax.nn.relu(linear(layer, hidden))
            return (hidden**2).mean()

        value, gradients = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda g: g * 1.0, gradients), value

    def step() -> jax.Array:
        return pure(parameters)[1]

    return step


def cnn() -> Step:
    x, target = normal(0, 64, 32, 32, 3), classes(1, 10, 64)

    def block(layer: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
        x = jax.lax.conv_general_dilated(x, layer["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = x + layer["bias"]
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        x = (x - mean) * jax.lax.rsqrt(variance + 1e-5) * layer["scale"] + layer["shift"]
        x = jax.nn.relu(x)
        running = {"mean": layer["mean"] * 0.9 + 0.1 * mean, "variance": layer["variance"] * 0.9 + 0.1 * variance}
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), running

    def convolution(wide: int, narrow: int) -> Tree:
        kernel = normal(2, 3, 3, wide, narrow) / np.sqrt(9 * wide)
        zero, one = partial(jnp.zeros, narrow), partial(jnp.ones, narrow)
        return {"weight": kernel, "bias": zero(), "scale": one(), "shift": zero(), "mean": zero(), "variance": one()}

    def loss(parameters: Tree) -> tuple[jax.Array, list[Tree]]:
        hidden, statistics = x, []
        for layer in parameters["layers"]:
            hidden, running = block(layer, hidden)
            statistics.append(running)
        return cross_entropy(linear(parameters["head"], hidden.reshape(64, -1)), target), statistics

    @partial(jax.jit, donate_argnums=0)
    def pure(parameters: Tree) -> tuple[Tree, jax.Array]:
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
        layers = [layer | running for layer, running in zip(parameters["layers"], statistics, strict=True)]
        return parameters | {"layers": layers}, value

    parameters = {"layers": [convolution(3, 16), convolution(16, 32)], "head": dense(2048, 10)}

    def step() -> jax.Array:
        nonlocal parameters
        parameters, value = pure(parameters)
        return value

    return step


def lstm() -> Step:
    x, target = normal(0, 16, 40, 32), classes(1, 4, 16)

    def loss(parameters: Tree) -> jax.Array:
        def cell(carry: tuple[jax.Array, jax.Array], now: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            hidden, memory = carry
            gates = linear(parameters["input"], now) + linear(parameters["hidden"], hidden)
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(memory), memory), None

        zero = jnp.zeros((16, 64))
        (hidden, _), _ = jax.lax.scan(cell, (zero, zero), x.transpose(1, 0, 2))
        return cross_entropy(linear(parameters["head"], hidden), target)

    return trained(loss, {"input": dense(32, 256), "hidden": dense(64, 256), "head": dense(64, 4)}, adam)


def gpt(
    layers: int = 4, width: int = 128, heads: int = 4, context: int = 128, words: int = 512, tied: bool = False,
    compute: Any = jnp.float32, attention: str | None = None,
) -> Step:  # fmt: skip
    """`compute`: the type of activations, where parameters are float32. `attention`: which kernel, if not JAX's choice."""
    tokens, targets = classes(0, words, 8, context), classes(1, words, 8, context)

    def norm(layer: Tree, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
        return ((wide - mean) * jax.lax.rsqrt(variance + 1e-5) * layer["weight"] + layer["bias"]).astype(compute)

    def block(layer: Tree, x: jax.Array) -> jax.Array:
        parts = jnp.split(linear(layer["qkv"], norm(layer["norm1"], x)), 3, axis=-1)
        q, k, v = (part.reshape(8, context, heads, width // heads) for part in parts)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=attention)
        x = x + linear(layer["projection"], y.reshape(8, context, width))
        return x + linear(layer["down"], jax.nn.gelu(linear(layer["up"], norm(layer["norm2"], x)), approximate=True))

    def loss(parameters: Tree) -> jax.Array:
        parameters = jax.tree.map(lambda p: p.astype(compute), parameters)
        x = parameters["words"][tokens] + parameters["places"]
        for layer in parameters["blocks"]:
            x = block(layer, x)
        head = parameters["words"].T if tied else parameters["head"]
        return cross_entropy((norm(parameters["norm"], x) @ head).astype(jnp.float32), targets)

    def scale() -> Tree:
        return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}

    def new_block() -> Tree:
        wide = {"qkv": dense(width, 3 * width), "up": dense(width, 4 * width), "down": dense(4 * width, width)}
        return wide | {"projection": dense(width, width), "norm1": scale(), "norm2": scale()}

    parameters = {
        "words": normal(2, words, width) * 0.02,
        "places": normal(3, context, width),
        "blocks": [new_block() for _ in range(layers)],
        "norm": scale(),
    } | ({} if tied else {"head": dense(width, words)["weight"]})  # fmt: skip
    return trained(loss, parameters, partial(adam, rate=3e-4, decay=0.01))


def linear(layer: Tree, x: jax.Array) -> jax.Array:
    return x @ layer["weight"] + layer["bias"]


def dense(wide: int, narrow: int) -> Tree:
    return {"weight": normal(4, wide, narrow) / np.sqrt(wide), "bias": jnp.zeros(narrow)}


def classes(seed: int, count: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.RandomState(seed).randint(0, count, shape))


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.RandomState(seed).randn(*shape), jnp.float32)


ROWS: dict[str, Callable[[], Step]] = {
    "8-layer MLP with 64 hooks": hooked_mlp,
    "MLP 16-32-4": lambda: mlp((16, 32, 4), 8),
    "MLP 784-128-10": lambda: mlp((784, 128, 10), 32),
    "MLP 784-512-512-10, Adam": lambda: mlp((784, 512, 512, 10), 128, adam),
    "MLP 1024-2048-2048-1024": lambda: mlp((1024, 2048, 2048, 1024), 256),
    "small CNN": cnn,
    "LSTM": lstm,
    "small GPT, AdamW": gpt,
    # On a GPU: benchmarks/gpu_rows.py
    "MLP 784-512-512-10, Adam, 6 clipping hooks": lambda: mlp((784, 512, 512, 10), 128, clipped_adam),
    "GPT-2 124M, bfloat16, AdamW": lambda: gpt(12, 768, 12, 1024, 50304, True, jnp.bfloat16, "cudnn"),
}
