"""`CudaStream`: the draws of PyTorch's generator on a GPU, made there.

The state is a seed and an offset, which the host keeps: a draw moves the offset by a number that depends on its size alone.
So a draw sends the GPU these two words and no numbers, eagerly and in a compiled step.

What callers need to know about PyTorch 2.11 on an H200, found by running it: in-place draws fill a tensor in the order of
its strides; `bernoulli` with a tensor of probabilities, and dropout of a tensor with gaps between its elements, go by its
indices. Dropout is a kernel of its own; in-place and feature dropout are `bernoulli_`. `native_dropout` draws nothing with
p 1, unlike with p 0.

Uniform numbers, integers, masks and permutations agree with PyTorch bit for bit, float32 normals too; float64 normals to a
last bit or two, where PyTorch's sine has its own rounding. Multinomials with replacement depend on the order in which a
kernel adds, and may differ at the edge between two categories, often so for 16-bit weights. Gamma, Dirichlet, Poisson and
binomial numbers, and the dropout inside fused attention and cuDNN's recurrent layers, are drawn differently from PyTorch.
"""

from __future__ import annotations

import importlib
import math
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, unwrapped, values_known
from undertow._src.arrays.device.launch import Gpu, advance_of
from undertow._src.arrays.device.memory import call_jax
from undertow._src.arrays.device.placement import hosted, jax_device
from undertow._src.base import tracer
from undertow._src.base.modes import local
from undertow._src.random.cpu_stream import Stream, check_multinomial, real_part, require
from undertow._src.random.memory_order import byte_offset, in_memory_order, is_dense
from undertow._src.random.mersenne_twister import DEFAULT_SEED, checked_seed
from undertow._src.random.ranges import check_permutation, check_uniform, integer_range

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from undertow._src.types.devices import device as Device

Array = Any
STATE_BYTES = 16
_VECTOR_BYTES = 16  # the most that a thread of dropout reads at once
_FEWER_THREADS = {  # resident on a multiprocessor, by compute capability; on all others 2048
    "7.5": 1024, "8.6": 1536, "8.7": 1536, "8.9": 1536, "11.0": 1536, "12.0": 1536, "12.1": 1536,
}  # fmt: skip


@cache
def _gpu_draws() -> Any:
    return importlib.import_module("undertow._src.arrays.jax.gpu_draws")


@cache
def gpu_of(device: Device) -> Gpu:
    """Return the numbers of a GPU that PyTorch's launches depend on."""
    found = jax_device(device)
    return Gpu(found.core_count, _FEWER_THREADS.get(found.compute_capability, 2048))


@cache
def _jitted(function: Callable[..., Any], static: tuple[tuple[str, Hashable], ...]) -> Callable[..., Any]:
    import jax

    return jax.jit(partial(function, **dict(static)))


