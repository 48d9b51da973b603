"""`Generator`: a source of random numbers that can be seeded, saved and passed to a random function."""

from __future__ import annotations

import importlib.util
import weakref
from operator import index
from typing import Any

import numpy as np

from undertow._src.arrays.device.placement import gpus
from undertow._src.random import Stream
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import device as Device


def _is_here(device: Device) -> bool:
    if device.type == "xla":
        return importlib.util.find_spec("jax") is not None
    return device.type == "cpu" or (device.type == "cuda" and gpus() > 0)


alive: weakref.WeakSet[Generator] = weakref.WeakSet()  # all generators, which compiled steps guard


class Generator:
    """PyTorch's CPU generator, for every device. `stream` draws raw arrays from it; `default_generator` is the default."""

    __module__ = "undertow._C"  # where PyTorch has it

    __slots__ = ("stream", "device", "__weakref__")

    stream: Stream
    device: Device

    def __init__(self, device: Any = None) -> None:
        self.device = Device("cpu" if device is None else device)
        if not _is_here(self.device):
            raise RuntimeError(
                f"Cannot get {self.device.type.upper()} generator without a {self.device.type} library: undertow's "
                "random numbers are drawn on the CPU."
            )
        self.stream = Stream()
        alive.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed; negative seeds count down from 2**64."""
        try:
            self.stream.seed(index(seed))
        except TypeError:
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}") from None
        return self

    def seed(self) -> int:
        """Restart from an unpredictable seed, and return it."""
        return self.stream.seed()

    def initial_seed(self) -> int:
        """Return the seed the stream was started from."""
        return self.stream.initial_seed

    def get_state(self) -> Any:
        """Return the whole state, as a tensor of bytes."""
        return wrap(self.stream.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state that `get_state` returned."""
        if not isinstance(new_state, TensorCore):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state._array.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self.stream.set_state(new_state._array)
        return self

    def clone_state(self) -> Generator:
        """Return a second generator in the same state."""
        twin = Generator()
        twin.stream.set_state(self.stream.get_state())
        return twin

    def get_offset(self) -> int:
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        raise RuntimeError("CPU Generator does not use offset")

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.stream.get_state().tobytes(),)

    def __setstate__(self, state: tuple[int, Any, Any]) -> None:
        """Restore a pickle of PyTorch's, which holds (seed, offset, state)."""
        self.set_state(state[2])


def _rebuild(state: bytes) -> Generator:
    generator = Generator()
    generator.stream.set_state(np.frombuffer(state, np.uint8))
    return generator


default_generator = Generator()
default_generator.seed()  # until manual_seed is called, every run draws different numbers


def stream_of(generator: Generator | None, beside: Any = None) -> Stream:
    """Return the stream that a random function draws from; for a tensor without values, one that draws nothing."""
    if beside is not None and hasattr(beside._array, "without_values"):
        return importlib.import_module("undertow._src.random.blank").BlankStream()
    return default_generator.stream if generator is None else generator.stream
