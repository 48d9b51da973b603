"""`Stream`: the draws of PyTorch's CPU generator, as flat NumPy arrays."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.random import rejection
from undertow._src.random.box_muller import BLOCK, standard_normals
from undertow._src.random.memory_order import in_memory_order
from undertow._src.random.mersenne_twister import Engine
from undertow._src.random.numerics import (
    Array,
    affine,
    cast,
    exact_exp,
    exact_log1p,
    exact_sin_cos,
    fma64,
    through_c_library,
)
from undertow._src.random.ranges import check_permutation, check_uniform, integer_range

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

_LARGE_PERMUTATION = (2**32 - 1) // 20
_SELU_ALPHA = 1.7580993408473766


class Stream(Engine):
    """The stream of a CPU generator. Every method draws, and advances the state, exactly as PyTorch's does.

    Draws return flat arrays of `n` values in the order in which PyTorch fills memory; shapes are left to the caller. A
    draw of no values does not advance the state.
    """

    # Uniform and normal ----------------------------------------------------------------------------------------------

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Draw `uniform_(low, high)`. 16-bit floats round float32 draws, and a draw rounded up to `high` becomes `low`."""
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            return self.uniform(2 * n, low, high, real_part(dtype)).view(dtype)
        if low != 0.0 or high != 1.0:
            check_uniform(low, high, dtype)
        if dtype == np.float64:
            values, width = self.uniform53(n), high - low
        else:
            values, width = self.uniform24(n), float(np.float32(high) - np.float32(low))
        if low == 0.0 and high == 1.0 and dtype.itemsize > 2:
            return values
        values = cast(affine(values, width, low), dtype)
        bounds = cast(np.array([low, high]), dtype)
        values[values == bounds[1]] = bounds[0]
        return values

    def normal(
        self, n: int, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = np.float32, contiguous: bool = True
    ) -> Array:
        """Draw `normal_(mean, std)`: sixteen or more values of a contiguous tensor in blocks, anything else in pairs.

        A complex draw is one of twice as many parts, each with `std / sqrt(2)`.
        """
        dtype = np.dtype(dtype)
        require(std >= 0.0, f"normal expects std >= 0.0, but found std {std:g}")
        if dtype.kind == "c":
            return self.normal(2 * n, mean, std / math.sqrt(2.0), real_part(dtype), contiguous).view(dtype)
        if n < BLOCK or not contiguous:
            return cast(affine(self._normals_in_pairs(n), std, mean), dtype)
        uniform = self.uniform53 if dtype == np.float64 else self.uniform24
        whole = n - n % BLOCK
        with self.lock:
            if dtype.itemsize > 2:
                uniforms = uniform(n)[:whole]  # the rest of the tail is drawn too, then overwritten
            else:
                uniforms = uniform(whole)
            if whole == n:
                values = standard_normals(uniforms)
            else:
                # The last sixteen values are a block of their own, drawn last, which overlaps the one before.
                blocks = standard_normals(np.concatenate([uniforms, uniform(BLOCK)]))
                values = np.concatenate([blocks[: n - BLOCK], blocks[whole:]])
        return cast(affine(values, std, mean), dtype)

    def normal_each(self, mean: ArrayLike, std: ArrayLike, dtype: DTypeLike) -> Array:
        """Draw `torch.normal` with an array for the mean, the deviation or both, in the shape they broadcast to."""
        dtype = np.dtype(dtype)
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
        if isinstance(std, (int, float)):
            values = self.normal(math.prod(shape), 0.0, std, dtype).reshape(shape)
        else:
            std = np.asarray(std)
            require(np.all(std >= 0), "normal expects all elements of std >= 0.0")
            values = self.normal(math.prod(shape), dtype=dtype).reshape(shape)
            values = cast(_wide(values) * _wide(std), dtype)
        mean = cast(np.array(mean), dtype) if isinstance(mean, (int, float)) else np.asarray(mean)
        return cast(_wide(values) + _wide(mean), dtype)

    def _normals_in_pairs(self, n: int) -> Array:
        """Draw doubles by Box-Muller, two at a time; the second of a pair is kept in the state for the next call."""
        with self.lock:
            waiting = [] if self.next_double_normal is None or n == 0 else [self.next_double_normal]
            pairs = (n - len(waiting) + 1) // 2
            values = np.empty(len(waiting) + 2 * pairs)
            values[: len(waiting)] = waiting
            if pairs:
                uniforms = self.uniform53(2 * pairs)
                radius = np.sqrt(-2.0 * exact_log1p(-uniforms[1::2]))
                sine, cosine = exact_sin_cos(2.0 * math.pi * uniforms[::2])
                values[len(waiting) :: 2] = radius * cosine
                values[len(waiting) + 1 :: 2] = radius * sine
            if n:
                self.next_double_normal = float(values[n]) if len(values) > n else None
        return values[:n]

    def log_normal(self, n: int, mean: float = 1.0, std: float = 2.0, dtype: DTypeLike = np.float32) -> Array:
        """Draw `log_normal_(mean, std)`: the exponential of normals drawn in pairs."""
        dtype = np.dtype(dtype)
        require(std > 0.0, f"log_normal_ expects std > 0.0, but found std={std:g}")
        values = affine(self._normals_in_pairs(n), std, mean)
        with np.errstate(over="ignore"):
            values = exact_exp(values) if dtype == np.float64 else np.exp(values)
        return cast(values, dtype)

    # Other continuous draws --------------------------------------------------------------------------------------------

    def exponential(self, n: int, rate: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Draw `exponential_(rate)`, by inversion of a double uniform."""
        dtype = np.dtype(dtype)
        require(rate > 0.0, f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
        uniforms = np.negative(self.uniform53(n))
        logarithms = exact_log1p(uniforms) if dtype == np.float64 else np.log1p(uniforms)
        with np.errstate(over="ignore", invalid="ignore"):
            return cast(-1.0 / rate * logarithms, dtype)

    def cauchy(self, n: int, median: float = 0.0, sigma: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Draw `cauchy_(median, sigma)`, by inversion of a double uniform."""
        dtype = np.dtype(dtype)
        require(sigma > 0.0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
        angles = math.pi * (self.uniform53(n) - 0.5)
        tangents = through_c_library(math.tan, angles) if dtype == np.float64 else np.tan(angles)
        return cast(fma64(tangents, sigma, median), dtype)

    def gamma(self, shapes: ArrayLike) -> Array:
        """Draw `torch._standard_gamma(shapes)`, float32 or float64."""
        shapes = np.asarray(shapes)
        narrow = _to_single if shapes.dtype == np.float32 else float
        samples = cast(self._gammas(shapes, narrow), shapes.dtype)
        tiny = np.finfo(shapes.dtype).tiny
        return np.where(samples > tiny, samples, tiny).astype(shapes.dtype)

    def _gammas(self, shapes: Array, narrow: rejection.Narrow) -> Array:
        with self.one_by_one() as uniform:

            def normal() -> float:
                waiting, self.next_double_normal = self.next_double_normal, None
                if waiting is not None:
                    return waiting
                angle = 2.0 * math.pi * uniform()
                radius = math.sqrt(-2.0 * math.log1p(-uniform()))
                self.next_double_normal = radius * math.sin(angle)
                return radius * math.cos(angle)

            samples = [rejection.gamma(shape, narrow, uniform, normal) for shape in shapes.ravel().tolist()]
        return np.array(samples).reshape(shapes.shape)

    def dirichlet(self, concentrations: ArrayLike) -> Array:
        """Draw `torch._sample_dirichlet(concentrations)` over the last axis; Beta is a Dirichlet over two numbers."""
        concentrations = np.asarray(concentrations)
        gammas = self._gammas(concentrations.astype(np.float64), float)
        with np.errstate(invalid="ignore"):
            shares = cast(gammas / gammas.sum(axis=-1, keepdims=True), concentrations.dtype)
        limits = np.finfo(concentrations.dtype)
        return np.clip(shares, limits.tiny, limits.dtype.type(1) - limits.epsneg)

    # Integers and choices ------------------------------------------------------------------------------------------------

    def integers(self, n: int, low: int | None = None, high: int | None = None, dtype: DTypeLike = np.int64) -> Array:
        """Draw `random_(low, high)`, or `randint`. `high` defaults to the dtype's largest number; without both, low is 0.

        Each value takes one output, two where the range has 2**28 values or more. Bounds that a floating dtype cannot
        tell apart move inwards, with PyTorch's warning beyond the integers it holds exactly.
        """
        dtype = np.dtype(dtype)
        count, start, wide = integer_range(n, low, high, dtype)
        if not n:
            return np.empty(0, dtype)
        if wide:
            values = self.random64(n)
            if count < 2**64:
                values = _remainder(values, np.uint64(count))
        else:
            values = _remainder(self.random32(n).astype(np.uint32), np.uint32(count)).astype(np.uint64)
        if start:
            values += np.uint64(start % 2**64)
        return cast(values.view(np.int64), dtype)

    def permutation(self, n: int, dtype: DTypeLike = np.int64) -> Array:
        """Draw `randperm(n)` by n - 1 swaps from the front, one output each; a different method from 2**32 / 20 on."""
        dtype = np.dtype(dtype)
        check_permutation(n, dtype)
        if n >= _LARGE_PERMUTATION:
            return self._large_permutation(n, dtype)
        draws = self.random32(max(n - 1, 0)).view(np.int64)
        targets = draws % np.arange(n, 1, -1) + np.arange(len(draws)) if n > 1 else draws
        order = list(range(n))
        for place, target in enumerate(targets.tolist()):
            order[place], order[target] = order[target], order[place]
        return cast(np.array(order, np.int64), dtype)

    def _large_permutation(self, n: int, dtype: np.dtype[Any]) -> Array:
        """Build a permutation inside out: each number swaps places with a random earlier one. Two outputs per number."""
        np.empty(n, np.int64)  # reports the request if the memory is too small for it
        order = array("q", bytes(8 * n))
        batch = 2**20
        for start in range(0, n, batch):
            size = min(batch, n - start)
            places = self.random64(size) % np.arange(start + 1, start + size + 1, dtype=np.uint64)
            for number, place in enumerate(places.tolist(), start):
                order[number] = order[place]
                order[place] = number
        return cast(np.frombuffer(order, np.int64), dtype)

    def geometric(self, n: int, p: float, dtype: DTypeLike = np.float32) -> Array:
        """Draw `geometric_(p)`: the trials up to and including the first success."""
        dtype = np.dtype(dtype)
        require(0.0 < p < 1.0, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
        with np.errstate(divide="ignore"):
            trials = np.ceil(np.log(self.uniform53(n)) / math.log1p(-p))
        if dtype.kind in "iu":
            return trials.astype(np.int64).astype(dtype)
        return cast(trials, dtype)

    def bernoulli(self, n: int, p: float = 0.5, dtype: DTypeLike = np.bool_) -> Array:
        """Draw `bernoulli_(p)` with a number: a double uniform against `p`, whatever the tensor's dtype."""
        require(0.0 <= p <= 1.0, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return (self.uniform53(n) < p).astype(dtype)

    def bernoulli_each(self, probabilities: ArrayLike, dtype: DTypeLike | None = None) -> Array:
        """Draw `torch.bernoulli(p)` and `bernoulli_(p)` with a tensor: only float64 probabilities take double uniforms."""
        probabilities = np.asarray(probabilities)
        valid = np.all((probabilities >= 0) & (probabilities <= 1))
        require(valid, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        if probabilities.dtype == np.float64:
            drawn = self.uniform53(probabilities.size)
        else:
            drawn = self.uniform24(probabilities.size)
        hits = drawn.reshape(probabilities.shape) < probabilities.astype(drawn.dtype)
        return hits.astype(probabilities.dtype if dtype is None else dtype)

    def poisson(self, rates: ArrayLike) -> Array:
        """Draw `torch.poisson(rates)`."""
        rates = np.asarray(rates)
        require(np.all(rates >= 0), "invalid Poisson rate, expected rate to be non-negative")
        with self.one_by_one() as uniform:
            samples = [rejection.poisson(rate, uniform) for rate in rates.astype(np.float64).ravel().tolist()]
        return cast(np.array(samples).reshape(rates.shape), rates.dtype)

    def binomial(self, counts: ArrayLike, probabilities: ArrayLike) -> Array:
        """Draw `torch.binomial(counts, probabilities)`, float32 or float64, for arrays of one shape and dtype."""
        counts, probabilities = np.asarray(counts), np.asarray(probabilities)
        narrow = _to_single if counts.dtype == np.float32 else float
        with self.one_by_one() as uniform:
            samples = [
                rejection.binomial(count, probability, narrow, uniform)
                for count, probability in zip(counts.ravel().tolist(), probabilities.ravel().tolist())
            ]
        return np.array(samples, counts.dtype).reshape(counts.shape)

    def multinomial(self, weights: ArrayLike, samples: int, replacement: bool = False) -> Array:
        """Draw `torch.multinomial` over the last axis of one or more rows of weights.

        Without replacement, and for a single sample, the samples are the largest quotients of weights and exponentials.
        With replacement, a double uniform per sample is looked up in the row's cumulative sum.
        """
        weights = np.asarray(weights)
        check_multinomial(weights, samples, replacement)
        rows = weights if weights.ndim == 2 else weights[None]
        if not replacement or samples == 1:
            _check_weights(rows)
            racers = in_memory_order(self.exponential(rows.size, dtype=weights.dtype), rows)
            with np.errstate(divide="ignore", invalid="ignore"):
                speeds = rows / racers
            if samples == 1:
                chosen = np.argmax(speeds, axis=1)
            else:
                chosen = np.argsort(-speeds, axis=1, kind="stable")[:, :samples]
        else:
            running = _cumulative(rows)
            draws = self.uniform53(len(rows) * samples).reshape(-1, samples)
            chosen = np.empty(draws.shape, np.int64)
            for out, row, drawn in zip(chosen, running, draws):
                out[...] = row.searchsorted(drawn)
        return np.ascontiguousarray(chosen.reshape(*weights.shape[:-1], samples))

    # Dropout -------------------------------------------------------------------------------------------------------------

    def dropout_noise(self, n: int, p: float, dtype: DTypeLike = np.float32) -> Array:
        """Return the factor of `dropout` in training: 0, or 1 / (1 - p) with probability 1 - p.

        Feature dropout is the same with one value per sample and channel. With `p` 0 or 1, or no values, PyTorch draws
        nothing: the input is returned, or multiplied by zeros.
        """
        dtype = np.dtype(dtype)
        wide = _computed_in(dtype)
        noise = self.bernoulli(n, 1.0 - p, wide)
        noise *= wide(1.0) / wide(1.0 - p)
        return cast(noise, dtype)

    def slopes_below_zero(self, values: ArrayLike, lower: float, upper: float) -> Array:
        """Return the factor of `rrelu` in training: 1, and below zero a uniform draw from [lower, upper)."""
        values = np.asarray(values)
        slopes = np.ones(values.shape, values.dtype)
        below = values <= 0
        slopes[below] = self.uniform53(int(below.sum())) * (upper - lower) + lower
        return slopes

    def alpha_dropout_noise(self, n: int, p: float, dtype: DTypeLike = np.float32) -> tuple[Array, Array]:
        """Return the factor and the summand of `alpha_dropout` in training: the output is ``input * factor + summand``."""
        dtype = np.dtype(dtype)
        wide = _computed_in(dtype)
        kept = self.bernoulli(n, 1.0 - p, wide)
        scale = 1.0 / math.sqrt((_SELU_ALPHA * _SELU_ALPHA * p + 1.0) * (1.0 - p))
        dropped = cast((kept - wide(1.0)) * wide(_SELU_ALPHA * scale), dtype)
        summand = cast(_wide(dropped) + _wide(cast(np.array(_SELU_ALPHA * scale * p), dtype)), dtype)
        return cast(kept * wide(scale), dtype), summand


def _computed_in(dtype: np.dtype[Any]) -> type[Any]:
    """Return the dtype that arithmetic on `dtype` is done in."""
    return np.float64 if dtype == np.float64 else np.float32


def _wide(values: Array) -> Array:
    """Return the values in the dtype that arithmetic on them is done in."""
    return values.astype(np.float32) if values.dtype.itemsize == 2 else values


def real_part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real and imaginary parts."""
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def _to_single(value: float) -> float:
    return float(np.float32(value))


def _remainder(values: Array, divisor: np.unsignedinteger[Any]) -> Array:
    """Return `values % divisor` by a division, for which NumPy has vector instructions; for remainders it has none."""
    return values - values // divisor * divisor


def require(condition: bool | np.bool_, complaint: str) -> None:
    """Raise PyTorch's error unless the condition holds."""
    if not condition:
        raise RuntimeError(complaint)


def check_multinomial(weights: Any, samples: int, replacement: bool) -> None:
    """Refuse the shapes and numbers of samples that `multinomial` refuses."""
    require(weights.ndim in (1, 2), "prob_dist must be 1 or 2 dim")
    require(samples > 0, "cannot sample n_sample <= 0 samples")
    if not replacement and samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")


def _check_weights(rows: Array) -> None:
    valid = np.all(np.isfinite(rows) & (rows >= 0))
    require(valid, "probability tensor contains either `inf`, `nan` or element < 0")
    positive = np.all(rows.astype(np.float64).sum(axis=1) > 0)
    require(positive, "invalid multinomial distribution (sum of probabilities <= 0)")


def _cumulative(rows: Array) -> Array:
    """Return each row's running sum, in float32 for 16-bit floats, divided by its total."""
    require(np.all(rows >= 0), "invalid multinomial distribution (encountering probability entry < 0)")
    finite = np.all(np.isfinite(rows))
    require(finite, "invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    running = np.cumsum(rows, axis=1, dtype=_computed_in(rows.dtype))
    positive = rows.shape[1] > 0 and np.all(running[:, -1] > 0)
    require(positive, "invalid multinomial distribution (sum of probabilities <= 0)")
    running = (running / running[:, -1:]).astype(np.float64)
    running[:, -1] = 1.0
    return running
