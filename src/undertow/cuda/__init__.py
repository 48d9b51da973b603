"""`torch.cuda`: queries report the GPUs that JAX can use; streams, graphs and CUDA's other features raise."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.device.placement import gpus
from undertow._src.base.errors import OutOfMemoryError as OutOfMemoryError
from undertow._src.base.lazy import lazy_names
from undertow._src.base.torch_named import TorchNamed as _TorchNamed
from undertow._src.random.generators import cuda_generators as _cuda_generators
from undertow._src.types.devices import device as _Device
from undertow.cuda._absent import refuse as _refuse
from undertow.cuda.graphs import CUDAGraph as CUDAGraph
from undertow.cuda.graphs import graph as graph
from undertow.cuda.graphs import graph_pool_handle as graph_pool_handle
from undertow.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
from undertow.cuda.graphs import make_graphed_callables as make_graphed_callables
from undertow.cuda.memory import (  # noqa: F401
    empty_cache,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from undertow.cuda.random import (  # noqa: F401
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from undertow.cuda.streams import Event as Event
from undertow.cuda.streams import ExternalStream as ExternalStream
from undertow.cuda.streams import Stream as Stream

_PARTS = ("_utils", "amp", "comm", "nccl", "nvtx", "profiler")
_late_name, __dir__ = lazy_names(
    __name__, {name: f"undertow.cuda.{name}" for name in _PARTS} | {"AcceleratorError": "undertow._src.base.errors"}
)


def __getattr__(name: str) -> Any:
    return _cuda_generators() if name == "default_generators" else _late_name(name)


has_half = True
has_magma = False
_initialized = False


class DeferredCudaCallError(Exception):
    """A call that was deferred until CUDA was initialized and then failed; never raised here."""


def is_available() -> bool:
    """Whether a GPU can be used: JAX does the work there."""
    return gpus() > 0


def is_initialized() -> bool:
    return False


_is_in_bad_fork = is_initialized


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def device_count() -> int:
    """Return the number of GPUs."""
    return gpus()


def get_arch_list() -> list[str]:
    """Return the GPU architectures of this build: none."""
    return []


def get_gencode_flags() -> str:
    return ""


def list_gpu_processes(device: Any = None) -> str:
    """Return a description of the processes on a GPU."""
    return "no processes are running: there is no GPU"


class device:
    """Makes a GPU current inside the block. Only index -1, which stands for none, can be entered."""

    def __init__(self, device: Any) -> None:
        if isinstance(device, int):
            self.idx = device
            return
        given = device if type(device) is _Device else _Device(device)
        if given.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {given}")
        self.idx = 0 if given.index is None else given.index

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *exc: Any) -> None:
        pass


class device_of(device):
    """Makes the GPU of a tensor current inside the block; a tensor on the CPU has no effect."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """Makes a stream current inside the block; None has no effect."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _refuse()

    def __exit__(self, *exc: Any) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """Make a stream current inside the block."""
    return StreamContext(stream)


def _tensor_type(name: str) -> Any:
    def refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled.")

    return _TorchNamed(name, (), {"__module__": "torch.cuda", "__new__": refuse})


FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor = [
    _tensor_type(name) for name in ("FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor")
]
LongTensor, IntTensor, ShortTensor, CharTensor, ByteTensor, BoolTensor = [
    _tensor_type(name) for name in ("LongTensor", "IntTensor", "ShortTensor", "CharTensor", "ByteTensor", "BoolTensor")
]

current_device = get_device_name = get_device_properties = get_device_capability = synchronize = set_device = _refuse
current_stream = default_stream = set_stream = init = ipc_collect = cudart = can_device_access_peer = _refuse
current_blas_handle = get_sync_debug_mode = set_sync_debug_mode = caching_allocator_alloc = _refuse
caching_allocator_delete = get_per_process_memory_fraction = get_stream_from_external = _lazy_init = _refuse


def _is_compiled() -> bool:
    return False


class CudaError(RuntimeError):
    """An error reported by a GPU; never raised here."""


def _no_nvml(device: Any = None) -> int:
    raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed; this function needs it.")


utilization = temperature = memory_usage = power_draw = clock_rate = device_memory_used = _no_nvml
