"""What distributions share: parameters of one shape, probabilities and logits, properties worked out once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow._core import TensorCore
from undertow.distributions import _functions as torch

__all__ = [
    "broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060  # Euler Mascheroni


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype of the tensors."""
    if not all(isinstance(value, TensorCore) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    tensors = [value for value in values if isinstance(value, TensorCore)]
    if len(tensors) < len(values):
        kind, where = (tensors[0].dtype, tensors[0].device) if tensors else (torch.get_default_dtype(), None)
        values = tuple([
            value if isinstance(value, TensorCore) else torch.tensor(value, dtype=kind, device=where) for value in values
        ])
    return torch.broadcast_tensors(*values)


def standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    """Standard normal draws."""
    zeros = torch.zeros(tuple(shape), dtype=dtype, device=device)
    return torch.normal(zeros, torch.ones_like(zeros))


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last so many dims."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log-odds, or of unnormalised logarithms along the last dim."""
    return logits.sigmoid() if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept away from 0 and 1, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds of probabilities, or their logarithms."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is worked out when it is first asked for, then kept as an attribute."""

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
    """What a lazy property is on the class: something to look at, as any property."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of matrices, row by row, as vectors."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    place = torch.arange(n)
    kept = place < place.view(-1, 1) + (diag + 1)
    return mat[..., kept]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Vectors as the lower triangle of matrices, row by row."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if n != int(n) and round(n) - n > 1e-10:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    size = round(n)
    matrix = torch.zeros((*vec.shape[:-1], size, size), dtype=vec.dtype, device=vec.device)
    place = torch.arange(size)
    kept = place < place.view(-1, 1) + (diag + 1)
    matrix[..., kept] = vec
    return matrix


_sum_rightmost = sum_rightmost


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Numbers from the standard normal distribution."""
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))
