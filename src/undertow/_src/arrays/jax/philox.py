"""The random bits of PyTorch's kernels on a GPU, from Philox4x32-10: a counter-based generator, so one formula per element.

PyTorch launches blocks of 256 threads, as many as the GPU can have resident at once and no more than there are elements.
A thread has the seed as its key, its own number as the upper half of the counter, and the generator's offset as the lower
half. Each pass over the threads yields four words of 32 bits, which go to elements that are a whole grid apart: element
`(pass * lanes + lane) * threads + thread`. A value of 64 bits takes two words, so that a pass has two lanes. How far the
offset moves depends on the number of elements alone.

All functions take the generator's state as an array of two 64-bit words, the seed and the offset.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.launch import WORDS, Gpu, threads_for

Value = Any  # a JAX array

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(seed: Value, low: Value, high: Value | int) -> tuple[Value, Value, Value, Value]:
    """Return four words for a counter of 128 bits, given in two halves, of which the upper is below 2**32."""
    key = [jnp.asarray(seed).astype(jnp.uint32), jnp.asarray(seed >> 32).astype(jnp.uint32)]
    low = low.astype(jnp.uint64)
    a, b = low.astype(jnp.uint32), (low >> 32).astype(jnp.uint32)
    c = jnp.asarray(high).astype(jnp.uint32)
    d = jnp.zeros_like(c)
    for _ in range(10):
        left, right = a.astype(jnp.uint64) * _MULTIPLIERS[0], c.astype(jnp.uint64) * _MULTIPLIERS[1]
        a, b, c, d = (
            (right >> 32).astype(jnp.uint32) ^ b ^ key[0],
            right.astype(jnp.uint32),
            (left >> 32).astype(jnp.uint32) ^ d ^ key[1],
            left.astype(jnp.uint32),
        )
        key = [part + jnp.uint32(step) for part, step in zip(key, _WEYL)]
    return a, b, c, d


class Block(NamedTuple):
    """For each element, the four words of its thread in its pass, and which lane is the element's."""

    words: tuple[Value, Value, Value, Value]
    lane: Value


def numbered(n: int) -> Value:
    """Return the numbers of `n` elements."""
    return jnp.arange(n, dtype=jnp.uint32 if n < 2**32 else jnp.uint64)


def spread(state: Value, n: int, lanes: int, gpu: Gpu) -> Block:
    """Return the words of `n` elements, where neighbouring elements belong to neighbouring threads."""
    threads = threads_for(n, gpu)
    element = numbered(n)
    passed, rest = element // (threads * lanes), element % (threads * lanes)
    return Block(philox(state[0], (state[1] >> 2) + passed, rest % threads), rest // threads)


def vectors(state: Value, elements: Value, n: int, width: int, gpu: Gpu) -> Block:
    """Return the words of `elements`, of `n` in all, where each thread takes vectors of `width` neighbours, as in dropout.

    Vectors of 8 take the words of two calls, vectors of 2 the first two words of one.
    """
    threads = threads_for(n, gpu)
    vector, lane = elements // width, elements % width
    calls = vector // threads * max(1, width // WORDS) + lane // WORDS
    return Block(philox(state[0], (state[1] >> 2) + calls, vector % threads), lane % WORDS)


def word(block: Block) -> Value:
    """Return the word of each element."""
    a, b, c, d = block.words
    lane = block.lane
    return jnp.where(lane < 2, jnp.where(lane == 0, a, b), jnp.where(lane == 2, c, d))


def long_word(block: Block) -> Value:
    """Return the word of 64 bits of each element, of a block of two lanes."""
    a, b, c, d = [part.astype(jnp.uint64) for part in block.words]
    return jnp.where(block.lane == 0, a << 32 | b, c << 32 | d)


def uniform32(bits: Value) -> Value:
    """Return words as float32 numbers in (0, 1]."""
    return bits.astype(jnp.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def significand(high: Value, low: Value) -> Value:
    """Return the 53 random bits in two words, as an integer in a float64."""
    return (high.astype(jnp.uint64) ^ low.astype(jnp.uint64) << 21).astype(jnp.float64)


def uniform64(block: Block) -> Value:
    """Return the words of a block of two lanes as float64 numbers in (0, 1]."""
    a, b, c, d = block.words
    first = block.lane == 0
    return significand(jnp.where(first, a, c), jnp.where(first, b, d)) * 2.0**-53 + 2.0**-54
