"""Placeholders for what undertow does not do: quantization schemes, tags of operators, streams of the CPU."""

from __future__ import annotations

from enum import Enum
from typing import Any

from undertow._src.types.devices import device as Device
from undertow._src.types.layouts import _Named


class qscheme(_Named):
    """How the numbers of a quantized tensor map to real ones. No tensor here is quantized."""

    __slots__ = ()
    __module__ = "torch"

    def __reduce__(self) -> Any:
        return _of_name, (self.name,)


def _of_name(name: str) -> qscheme:
    return globals()[name]


per_tensor_affine = qscheme._make("per_tensor_affine")
per_tensor_symmetric = qscheme._make("per_tensor_symmetric")
per_channel_affine = qscheme._make("per_channel_affine")
per_channel_symmetric = qscheme._make("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme._make("per_channel_affine_float_qparams")

Tag = Enum(
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order "
    "nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    start=0,
    module="torch",
)


class Stream:
    """A queue of work. The CPU has one, in which everything is done at once."""

    __module__ = "undertow"

    def __init__(self, device: Any = "cpu", *, priority: int = 0) -> None:
        given = Device(device)
        if given.type != "cpu":
            raise RuntimeError(f"PyTorch is not linked with support for {given.type} devices")
        self.device, self.device_index, self.stream_id = given, -1, 0

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def synchronize(self) -> None:
        """Return at once: all work is done."""

    def wait_event(self, event: Any) -> None:
        """Return at once: the event has happened."""

    def wait_stream(self, stream: Any) -> None:
        """Return at once: the other queue is empty."""

    def record_event(self, event: Any = None) -> Any:
        """Mark the current point of the queue."""
        return Event() if event is None else event

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"


class Event:
    """A point in a queue of work; on the CPU it has always happened."""

    __module__ = "undertow"

    def __init__(self, device: Any = "cpu", *, enable_timing: bool = False, **options: Any) -> None:
        self.device, self.enable_timing = Device(device), enable_timing

    def record(self, stream: Any = None) -> None:
        """Mark the current point of a queue."""

    def wait(self, stream: Any = None) -> None:
        """Return at once: the point is reached."""

    def query(self) -> bool:
        """Whether the point has been reached."""
        return True

    def synchronize(self) -> None:
        """Return at once: the point is reached."""

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index=-1, event_flag=0, event_id=0"
