"""Texts of errors about graphs: PyTorch's opening words, then the facts that undertow knows."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.base.sites import Site


class _LinAlgError(RuntimeError):
    """A matrix has no answer to a `linalg` function: it is singular, or not positive definite."""

    __module__ = "undertow._C"  # where PyTorch has it


class OutOfMemoryError(RuntimeError):
    """An accelerator ran out of memory. undertow never raises it; programs catch it."""

    __module__ = "torch"


class AcceleratorError(RuntimeError):
    """An accelerator failed. undertow never raises it; programs catch it."""

    __module__ = "torch"


def out_of_memory(error: MemoryError) -> Exception:
    """Turn NumPy's MemoryError for an array into PyTorch's error; return any other MemoryError unchanged."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return error
    return cannot_allocate(f"{math.prod(shape) * dtype.itemsize} bytes, for shape {list(shape)} and dtype {dtype}")


def cannot_allocate(what: str) -> RuntimeError:
    """Return the error for an allocation that is too large."""
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        f"{what}."
    )


def freed_graph(node_name: str, freed_at: Site | None) -> RuntimeError:
    """Return the error for using saved values that a backward pass has already freed."""
    where = f" The backward pass that freed it was started at {freed_at}: {freed_at.source}" if freed_at else ""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors, which were "
        f"freed). {node_name} has freed the values it saved.{where}\n"
        "Specify retain_graph=True in that backward (or autograd.grad); or add the losses and call backward "
        "once; or, if an old result was carried into this graph from an earlier step, detach() it."
    )


def detached(node_name: str) -> RuntimeError:
    """Return the error for using a saved tensor that `detach_()` has cut from the graph."""
    return RuntimeError(
        "Trying to use a saved tensor that has been detached in-place by detach_(). "
        f"{node_name} saved it when it was still part of the graph. Use the out-of-place detach() instead, or detach_() "
        "it after the backward pass."
    )


def written_view(origin: str, name: str, through_another: bool) -> RuntimeError:
    """Return the error for a write to a view whose gradient can't follow it.

    With `through_another` the write went through a different alias of the same storage.
    """
    what = "its base or another view of its base has been" if through_another else "is being"
    if origin == "no_grad":
        view = "A view was" if name == "This tensor" else f"{name} is a view of a view which was"
        return RuntimeError(
            f"{view} created in no_grad mode and {what} modified inplace with grad mode enabled. This use case is "
            "ambiguous and error-prone: do both inside the no_grad block, or both outside."
        )
    if origin == "inference":
        view = "A view was" if name == "This tensor" else f"{name} is a view of a view which was"
        return RuntimeError(
            f"{view} created in inference mode and {what} modified inplace in normal mode. This use case is ambiguous "
            "and error-prone: do both inside the inference_mode block, or both outside."
        )
    if origin == "function":
        return RuntimeError(
            f"{name} is a view and {what} modified inplace. This view was created inside a custom Function, or is an "
            "input it returned as it was; a write to it would bypass the Function's own backward. Fix this by cloning "
            "the output of the custom Function."
        )
    return RuntimeError(
        f"{name} is a view and {what} modified inplace. It is one of several views that one function returned. "
        "Such functions do not allow that, because a write to one view can't be told from a write to the others. You "
        "should replace the inplace operation by an out-of-place one."
    )


def overwritten(
    tensor_text: str, source: str | None, version: int, expected: int, saved_by: str, saved_at: Any, writes: Any
) -> RuntimeError:
    """Return the error for a saved tensor that was overwritten; anomaly mode adds the lines of both."""
    origin = f", which is {source}," if source else ""
    saved_line = f" at {saved_at[-1]}: {saved_at[-1].source}" if saved_at else ""
    lines = [
        f"one of the variables needed for gradient computation (saved by {saved_by}{saved_line}) "
        f"has been modified by an inplace operation: {tensor_text}{origin} is at version {version}; expected version "
        f"{expected} instead."
    ]
    for site in (writes or [])[expected:version]:
        if site is not None:
            lines.append(f"It was overwritten at {site}: {site.source}")
    if not writes:
        lines.append(
            "Hint: enable anomaly detection to find the operation that overwrote it: under "
            "torch.autograd.set_detect_anomaly(True) this message names its line."
        )
    lines.append("Cure: use the out-of-place form of that write, or write to a clone().")
    return RuntimeError("\n".join(lines))
