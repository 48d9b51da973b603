"""Recorded work of a GPU, of which there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow.cuda.streams import Stream


class CUDAGraph:
    """Recorded work of a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise RuntimeError("Tried to instantiate dummy base class CUDAGraph")


class graph:
    """A block whose work is recorded."""

    default_capture_stream: Any = None

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, **options: Any) -> None:
        Stream()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Functions whose work is recorded once and repeated."""
    return CUDAGraph()


def graph_pool_handle() -> NoReturn:
    """Return the memory of recorded work."""
    raise RuntimeError("Tried to instantiate dummy base class _graph_pool_handle")


def is_current_stream_capturing() -> NoReturn:
    """Whether work is being recorded."""
    raise RuntimeError("Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing")
