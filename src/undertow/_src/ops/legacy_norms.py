"""Norms by their older names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, as_ints, check_tensor, is_int, wrap_dims
from undertow._src.ops.named import run
from undertow._src.ops.norms import linalg_matrix_norm
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.shape import transpose, view_to
from undertow._src.rules import vector_norm as rules
from undertow._src.rules.rule import twin
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

_norm_of_all = twin(rules.norm, "NormBackward0")


def _warn(name: str, instead: str) -> None:
    warn_once(f"at::{name} is deprecated and it is just left for JIT compatibility. Use `{instead}` instead.")


@overloaded
def nuclear_norm(
    input: Tensor, dim: int | _size | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Return the sum of the singular values of matrices."""
    check_tensor(input, "nuclear_norm")
    _warn("nuclear_norm", "linalg.matrix_norm(A, 'nuc', dim, keepdim)")
    return linalg_matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, out=out)


@public
def frobenius_norm(input: Tensor, dim: int | _size, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the square root of the sum of squares over one or two dims, or over all."""
    check_tensor(input, "frobenius_norm")
    _warn("frobenius_norm", "linalg.vector_norm(A, 2, dim, keepdim)")
    dims = (as_int(dim, "frobenius_norm", "dim", 2),) if is_int(dim) else as_ints(dim, "frobenius_norm", "dim", 2)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    dims = wrap_dims(dims, input._array.ndim) or tuple(range(input._array.ndim))
    return run("frobenius_norm", out, rules.norm, input, ord=2.0, dim=dims, keepdim=bool(keepdim))


@public
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norm over every dim but one, which keeps its place; with dim=-1 the norm over all."""
    check_tensor(v, "norm_except_dim", "v")
    kind = DTYPE_OF[v._array.dtype]
    if kind.category < FLOATING:
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {kind.scalar_name} instead."
        )
    shape, ord = v._array.shape, float(pow)
    if dim == -1:
        return apply(_norm_of_all, v, ord=ord, dim=tuple(range(len(shape))), keepdim=False)
    if dim not in (0, len(shape) - 1):
        return transpose(norm_except_dim(transpose(v, 0, dim), pow, 0), 0, dim)
    rows = view_to(v.contiguous(), (shape[0], -1) if dim == 0 else (-1, shape[-1]))
    norms = apply(rules.norm, rows, ord=ord, dim=(1 if dim == 0 else 0,), keepdim=False)
    return view_to(norms, tuple([n if place == dim else 1 for place, n in enumerate(shape)]))
