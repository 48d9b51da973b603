"""The draws of PyTorch's kernels on a GPU, as functions of the generator's state, in flat arrays.

Each takes `state` (see philox.py) and the distribution's numbers, which may be arrays, and by keyword what a program is
compiled for: the number of elements, the dtype and the GPU.

16-bit floats are drawn in float32 and rounded; float64 draws take two words each. Numbers are in (0, 1] where PyTorch
works with uniforms, unlike on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from undertow._src.arrays.device.launch import Gpu
from undertow._src.arrays.jax import philox, ptx
from undertow._src.arrays.jax.philox import Value

Dtype = np.dtype[Any]

_PI_LOW = 1.2246467991473532e-16  # pi minus its float64
_WORTH_KEEPING = 2**16  # elements from which a mask is computed once and kept, instead of again at each use


def _is_wide(dtype: Dtype) -> bool:
    return dtype == np.float64


def lanes_for(dtype: Dtype) -> int:
    """Return how many numbers of a dtype one call of Philox gives."""
    return 2 if _is_wide(dtype) else 4


def _uniform(state: Value, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw from (0, 1], in the dtype that the kernel for `dtype` computes in."""
    block = philox.spread(state, n, lanes_for(dtype), gpu)
    return philox.uniform64(block) if _is_wide(dtype) else philox.uniform32(philox.word(block))


