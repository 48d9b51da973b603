"""The functions that distributions use, under PyTorch's names."""

# ruff: noqa: F401
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from undertow._src.arrays.device.array import values_known
from undertow._src.base.modes import enable_grad, no_grad
from undertow._src.base.sites import warn
from undertow._src.ops.activation import logsigmoid, softmax, softplus
from undertow._src.ops.arrange import tril_indices
from undertow._src.ops.broadcasting import broadcast_shapes, broadcast_tensors
from undertow._src.ops.compare import where
from undertow._src.ops.decompositions import linalg_eigvalsh as eigvalsh
from undertow._src.ops.draws import _sample_dirichlet as sample_dirichlet
from undertow._src.ops.draws import _standard_gamma as standard_gamma
from undertow._src.ops.factor import linalg_slogdet as slogdet
from undertow._src.ops.join import cat, stack
from undertow._src.ops.loss import binary_cross_entropy_with_logits
from undertow._src.ops.matmul import matmul
from undertow._src.ops.triangular import cholesky_inverse, cholesky_solve
from undertow._src.ops.triangular import linalg_cholesky as cholesky
from undertow._src.ops.triangular import linalg_cholesky_ex as cholesky_ex
from undertow._src.ops.triangular import linalg_solve_triangular as solve_triangular
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty, eye, full, full_like, ones, ones_like, zeros, zeros_like
from undertow._src.tensor.from_data import as_tensor, tensor
from undertow._src.tensor.methods.random import bernoulli, binomial, multinomial, poisson
from undertow._src.tensor.ranges import arange
from undertow._src.types.dtypes import bool as bool_dtype
from undertow._src.types.dtypes import finfo, float64, get_default_dtype
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.random import normal, rand, randn

Shape = Sequence[int]
Value = Tensor | float  # the types of parameters


def alias(path: str) -> Any:
    """Return a property that reads another attribute, such as "loc" or "base_dist.scale"."""
    return property(attrgetter(path))


def formula(compute: Callable[[Any], Any]) -> Any:
    """Return a property that is computed from the parameters, such as the mean."""
    return property(compute)


def insist(holds: bool, complaint: str) -> None:
    """Raise PyTorch's AssertionError if an argument has the wrong type."""
    if not holds:
        raise AssertionError(complaint)


def insist_on_dim(value: Tensor, dim: int, name: str) -> None:
    """Raise PyTorch's AssertionError for a value without a dim."""
    insist(-value.dim() <= dim < value.dim(), f"dim {dim} out of range for {name} with {value.dim()} dimensions")


def rand_as(like: Tensor, shape: Shape) -> Tensor:
    """Draw numbers from [0, 1) with the dtype and on the device of a tensor."""
    return rand(tuple(shape), dtype=like.dtype, device=like.device)


def normal_as(like: Tensor, shape: Shape) -> Tensor:
    """Draw standard normal numbers with the dtype and on the device of a tensor."""
    zero = zeros(tuple(shape), dtype=like.dtype, device=like.device)
    return normal(zero, ones_like(zero))
