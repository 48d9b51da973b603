"""LU factors by their older names, and what is done with them: unpacking, solving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow import return_types
from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.numpy.linalg import first_zero_pivot, permutation_of_pivots
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_constant, check_tensor, no_kernel, wrap_dim
from undertow._src.engine.outputs import into
from undertow._src.ops.decompositions import check_inexact
from undertow._src.ops.factor import check_system, infos
from undertow._src.ops.named import into_all
from undertow._src.ops.public import public
from undertow._src.ops.triangular import check_pivoted
from undertow._src.rules import factor as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._tensor import Tensor


@public
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Tensor | None = None) -> Any:
    """L and U of A = P L U in one matrix, and the row exchanges that make P; for each which pivot is zero if asked."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex."
        "\nThey take A and whether to exchange rows; the second also tells which matrices are "
        "singular, as get_infos=True did."
    )
    if A._array.ndim < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A._array.shape)} instead"
        )
    kind = DTYPE_OF[A._array.dtype]
    if kind.category < FLOATING or kind.opmath is not kind:
        raise no_kernel("lu_cpu", A)
    check_pivoted(pivot, "linalg.lu_factor")
    both, pivots, _ = apply(rules.linalg_lu_factor_ex, A)
    results = (both, pivots, infos(A, first_zero_pivot)) if get_infos else (both, pivots)
    if out is None:
        return results
    for target, result in zip(out, results, strict=True):
        target.resize_as_(result).copy_(result)
    return tuple(out)


@public
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *,
    out: Tensor | None = None,
) -> Any:  # fmt: skip
    """P, L and U from what `lu_factor` returns; empty ones in place of those that are not wanted."""
    check_tensor(LU_data, "lu_unpack", "LU_data")
    check_tensor(LU_pivots, "lu_unpack", "LU_pivots", 2)
    array, pivots = LU_data._array, LU_pivots._array
    if unpack_pivots and pivots.dtype != np.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nSuch ones come "
            "from torch.linalg.lu_factor"
        )
    wrap_dim(-2, array.ndim)
    empty = np.empty(0, array.dtype)
    P = wrap(empty)
    if unpack_pivots:
        if values_known(pivots) and pivots.size and (pivots.min() < 1 or pivots.max() > array.shape[-2]):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive, like those of lu_factor"
            )
        P = wrap(permutation_of_pivots(pivots, array.shape[-2], array.dtype))
    parts = lambda: (P, *(apply(rules.lu_unpack, LU_data) if unpack_data else (wrap(empty), wrap(empty.copy()))))
    if out is None:
        return return_types.lu_unpack(parts())
    return into_all(return_types.lu_unpack, "lu_unpack", out, parts, (LU_data,))


def _solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    name = "linalg.lu_solve"
    check_constant(pivots, "linalg_lu_solve", "pivots")
    check_inexact(LU, "linalg.lu_solve", "")
    a, p = LU._array.shape, pivots._array
    if len(a) < 2:
        raise RuntimeError("torch.linalg.lu_solve: The input tensor A must have at least 2 dimensions.")
    if a[-2] != a[-1]:
        raise RuntimeError(
            f"torch.linalg.lu_solve: A must be batches of square matrices, but they are {a[-2]} by {a[-1]} matrices"
        )
    if p.dtype != np.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    one, two = DTYPE_OF[LU._array.dtype], DTYPE_OF[B._array.dtype]
    if one is not two:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found {one.scalar_name} and {two.scalar_name}"
        )
    if p.shape[-1] != a[-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    check_system(LU, B, left, name, False)
    permutation = wrap(permutation_of_pivots(p, a[-1], LU._array.dtype))
    return apply(rules.linalg_lu_solve, LU, B, permutation, left=bool(left), adjoint_=bool(adjoint))


@public
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B (X A = B with left=False, Aᴴ for A with adjoint=True), given `lu_factor(A)`."""
    for place, (argument, value) in enumerate({"LU": LU, "pivots": pivots, "B": B}.items(), 1):
        check_tensor(value, "linalg_lu_solve", argument, place)
    compute = lambda: _solve(LU, pivots, B, left, adjoint)
    return compute() if out is None else into(out, compute, (LU, B), "linalg_lu_solve")


@public
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """X with A X = input, given `lu_factor(A)`."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
        "The new function takes the factors first: torch.linalg.lu_solve(LU, pivots, B)."
    )
    return linalg_lu_solve(LU_data, LU_pivots, input, out=out)