def uniform(state: Value, width: Value, low: Value, high: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw from [low, high). `width` is in the dtype of computation, `low` and `high` in that of the result."""
    values = ptx.fma(_uniform(state, n, dtype, gpu), width, jnp.asarray(low).astype(width.dtype))
    return _below(values, low, high, dtype)


def unit_uniform(state: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw from [0, 1)."""
    return _below(_uniform(state, n, dtype, gpu), np.zeros((), dtype), np.ones((), dtype), dtype)


def _below(values: Value, low: Value, high: Value, dtype: Dtype) -> Value:
    """Round values to a dtype; what rounds to `high` becomes `low`."""
    if dtype.itemsize == 2:  # XLA may leave out a conversion to 16 bits and back, but not this
        limits = ml_dtypes.finfo(dtype)
        values = jax.lax.reduce_precision(values, limits.nexp, limits.nmant)
    return jnp.where(values == jnp.asarray(high).astype(values.dtype), low, values.astype(dtype))


def _standard_normal(state: Value, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    block = philox.spread(state, n, lanes_for(dtype), gpu)
    a, b, c, d = block.words
    if not _is_wide(dtype):
        former = block.lane < 2
        log = jnp.log(philox.uniform32(jnp.where(former, a, c)))
        return ptx.box_muller(log, jnp.where(former, b, d), (block.lane % 2).astype(jnp.uint32))
    radius = jnp.sqrt(-2.0 * jnp.log(philox.significand(a, b) * 2.0**-53 + 2.0**-54))
    half_turns = philox.significand(c, d) * 2.0**-52 + 2.0**-53
    return radius * _sine_of_half_turns(half_turns + 0.5 * (block.lane == 1))


def _sine_of_half_turns(x: Value) -> Value:
    """Return sin(pi * x) for x in [0, 2.5): the nearest multiple of 1/2 is taken off before rounding can matter."""
    quarter = jnp.round(2 * x)
    rest = x - quarter / 2
    angle = ptx.fma(rest, np.float64(math.pi), rest * _PI_LOW)
    odd, negative = quarter % 2 == 1, quarter % 4 >= 2
    value = jnp.where(odd, jnp.cos(angle), jnp.sin(angle))
    return jnp.where(negative, -value, value)


def paired(parts: Value) -> Value:
    """Return complex numbers whose real and imaginary parts take turns."""
    return jax.lax.complex(parts[::2], parts[1::2])


def standard_normal(state: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    return _standard_normal(state, n, dtype, gpu).astype(dtype)


def normal(state: Value, mean: Value, std: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    return ptx.fma(_standard_normal(state, n, dtype, gpu), std, mean).astype(dtype)


def log_normal(state: Value, mean: Value, std: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    values = ptx.fma(_standard_normal(state, n, dtype, gpu), std, mean)
    return (jnp.exp(values) if _is_wide(dtype) else ptx.exp(values)).astype(dtype)


def _log(values: Value) -> Value:
    return jnp.log(values) if values.dtype == jnp.float64 else ptx.log(values)


def exponential(state: Value, scale: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw from an exponential distribution; `scale` is -1 / rate. No draw is 0."""
    values = _uniform(state, n, dtype, gpu)
    least = np.finfo(values.dtype).eps / 2
    return (scale * jnp.where(values >= 1 - least, -least, _log(values))).astype(dtype)


def cauchy(state: Value, median: Value, sigma: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    values = _uniform(state, n, dtype, gpu)
    eps = np.finfo(values.dtype).eps
    angles = values.dtype.type(math.pi) * (jnp.clip(values, eps, 1 - eps) - values.dtype.type(0.5))
    return ptx.fma(jnp.tan(angles) if _is_wide(dtype) else ptx.tan(angles), sigma, median).astype(dtype)


def geometric(state: Value, p: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    values = _uniform(state, n, dtype, gpu)
    trials = jnp.ceil(ptx.divide(_log(values), _log(1 - jnp.full((1,), p, values.dtype))))
    return trials.astype(jnp.int64).astype(dtype) if dtype.kind in "iub" else trials.astype(dtype)


def bernoulli(state: Value, p: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    return (_uniform(state, n, dtype, gpu) < p).astype(dtype)


def bernoulli_each(state: Value, probabilities: Value, *, dtype: Dtype) -> Value:
    """Draw for each of a flat array of probabilities; a thread takes four neighbours, and there are enough threads."""
    element = philox.numbered(probabilities.shape[0])
    words = philox.philox(state[0], state[1] >> 2, element // 4)
    drawn = philox.uniform32(philox.word(philox.Block(words, element % 4)))
    wide = probabilities.dtype if probabilities.dtype == jnp.float64 else jnp.float32
    return (drawn.astype(wide) <= probabilities.astype(wide)).astype(dtype)


def dropout_mask(state: Value, kept: Value, *, n: int, width: int, gpu: Gpu) -> Value:
    """Draw which elements dropout keeps, with probability `kept`; threads take vectors of `width` elements."""
    if width < philox.WORDS:
        block = (
            philox.spread(state, n, philox.WORDS, gpu)
            if width == 1
            else philox.vectors(state, philox.numbered(n), n, width, gpu)
        )
        return _is_kept(philox.word(block), kept)
    # Neighbours share a call of Philox: one integer has the bytes of all four, so that XLA makes the call once.
    words = philox.vectors(state, philox.numbered(n // philox.WORDS) * philox.WORDS, n, width, gpu).words
    quads = sum([_is_kept(bits, kept).astype(jnp.uint32) << 8 * lane for lane, bits in enumerate(words)])
    if n >= _WORTH_KEEPING:
        quads = jax.lax.optimization_barrier(quads)
    return jax.lax.bitcast_convert_type(quads, jnp.uint8).reshape(n).astype(bool)


def _is_kept(bits: Value, kept: Value) -> Value:
    return philox.uniform32(bits).astype(kept.dtype) < kept


def integers(state: Value, start: Value, *, count: int, n: int, wide: bool, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw from `count` integers, the first of which is `start` modulo 2**64."""
    block = philox.spread(state, n, 2 if wide else 4, gpu)
    if wide:
        values = philox.long_word(block)
        values = values if count == 2**64 else values % np.uint64(count)
    else:
        values = (philox.word(block) % np.uint32(count)).astype(jnp.uint64)
    return (values + start).astype(jnp.int64).astype(dtype)


def slopes(state: Value, values: Value, lower: Value, width: Value, *, gpu: Gpu) -> Value:
    """Draw the factors of `rrelu` for a flat array: 1 above zero."""
    drawn = _uniform(state, values.shape[0], values.dtype, gpu)
    slope = ptx.fma(drawn.astype(jnp.float64), width, lower).astype(values.dtype)
    return jnp.where(values <= 0, slope, jnp.ones((), values.dtype))


# --- choices


def multinomial(state: Value, weights: Value, *, samples: int) -> Value:
    """Draw positions in rows of weights with replacement: a thread per sample, which searches the running sum."""
    rows, columns = weights.shape
    threads = -(-samples // 128) * 128
    row, sample = jnp.arange(rows, dtype=jnp.uint64)[:, None], jnp.arange(samples, dtype=jnp.uint64)
    at_once = min(rows, 65535)
    words = philox.philox(state[0], (state[1] >> 2) + row // at_once, row % at_once * threads + sample)
    drawn = philox.uniform32(words[0]).astype(weights.dtype)
    wide = _computed_in(np.dtype(weights.dtype))
    shares = (weights / weights.sum(axis=1, keepdims=True, dtype=wide)).astype(weights.dtype)
    running = jnp.cumsum(shares, axis=1, dtype=wide).astype(weights.dtype)
    found = jax.vmap(jnp.searchsorted)(running, drawn)
    last = columns - 1 - jnp.argmax(shares[:, ::-1] > 0, axis=1, keepdims=True)
    return jnp.minimum(found, last).astype(jnp.int64)


def race(state: Value, weights: Value, *, samples: int, gpu: Gpu) -> Value:
    """Draw positions in rows of weights without replacement: the largest quotients of weights and exponentials."""
    n, dtype = weights.size, np.dtype(weights.dtype)
    racers = exponential(state, np.asarray(-1.0, _computed_in(dtype)), n=n, dtype=dtype, gpu=gpu)
    wide = _computed_in(dtype)
    speeds = ptx.divide(weights.reshape(-1).astype(wide), racers.astype(wide)).astype(dtype).reshape(weights.shape)
    if samples == 1:
        return jnp.argmax(speeds, axis=1, keepdims=True).astype(jnp.int64)
    return jax.lax.top_k(speeds, samples)[1].astype(jnp.int64)


def _computed_in(dtype: Dtype) -> Any:
    return np.float64 if _is_wide(dtype) else np.float32


def key_bits(n: int) -> int:
    """Return how many bits of its keys PyTorch sorts a permutation by: nine times in ten, no two are equal."""
    return min(64, math.ceil(math.log2(n - (6 * n * n + 1) / (math.log(0.9) * 12))))


def permutation(state: Value, state_after_keys: Value, *, n: int, dtype: Dtype, gpu: Gpu) -> Value:
    """Draw a permutation: sort random keys, and shuffle what has equal keys by further draws."""
    bits = key_bits(n)
    size = 32 if bits <= 32 else 64
    start = np.uint64(2**64 - 2 ** (size - 1))
    keys = integers(state, start, count=2**size - 1, n=n, wide=True, dtype=np.dtype(f"int{size}"), gpu=gpu)
    if bits < size:
        keys = keys & ((1 << bits) - 1)
    order = jnp.argsort(keys, stable=True)
    return _equals_shuffled(state_after_keys, keys[order], order).astype(dtype)


def _equals_shuffled(state: Value, keys: Value, order: Value) -> Value:
    """Shuffle the runs of equal keys. The thread of a run's first element swaps each with an earlier one, from the end."""
    n = keys.shape[0]
    place = jnp.arange(n)
    follows = jnp.concatenate([jnp.zeros(1, bool), keys[1:] == keys[:-1]])
    first = jax.lax.cummax(jnp.where(follows, 0, place))
    length = jnp.zeros(n, place.dtype).at[first].add(1)  # of the run that begins here

    def swap(turn_and_order: tuple[Value, Value]) -> tuple[Value, Value]:
        turn, order = turn_and_order
        last = length - 1 - turn  # counted from the run's first element
        words = philox.philox(state[0], (state[1] >> 2) + turn // 4, place)
        bits = philox.word(philox.Block(words, turn % 4))
        chosen = (bits % jnp.maximum(last + 1, 1).astype(jnp.uint32)).astype(place.dtype)
        here, there = jnp.where(last > 0, place + last, n), jnp.where(last > 0, place + chosen, n)
        a, b = order.at[here].get(mode="clip"), order.at[there].get(mode="clip")
        return turn + 1, order.at[here].set(b, mode="drop").at[there].set(a, mode="drop")

    longest = length.max()
    return jax.lax.while_loop(lambda state: state[0] < longest - 1, swap, (jnp.zeros((), place.dtype), order))[1]
