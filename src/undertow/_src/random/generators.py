"""`Generator`: a source of random numbers that can be seeded, saved and passed to a random function."""

from __future__ import annotations

import importlib.util
import weakref
from operator import index
from typing import Any

import numpy as np

from undertow._src.arrays.device.placement import accelerator_among, gpus
from undertow._src.random import Stream
from undertow._src.random.mersenne_twister import checked_seed
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import device as Device


def _is_here(device: Device) -> bool:
    if device.type == "xla":
        return importlib.util.find_spec("jax") is not None
    return device.type == "cpu" or (device.type == "cuda" and gpus() > 0)


alive: weakref.WeakSet[Generator] = weakref.WeakSet()  # all generators, which compiled steps guard


def _new_stream(device: Device) -> Stream:
    if device.type != "cuda":
        return Stream()
    module = importlib.import_module("undertow._src.random.cuda_stream")
    stream: Stream = module.CudaStream(Device("cuda", device.index or 0))
    return stream


class Generator:
    """PyTorch's generator of a GPU for `cuda`, that of the CPU for every other device.

    `stream` draws raw arrays from it. `default_generator` and `cuda_generators()` are the default ones.
    """

    __module__ = "undertow._C"  # where PyTorch has it

    __slots__ = ("stream", "device", "__weakref__")

    stream: Stream
    device: Device

    def __init__(self, device: Any = None) -> None:
        self.device = Device("cpu" if device is None else device)
        if not _is_here(self.device):
            raise RuntimeError(
                f"Cannot get {self.device.type.upper()} generator without a {self.device.type} library: JAX finds no such "
                "device."
            )
        self.stream = _new_stream(self.device)
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
        twin = Generator(self.device)
        twin.stream.set_state(self.stream.get_state())
        return twin

    def get_offset(self) -> int:
        """Return how far the draws of a GPU's generator have advanced."""
        return int(self._with_offset().offset)

    def set_offset(self, offset: int) -> Generator:
        """Continue from an offset, a multiple of 4."""
        self._with_offset().set_offset(offset)
        return self

    def _with_offset(self) -> Any:
        if self.device.type != "cuda":
            raise RuntimeError("CPU Generator does not use offset")
        return self.stream

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.stream.get_state().tobytes(), str(self.device))

    def __setstate__(self, state: tuple[int, Any, Any]) -> None:
        """Restore a pickle of PyTorch's, which holds (seed, offset, state)."""
        self.set_state(state[2])


def _rebuild(state: bytes, device: str = "cpu") -> Generator:
    generator = Generator(device)
    generator.stream.set_state(np.frombuffer(state, np.uint8))
    return generator


default_generator = Generator()
default_generator.seed()  # until manual_seed is called, every run draws different numbers


class _CudaDefaults:
    """The default generators of GPUs, made when they are first needed: finding out how many there are imports JAX."""

    generators: tuple[Generator, ...] | None = None
    seeds: dict[int | None, int] = {}  # given before: by the number of the GPU, None for all


def cuda_generators() -> tuple[Generator, ...]:
    """Return the default generators of all GPUs."""
    if _CudaDefaults.generators is None:
        made = tuple([Generator(Device("cuda", index)) for index in range(gpus())])
        for index, generator in enumerate(made):
            seed = _CudaDefaults.seeds.get(index, _CudaDefaults.seeds.get(None))
            generator.seed() if seed is None else generator.manual_seed(seed)
        _CudaDefaults.generators = made
    return _CudaDefaults.generators


def seed_cuda(seed: int, index: int | None = None) -> None:
    """Seed the default generator of a GPU; None: those of all. Without GPUs that has no effect."""
    if _CudaDefaults.generators is None:
        checked_seed(seed)
        if index is None:
            _CudaDefaults.seeds.clear()
        _CudaDefaults.seeds[index] = seed
        return
    for place, generator in enumerate(_CudaDefaults.generators):
        if index is None or index == place:
            generator.manual_seed(seed)


def stream_of(generator: Generator | None, beside: Any = None, where: Device | None = None) -> Stream:
    """Return the stream that a random function draws from, for a tensor or a device; None: the CPU.

    For a tensor without values it is one that draws nothing.
    """
    if beside is not None:
        array = beside._array
        if hasattr(array, "without_values"):
            return importlib.import_module("undertow._src.random.blank").BlankStream()
        where = None if type(array) is np.ndarray else accelerator_among([beside])
    gpu = where if where is not None and where.type == "cuda" else None
    if generator is None:
        return default_generator.stream if gpu is None else cuda_generators()[gpu.index or 0].stream
    if (generator.device.type == "cuda") is (gpu is None):
        raise RuntimeError(
            f"Expected a '{'cpu' if gpu is None else 'cuda'}' device type for generator but found "
            f"'{generator.device.type}'"
        )
    return generator.stream