class CudaStream(Stream):
    """The stream of a GPU's generator. Draws are flat arrays on the GPU, in the order in which PyTorch fills memory."""

    next_double_normal = None

    def __init__(self, device: Device, seed: int = DEFAULT_SEED) -> None:
        self.device = device  # with its index
        super().__init__(seed)

    # The state -----------------------------------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> int:
        """Restart from a seed, or from one of the system's entropy; return it."""
        with self.lock:
            self._initial_seed, self._offset = checked_seed(seed), 0
        return self._initial_seed

    @property
    def offset(self) -> int:
        """How far draws have advanced."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        require(offset % 4 == 0, f"offset must be a multiple of 4, got {offset}: a thread draws four words at once")
        with self.lock:
            self._offset = offset

    def get_state(self) -> Array:
        """Return the bytes that `torch.cuda.get_rng_state()` would return: the seed, then the offset."""
        with self.lock:
            return np.array([self._initial_seed, self._offset], np.uint64).view(np.uint8)

    def set_state(self, state: Array) -> None:
        """Continue from the bytes of a state; those of a seed alone have the offset 0."""
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        require(state.size in (8, STATE_BYTES), f"RNG state is wrong size: {state.size} bytes, {STATE_BYTES} expected")
        seed, *offset = np.frombuffer(np.ascontiguousarray(state).tobytes(), np.uint64).tolist()
        with self.lock:
            self.set_offset(offset[0] if offset else 0)
            self._initial_seed = seed

    def __setstate__(self, state: Any) -> None:
        raise TypeError("a stream of a GPU can't be pickled: pickle its generator")

    __getstate__ = __setstate__  # type: ignore[assignment]

    def reserve(self, words: int) -> Array:
        """Return the state in 64-bit words, and advance the offset: a draw computes its numbers from the former."""
        with self.lock:
            before = self.get_state().view(np.uint64)
            self._offset += -(-words // 4) * 4
        return before

    def _draw(self, name: str, advance: int, *parameters: Any, **static: Any) -> DeviceArray:
        return self._computed(name, self.reserve(advance), *parameters, **static)

    def _computed(self, name: str, *args: Any, **static: Any) -> Any:
        """Compute a draw on the GPU, in a program of its own, or in the traced one; on the host while the GPU is busy."""
        function = getattr(_gpu_draws(), name)
        if tracer.current is not None:
            return DeviceArray(call_jax(partial(function, **static), unwrapped(args), {}))
        import jax

        is_busy = local.modes.device_is_busy
        there = jax.devices("cpu")[0] if is_busy else jax_device(self.device)
        drawn = _jitted(function, tuple(sorted(static.items())))(
            *[jax.device_put(unwrapped(arg), there) for arg in args]
        )
        return hosted(np.array(drawn), self.device) if is_busy else DeviceArray(drawn, self.device)

    def _spread(self, name: str, n: int, dtype: np.dtype[Any], *parameters: Any) -> Array:
        """Draw `n` values by a kernel whose threads take elements a grid apart."""
        if not n:
            return np.empty(0, dtype)
        gpu = gpu_of(self.device)
        advance = advance_of(n, 2 if dtype == np.float64 else 4, gpu)
        return self._draw(name, advance, *parameters, n=n, dtype=dtype, gpu=gpu)

    def _each(self, name: str, n: int, dtype: np.dtype[Any], *parameters: float) -> Array:
        """Draw `n` values, given the numbers of the distribution, rounded to the dtype that its kernel computes in."""
        return self._spread(name, n, dtype, *map(_computed_in(dtype), parameters))

    # Uniform and normal --------------------------------------------------------------------------------------------------

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            return self._paired(self.uniform(2 * n, low, high, real_part(dtype)))
        if low == 0.0 and high == 1.0:
            return self._each("unit_uniform", n, dtype)
        check_uniform(low, high, dtype)
        first, last = np.asarray(low).astype(dtype), np.asarray(high).astype(dtype)
        return self._spread("uniform", n, dtype, _computed_in(dtype)(last - first), first, last)

    def _paired(self, parts: Array) -> Array:
        return self._computed("paired", parts)

    def normal(
        self, n: int, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = np.float32, contiguous: bool = True
    ) -> Array:
        dtype = np.dtype(dtype)
        require(std >= 0.0, f"normal expects std >= 0.0, but found std {std:g}")
        if dtype.kind == "c":
            return self._paired(self.normal(2 * n, mean, std / math.sqrt(2.0), real_part(dtype)))
        if mean == 0.0 and std == 1.0:
            return self._each("standard_normal", n, dtype)
        return self._each("normal", n, dtype, mean, std)

    def normal_each(self, mean: Any, std: Any, dtype: DTypeLike) -> Array:
        dtype = np.dtype(dtype)
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
        if isinstance(std, (int, float)):
            values = self.normal(math.prod(shape), 0.0, std, dtype).reshape(shape)
        else:
            self._require_all(std >= 0, "normal expects all elements of std >= 0.0")
            values = (self.normal(math.prod(shape), dtype=dtype).reshape(shape) * std).astype(dtype)
        return (values + mean).astype(dtype)

    def _require_all(self, conditions: Any, complaint: str) -> None:
        if values_known(conditions):
            require(bool(conditions.all()), complaint)

    def log_normal(self, n: int, mean: float = 1.0, std: float = 2.0, dtype: DTypeLike = np.float32) -> Array:
        require(std > 0.0, f"log_normal_ expects std > 0.0, but found std={std:g}")
        return self._each("log_normal", n, np.dtype(dtype), mean, std)

    # Other continuous draws ----------------------------------------------------------------------------------------------

    def exponential(self, n: int, rate: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        require(rate > 0.0, f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
        wide = _computed_in(np.dtype(dtype))
        return self._each("exponential", n, np.dtype(dtype), wide(-1.0) / wide(rate))

    def cauchy(self, n: int, median: float = 0.0, sigma: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        require(sigma > 0.0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
        return self._each("cauchy", n, np.dtype(dtype), median, sigma)

    @contextmanager
    def one_by_one(self) -> Iterator[Callable[[], float]]:
        """Yield a function that returns a double uniform per call, drawn on the host from a stream of its own.

        PyTorch's kernels for gamma, Poisson and binomial numbers draw in a different way, so these are other numbers.
        """
        host = Stream(zlib.crc32(self.reserve(4).tobytes()))
        try:
            with host.one_by_one() as uniform:
                yield uniform
        finally:
            self.next_double_normal = None

    # Integers and choices ------------------------------------------------------------------------------------------------

    def integers(self, n: int, low: int | None = None, high: int | None = None, dtype: DTypeLike = np.int64) -> Array:
        dtype = np.dtype(dtype)
        count, start, wide = integer_range(n, low, high, dtype)
        if not n:
            return np.empty(0, dtype)
        gpu = gpu_of(self.device)
        advance = advance_of(n, 2 if wide else 4, gpu)
        first = np.uint64(start % 2**64)
        return self._draw("integers", advance, first, count=count, n=n, wide=wide, dtype=dtype, gpu=gpu)

    def permutation(self, n: int, dtype: DTypeLike = np.int64) -> Array:
        dtype = np.dtype(dtype)
        check_permutation(n, dtype)
        if not n:
            return np.empty(0, dtype)
        gpu = gpu_of(self.device)
        keys = self.reserve(advance_of(n, 2, gpu))
        return self._computed("permutation", keys, self.reserve(n), n=n, dtype=dtype, gpu=gpu)

    def geometric(self, n: int, p: float, dtype: DTypeLike = np.float32) -> Array:
        require(0.0 < p < 1.0, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
        return self._each("geometric", n, np.dtype(dtype), p)

    def bernoulli(self, n: int, p: float = 0.5, dtype: DTypeLike = np.bool_) -> Array:
        require(0.0 <= p <= 1.0, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return self._each("bernoulli", n, np.dtype(dtype), p)

    def bernoulli_each(self, probabilities: Any, dtype: DTypeLike | None = None) -> Array:
        self._require_all(
            (probabilities >= 0) & (probabilities <= 1), "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        )
        dtype = np.dtype(probabilities.dtype if dtype is None else dtype)
        if not probabilities.size:
            return np.empty(probabilities.shape, dtype)
        flat = self._draw("bernoulli_each", _EACH_ADVANCE, probabilities.reshape(-1), dtype=dtype)
        return flat.reshape(probabilities.shape)

    def multinomial(self, weights: Any, samples: int, replacement: bool = False) -> Array:
        check_multinomial(weights, samples, replacement)
        rows = weights if weights.ndim == 2 else weights.reshape(1, -1)
        total = rows.sum(axis=1)
        self._require_all(
            (rows >= 0) & (rows < np.inf), "probability tensor contains either `inf`, `nan` or element < 0"
        )
        self._require_all(total > 0, "invalid multinomial distribution (sum of probabilities <= 0)")
        if replacement and samples > 1:
            chosen = self._draw("multinomial", -(-len(rows) // 65535) * 4, rows, samples=samples)
        else:
            gpu = gpu_of(self.device)
            advance = advance_of(rows.size, 2 if rows.dtype == np.float64 else 4, gpu)
            chosen = self._draw("race", advance, rows, samples=samples, gpu=gpu)
        return chosen.reshape(*weights.shape[:-1], samples)

    # Dropout -------------------------------------------------------------------------------------------------------------

    def dropout_mask(self, array: Any, p: float) -> Array:
        """Draw which elements of an array `native_dropout` keeps.

        Its threads read vectors of neighbours from memory without gaps, as long as alignment and size allow; otherwise
        they take the elements one by one in the order of their indices.
        """
        lying = array if isinstance(array, np.ndarray) else array.lying()
        n, dense = array.size, is_dense(lying)
        width = _VECTOR_BYTES // array.dtype.itemsize if dense else 1
        while n % width or byte_offset(lying) % (width * array.dtype.itemsize):
            width //= 2
        gpu = gpu_of(self.device)
        kept = _computed_in(array.dtype)(1 - p)
        mask = self._draw("dropout_mask", advance_of(n, 4, gpu), kept, n=n, width=width, gpu=gpu)
        return in_memory_order(mask, lying) if dense else mask.reshape(array.shape)

    def slopes_below_zero(self, values: Any, lower: float, upper: float) -> Array:
        gpu = gpu_of(self.device)
        flat = values.reshape(-1)
        advance = advance_of(values.size, 2 if values.dtype == np.float64 else 4, gpu)
        drawn = self._draw("slopes", advance, flat, np.float64(lower), np.float64(upper - lower), gpu=gpu)
        return drawn.reshape(values.shape)


_EACH_ADVANCE = 12  # of `bernoulli` with probabilities, whatever their number


def _computed_in(dtype: np.dtype[Any]) -> Any:
    return np.float64 if dtype == np.float64 else np.float32
