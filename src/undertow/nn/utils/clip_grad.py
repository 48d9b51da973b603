"""Clipping gradients by their common norm or by value."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.base import tracer
from undertow._src.base.modes import no_grad, slow_path
from undertow._src.base.sites import warn
from undertow._src.ops.join import stack
from undertow._src.ops.norms import linalg_vector_norm as vector_norm
from undertow._src.overrides.torch_function import PLAIN
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.from_data import tensor

if TYPE_CHECKING:
    from undertow._tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

_FLOATS = (np.dtype("f4"), np.dtype("f8"))


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Any]:
    return [tensors] if isinstance(tensors, TensorCore) else list(tensors)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Any]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Any], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all tensors together, as if they were one vector."""
    listed, order = _listed(tensors), float(norm_type)
    if not listed:
        return tensor(0.0)
    total = _euclidean_norm(listed) if order == 2 else None
    if total is None:
        with no_grad():
            total = vector_norm(stack([vector_norm(each, order) for each in listed]), order)
    if error_if_nonfinite:
        complaint = (
            f"The total norm of order {order} for gradients from `parameters` is non-finite: nothing is clipped. To "
            "scale by it all the same, set `error_if_nonfinite=False`"
        )
        if not values_known(total._array):  # while a compiled step is being traced
            tracer.running().check_in_program(total.isfinite()._array, complaint)
        elif not math.isfinite(total.item()):
            raise RuntimeError(complaint)
    return total


def _euclidean_norm(tensors: list[Any]) -> Tensor | None:
    """Return the norm of plain float tensors of one dtype, straight from their arrays; None if they are anything else."""
    kind = tensors[0]._array.dtype
    if slow_path.count or kind not in _FLOATS:
        return None
    squares = 0.0
    for each in tensors:
        array = each._array
        if type(each) not in PLAIN or type(array) is not np.ndarray or array.dtype != kind:
            return None
        flat = array.reshape(-1)
        squares += float(flat.dot(flat))
    return wrap(np.asarray(math.sqrt(squares), kind))


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by max_norm / total_norm if that is below 1."""
    with no_grad():
        # Multiplies even if the factor is 1: testing its value would not work in a compiled step.
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _gradients(parameters):
            grad.mul_(factor if factor.dtype is grad.dtype else factor.to(grad.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale gradients in place so that their common norm is at most max_norm; return the norm before.

    >>> w = torch.tensor([3., 4.], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(10.), tensor([0.6000, 0.8000]))
    """
    listed = _listed(parameters)
    if not listed and isinstance(parameters, Generator):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(listed, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Call clip_grad_norm_ (a deprecated name)."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clip every gradient in place to [-clip_value, clip_value]."""
    limit = float(clip_value)
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(min=-limit, max=limit)


# The private names that PyTorch's own code uses.
_get_total_norm, _clip_grads_with_norm_, _no_grad = get_total_norm, clip_grads_with_norm_, no_grad()
