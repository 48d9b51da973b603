"""Helpers of distributions: broadcasting, probabilities and logits, lazy properties."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow.distributions import _functions as torch

__all__ = [
    "broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060  # Euler Mascheroni


def is_number(value: object) -> bool:
    """Return whether a parameter is a plain number."""
    return isinstance(value, (int, float))


def broadcast_all(*values: Any) -> tuple[torch.Tensor, ...]:
    """Broadcast the arguments to one shape; numbers take the dtype and device of the first tensor."""
    tensors = [value for value in values if isinstance(value, torch.TensorCore)]
    if len(tensors) < len(values):
        if not all(is_number(value) or isinstance(value, torch.TensorCore) for value in values):
            raise ValueError(
                "Input arguments must all be instances of Number, Tensor or a subclass of it, got "
                + ", ".join(type(value).__name__ for value in values)
            )
        dtype, device = (tensors[0].dtype, tensors[0].device) if tensors else (torch.get_default_dtype(), None)
        values = tuple(
            [torch.tensor(value, dtype=dtype, device=device) if is_number(value) else value for value in values]
        )
    return torch.broadcast_tensors(*values)


def _standard_normal(shape: torch.Shape, dtype: Any, device: Any) -> torch.Tensor:
    """Draw numbers from the standard normal distribution."""
    return torch.normal_as(torch.empty(0, dtype=dtype, device=device), shape)


def _sum_rightmost(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the sum over the last `dim` dims."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits: torch.Tensor, is_binary: bool = False) -> torch.Tensor:
    """Return the probabilities of log-odds, or of unnormalized logarithms along the last dim."""
    return logits.sigmoid() if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs: torch.Tensor) -> torch.Tensor:
    """Keep probabilities away from 0 and 1, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: torch.Tensor, is_binary: bool = False) -> torch.Tensor:
    """Return the log-odds of probabilities, or their logarithms."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is computed on first use and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """A lazy property read from the class: documentation tools see a property."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def _lower_triangle(size: int, diag: int) -> torch.Tensor:
    """Return the mask of a square matrix's entries on and below a diagonal."""
    return torch.ones((size, size), dtype=torch.bool_dtype).tril(diag)


def tril_matrix_to_vec(mat: torch.Tensor, diag: int = 0) -> torch.Tensor:
    """Return the lower triangles of matrices as vectors, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower_triangle(n, diag)]


def vec_to_tril_matrix(vec: torch.Tensor, diag: int = 0) -> torch.Tensor:
    """Return matrices with vectors as their lower triangles, row by row."""
    # A triangle of size n holds n²/2 + n (1/2 + diag) - |diag| (diag + 1) / 2 numbers; solved for n.
    half = 0.5 + diag
    exact = (half**2 + 2 * vec.shape[-1] + abs(diag) * (diag + 1)) ** 0.5 - half
    size = round(exact)
    if size - exact > 1e-10:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be a lower triangle: no square matrix has "
            f"that many entries on and below its diagonal {diag}."
        )
    matrix = torch.zeros((*vec.shape[:-1], size, size), dtype=vec.dtype, device=vec.device)
    matrix[..., _lower_triangle(size, diag)] = vec
    return matrix
