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

    (
        CPU, CUDA, MKLDNN, OPENGL, OPENCL, IDEEP, HIP, FPGA, MAIA, XLA, Vulkan, Metal, XPU, MPS, Meta, HPU, VE,
        Lazy, IPU, MTIA, PrivateUse1,
    ) = range(21)  # fmt: skip


class ProfilerState(_Kind):
    """What a profiler records."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    (
        Disabled, CPU, CUDA, NVTX, ITT, PRIVATEUSE1, KINETO, KINETO_GPU_FALLBACK, KINETO_PRIVATEUSE1_FALLBACK,
        KINETO_PRIVATEUSE1,
    ) = range(10)  # fmt: skip


class ProfilerActivity(_Kind):
    """The device a profiler observes; here, always the CPU."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    CPU, XPU, CUDA, HPU, MTIA, PrivateUse1 = range(6)


class RecordScope(_Kind):
    """The kind of an event."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    (
        FUNCTION, BACKWARD_FUNCTION, TORCHSCRIPT_FUNCTION, KERNEL_FUNCTION_DTYPE, CUSTOM_CLASS, BUILD_FEATURE,
        LITE_INTERPRETER, USER_SCOPE, STATIC_RUNTIME_OP, STATIC_RUNTIME_MODEL,
    ) = range(10)  # fmt: skip


class ActiveProfilerType(_Kind):
    """Which profiler is active."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    NONE, LEGACY, KINETO, NVTX, ITT, PRIVATEUSE1 = range(6)


class _ExperimentalConfig:
    """Experimental options of a profiler, which are stored and change nothing."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    def __init__(self, *args: object, **options: object) -> None:
        self.profiler_metrics, self.options = args, options
        self.verbose = options.get("verbose", False)
        self.custom_profiler_config, self.trace_only = options.get("custom_profiler_config", ""), False


class ProfilerConfig:
    """The settings of a profiler."""

    __module__ = "undertow._C._profiler"  # where PyTorch has it

    def __init__(self, state: ProfilerState, *options: object) -> None:
        self.state, self.options = state, options


class emit_itt:
    """Mark functions for Intel's tracer, which is absent here: the block does nothing."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_itt | None:
        return self if self.enabled else None

    def __exit__(self, *exc: object) -> None:
        pass


class EnforceUnique:
    """Raises where a key is seen twice."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: object) -> None:
        """Record a key."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps per requester; the current step is the highest count."""

    __module__ = "undertow.autograd.profiler"  # where PyTorch has it

    _counts: dict[str, int] = {}
    _step = 0

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Start a requester at the current step."""
        cls._counts[requester] = cls._step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Remove a requester; return whether there was one."""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count one step of a requester."""
        if requester not in cls._counts:
            cls.init_step_count(requester)
        cls._counts[requester] += 1
        cls._step = max(cls._counts.values())
        return cls._step

    @classmethod
    def current_step(cls) -> int:
        """Return the current step."""
        return cls._step
