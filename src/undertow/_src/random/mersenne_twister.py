"""The Mersenne Twister of a CPU generator: seeding, raw bits, and the state as PyTorch's bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from undertow._src.random.numerics import Array

DEFAULT_SEED = 67280421310721
_WORDS = 624
# The bytes of torch.get_rng_state(), 5056 of them. The fields between `key` and `float_sample` are leftovers of an
# older layout: the cached normal is in `normal_y`, the two next to it stay 0.
_LAYOUT = np.dtype(
    [
        ("initial_seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("key", "<u8", (_WORDS,)),
        ("normal_x", "<f8"),
        ("normal_y", "<f8"),
        ("normal_rho", "<f8"),
        ("normal_is_valid", "<i4"),
        ("padding", "V4"),
        ("float_sample", "<f4"),
        ("float_is_valid", "?"),
        ("tail", "V3"),
    ]
)
STATE_BYTES = _LAYOUT.itemsize


def checked_seed(seed: int | None) -> int:
    """Return a seed modulo 2**64; None: 64 bits of the system's entropy."""
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"Overflow when unpacking long long. A seed lies in [-2**63, 2**64), got {seed}")
    return seed % 2**64


class Engine:
    """A 32-bit Mersenne Twister with PyTorch's seeding, its cached normals and its state bytes.

    Seeds are taken modulo 2**64 (-1 is 2**64 - 1) and only their low 32 bits reach the twister. Beyond
    [-2**63, 2**64) PyTorch refuses a seed. A new engine has the seed that a new `Generator` has.
    """

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.lock = threading.RLock()  # draws that read, decide and write back must not interleave
        self.seed(seed)

    @cached_property
    def _bits(self) -> np.random.MT19937:
        """The twister, made at the first draw: importing `numpy.random` takes longer than undertow."""
        bits = np.random.MT19937(0)
        np.random.RandomState(bits).seed(self._initial_seed % 2**32)
        return self.__dict__.setdefault("_bits", bits)  # of two threads that get here, both use the first one's

    def seed(self, seed: int | None = None) -> int:
        """Restart from `seed`, or from 64 bits of the system's entropy as `torch.seed()` does; return the seed."""
        seed = checked_seed(seed)
        with self.lock:
            self._initial_seed = seed
            if "_bits" in self.__dict__:
                np.random.RandomState(self._bits).seed(self._initial_seed % 2**32)
            self._untouched = True
            self.next_double_normal: float | None = None
            self.next_float_normal: float | None = None
        return self._initial_seed

    @property
    def initial_seed(self) -> int:
        """The seed this stream was started from, as an unsigned 64-bit number; a loaded state has its own."""
        return self._initial_seed

    def random32(self, n: int) -> Array:
        """Return the next `n` 32-bit outputs, in an array of 64-bit integers."""
        self._untouched = self._untouched and n == 0
        return self._bits.random_raw(n)

    def random64(self, n: int) -> Array:
        """Return the next `n` 64-bit values: two outputs each, the high half first."""
        outputs = self.random32(2 * n)
        values = outputs[::2] << np.uint64(32)
        values |= outputs[1::2]
        return values

    def uniform24(self, n: int) -> Array:
        """Return `n` float32 values in [0, 1): the low 24 bits of one output each."""
        outputs = self.random32(n).astype(np.uint32)
        outputs &= np.uint32(0xFFFFFF)
        values = outputs.view(np.int32).astype(np.float32)
        values *= np.float32(2.0**-24)
        return values

    def uniform53(self, n: int) -> Array:
        """Return `n` float64 values in [0, 1): the low 53 bits of a 64-bit value each."""
        values = self.random64(n)
        values &= np.uint64(2**53 - 1)
        return values * 2.0**-53

    @contextmanager
    def one_by_one(self) -> Iterator[Callable[[], float]]:
        """Yield a function that returns one double uniform per call, for draws that use a varying number of them.

        Uniforms are fetched in growing batches; on leaving, the engine stands exactly after the last one used.
        """
        used = 0

        def uniforms() -> Iterator[float]:
            nonlocal used
            size = 32
            while True:
                for value in self.uniform53(size).tolist():
                    used += 1
                    yield value
                size = min(2 * size, 16384)

        with self.lock:
            before, untouched = self._bits.state, self._untouched
            try:
                yield uniforms().__next__
            finally:
                self._bits.state = before
                self._bits.random_raw(2 * used, output=False)
                self._untouched = untouched and used == 0

    def get_state(self) -> Array:
        """Return the bytes that `torch.get_rng_state()` would return, as a uint8 array."""
        record = np.zeros((), _LAYOUT)
        with self.lock:
            twister = self._bits.state["state"]
            position = int(twister["pos"])
            record["initial_seed"] = self._initial_seed
            record["left"] = _WORDS + 1 - position
            record["seeded"] = 1
            record["next"] = 0 if self._untouched else position
            record["key"] = twister["key"]
            if self.next_double_normal is not None:
                record["normal_y"], record["normal_is_valid"] = self.next_double_normal, 1
            if self.next_float_normal is not None:
                record["float_sample"], record["float_is_valid"] = self.next_float_normal, True
        return np.frombuffer(record.tobytes(), np.uint8).copy()

    def set_state(self, state: Array) -> None:
        """Continue from the bytes of `get_state()` or of `torch.get_rng_state()`."""
        if state.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, got an array of {state.dtype}")
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be "
                f"{state.size}"
            )
        record = np.frombuffer(np.ascontiguousarray(state).tobytes(), _LAYOUT)[0]
        left, following = int(record["left"]), int(record["next"])
        if record["seeded"] != 1 or not 0 < left <= _WORDS or following > _WORDS:
            raise RuntimeError("Invalid mt19937 state")
        key: Any = record["key"].astype(np.uint32)
        with self.lock:
            # With one value left, the twister regenerates before the next draw, whatever `next` says.
            position = _WORDS if left == 1 else following
            self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
            self._initial_seed = int(record["initial_seed"])
            self._untouched = left == 1 and following == 0
            self.next_double_normal = float(record["normal_y"]) if record["normal_is_valid"] else None
            self.next_float_normal = float(record["float_sample"]) if record["float_is_valid"] else None

    def __getstate__(self) -> bytes:
        return self.get_state().tobytes()

    def __setstate__(self, state: bytes) -> None:
        Engine.__init__(self)
        self.set_state(np.frombuffer(state, np.uint8))
