"""`torch.nn.parallel.comm`: copies between GPUs, of which there are none; each function says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from undertow._tensor import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _refused(name: str) -> NoReturn:
    raise AssertionError(f"{name} expects all inputs to be on GPUs, and undertow has one device only")


def broadcast(tensor: Tensor, devices: Any = None, *, out: Any = None) -> NoReturn:
    """Would copy a tensor to several GPUs."""
    _refused("broadcast")


def broadcast_coalesced(tensors: Any, devices: Any, buffer_size: int = 10485760) -> NoReturn:
    """Would copy tensors to several GPUs, many at once."""
    _refused("broadcast")


def reduce_add(inputs: Any, destination: Any = None) -> NoReturn:
    """Would add tensors of several GPUs."""
    _refused("reduce_add")


def reduce_add_coalesced(inputs: Any, destination: Any = None, buffer_size: int = 10485760) -> NoReturn:
    """Would add lists of tensors of several GPUs."""
    _refused("reduce_add")


def scatter(
    tensor: Tensor, devices: Any = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *, out: Any = None
) -> NoReturn:
    """Would spread the parts of a tensor over several GPUs."""
    _refused("scatter")


def gather(tensors: Any, dim: int = 0, destination: Any = None, *, out: Any = None) -> NoReturn:
    """Would join tensors of several GPUs."""
    _refused("gather")
