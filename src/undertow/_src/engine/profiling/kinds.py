"""Rare names of PyTorch's profiler: its enumerations, and tools that its own code and tests use."""

from __future__ import annotations

from enum import Enum
from typing import Any

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class _Kind(Enum):
    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


class DeviceType(_Kind):
    """Where an event happened."""

    __module__ = "undertow._C._autograd"  # where PyTorch has it

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class ProfilerState(_Kind):
    """What a profiler records."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8
    KINETO_PRIVATEUSE1 = 9


class ProfilerActivity(_Kind):
    """What a profiler looks at; here, always the CPU."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class RecordScope(_Kind):
    """What kind of thing an event is."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ActiveProfilerType(_Kind):
    """Which profiler is at work."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class _ExperimentalConfig:
    """Options of a profiler that may go again; they are kept, and change nothing."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    def __init__(self, *args: Any, **options: Any) -> None:
        self.profiler_metrics, self.options = args, options
        self.verbose = options.get("verbose", False)
        self.custom_profiler_config, self.trace_only = options.get("custom_profiler_config", ""), False


class ProfilerConfig:
    """What was asked of a profiler."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    def __init__(self, state: ProfilerState, *options: Any) -> None:
        self.state, self.options = state, options


class emit_itt:
    """Marks functions for Intel's tracer, of which the CPU alone has none: nothing happens inside the block."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_itt | None:
        return self if self.enabled else None

    def __exit__(self, *exc: Any) -> None:
        pass


class EnforceUnique:
    """Raises where a key is seen twice."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps by who makes them; the step is the highest count."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    _counts: dict[str, int] = {}
    _step = 0

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Return a requester begins at the step reached so far."""
        cls._counts[requester] = cls._step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forgets a requester; whether there was one."""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """One step more of a requester."""
        if requester not in cls._counts:
            cls.init_step_count(requester)
        cls._counts[requester] += 1
        cls._step = max(cls._counts.values())
        return cls._step

    @classmethod
    def current_step(cls) -> int:
        """Return the step reached so far."""
        return cls._step
