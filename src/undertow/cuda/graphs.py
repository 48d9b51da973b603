"""CUDA graphs, which are not available."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow.cuda.streams import Stream


class CUDAGraph:
    """A CUDA graph: recorded work of a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise RuntimeError("Tried to instantiate dummy base class CUDAGraph")


class graph:
    """Records the work inside the block."""

    default_capture_stream: Any = None

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, **options: Any) -> None:
        Stream()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Return functions whose work is recorded once and replayed."""
    return CUDAGraph()


def graph_pool_handle() -> NoReturn:
    """Return a memory pool for graphs."""
    raise RuntimeError("Tried to instantiate dummy base class _graph_pool_handle")


def is_current_stream_capturing() -> NoReturn:
    """Whether a graph is being captured."""
    raise RuntimeError("Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing")
