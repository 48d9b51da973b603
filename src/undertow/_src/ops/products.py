"""Public products made of others: tensordot, inner, kron, chains of matrices, cross products, traces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, no_kernel, wrap_dim, wrap_dims
from undertow._src.engine.outputs import copied_into, into
from undertow._src.ops.arithmetic import mul
from undertow._src.ops.broadcasting import expand_to, unsqueeze
from undertow._src.ops.join import cat
from undertow._src.ops.matmul import check_scalar_types, kind_of, matrix_product, mm, vdot
from undertow._src.ops.named import run
from undertow._src.ops.public import public
from undertow._src.ops.shape import permuted, reshape_to
from undertow._src.ops.slicing import diagonal
from undertow._src.rules import linalg as rules
from undertow._src.rules import shape as shape_rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


@public
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Return the sum of products over pairs of dims: the last of a with the first of b, or those that two lists name."""
    given = _paired_dims(a, b, dims)
    for x, y in zip(*given, strict=True):
        n, m = a._array.shape[x], b._array.shape[y]
        if n != m and n != 1 and m != 1:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {x} and second "
                f"has size {m} in dim {y}"
            )
    left, right = wrap_dims(given[0], a._array.ndim), wrap_dims(given[1], b._array.ndim)
    if kind_of(a) is not kind_of(b):
        raise RuntimeError("both inputs should have same dtype")
    for x, y in zip(left, right, strict=True):  # a dim of size one is summed with each element of the other's
        if a._array.shape[x] != b._array.shape[y]:
            if a._array.shape[x] == 1:
                b = b.sum(y, keepdim=True, dtype=kind_of(b))
            else:
                a = a.sum(x, keepdim=True, dtype=kind_of(a))
    result = _tensordot(a, b, left, right)
    return result if out is None else copied_into(out, result, "tensordot")


def _paired_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, TensorCore):
        dims = dims._array.tolist()
    if isinstance(dims, (tuple, list)) and len(dims) == 2:
        left, right = ([each] if isinstance(each, int) else list(each) for each in dims)
        if len(left) != len(right):
            raise RuntimeError("both dimension lists should have same length")
        for each, tensor in ((left, a), (right, b)):
            for dim in each:
                wrap_dim(dim, tensor._array.ndim)
        return left, right
    count = dims[0] if isinstance(dims, (tuple, list)) else dims
    if count < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
    if count > min(a._array.ndim, b._array.ndim):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
    return list(range(-count, 0)), list(range(count))


def _tensordot(a: Tensor, b: Tensor, left: tuple[int, ...], right: tuple[int, ...]) -> Tensor:
    a_shape, b_shape = a._array.shape, b._array.shape
    rows = [dim for dim in range(len(a_shape)) if dim not in left]
    columns = [dim for dim in range(len(b_shape)) if dim not in right]
    inner = math.prod([a_shape[dim] for dim in left])
    tall = math.prod([a_shape[dim] for dim in rows])
    wide = math.prod([b_shape[dim] for dim in columns])
    multiply = mm if rows or columns else matrix_product  # autocast applies to matrix products, not to a dot product
    product = multiply(reshape_to(permuted(a, (*rows, *left)), (tall, inner)),
                       reshape_to(permuted(b, (*right, *columns)), (inner, wide)))  # fmt: skip
    return reshape_to(product, (*[a_shape[dim] for dim in rows], *[b_shape[dim] for dim in columns]))


@public
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sum of products over both last dims."""
    check_tensor(input, "inner")
    check_tensor(other, "inner", "other", 2)
    a, b = input._array.shape, other._array.shape
    if not a or not b:
        return mul(input, other, out=out)
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(a)} and {list(b)}"
        )
    return tensordot(input, other, ([-1], [-1]), out)


@public
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Every element of one tensor times the whole other, laid out in blocks."""
    check_tensor(input, "kron")
    check_tensor(other, "kron", "other", 2)
    a, b = input._array.shape, other._array.shape
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    outer = apply(shape_rules.unsafe_view, input, size=tuple([each for n in a for each in (n, 1)]))
    block = apply(shape_rules.unsafe_view, other, size=tuple([each for n in b for each in (1, n)]))
    result = apply(shape_rules.unsafe_view, mul(outer, block), size=tuple([n * m for n, m in zip(a, b, strict=True)]))
    return result if out is None else into(out, result.detach, (input, other), "kron")


# --- chains


@public
def linalg_multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Return the product of several matrices, in the order that takes the fewest multiplications."""
    given = list(tensors)
    count = len(given)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    for place, which in ((0, "first"), (count - 1, "last")):
        if given[place]._array.ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {given[place]._array.ndim}D")
    for place in range(1, count - 1):
        if given[place]._array.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {place} must be 2D but got {given[place]._array.ndim}D")
    for place in range(1, count):
        one, two = DTYPE_OF[given[0]._array.dtype], DTYPE_OF[given[place]._array.dtype]
        if one is not two:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype: 0 is {one.c_name}, {place} is {two.c_name}"
            )
    shape: list[int] = []
    if given[0]._array.ndim == 1:
        given[0] = unsqueeze(given[0], 0)
    else:
        shape.append(given[0]._array.shape[0])
    if given[-1]._array.ndim == 1:
        given[-1] = unsqueeze(given[-1], 1)
    else:
        shape.append(given[-1]._array.shape[1])
    for place in range(1, count):
        one, two = given[place - 1]._array.shape, given[place]._array.shape
        if one[1] != two[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {place - 1} and {place} with shapes {list(one)} and {list(two)} cannot be "
                "multiplied"
            )
    result = reshape_to(_chain(given), tuple(shape))
    return result if out is None else into(out, result.detach, given, "linalg_multi_dot")


def _chain(matrices: list[Any]) -> Tensor:
    """Return the product of matrices by the best of all ways to put brackets, found by dynamic programming."""
    sizes = [matrices[0]._array.shape[0], *[each._array.shape[1] for each in matrices]]
    count = len(matrices)
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for start in range(count - length):
            end = start + length
            options = [
                (cost[start][cut] + cost[cut + 1][end] + sizes[start] * sizes[cut + 1] * sizes[end + 1], cut)
                for cut in range(start, end)
            ]
            cost[start][end], split[start][end] = min(options)

    def product(start: int, end: int) -> Tensor:
        if start == end:
            return matrices[start]
        cut = split[start][end]
        return mm(product(start, cut), product(cut + 1, end))

    return product(0, count - 1)


@public
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """Return the product of several matrices."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot, "
        "which takes the matrices as one list."
    )
    for matrix in matrices:
        if matrix._array.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {matrix._array.ndim}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else linalg_multi_dot(matrices, out=out)


# --- others


@public
def linalg_vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Return the sum of conj(x) y along a dim."""
    for place, (argument, value) in enumerate({"x": x, "y": y}.items(), 1):
        check_tensor(value, "linalg_vecdot", argument, place)
    one, two = DTYPE_OF[x._array.dtype], DTYPE_OF[y._array.dtype]
    if one is not two:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, not {one.scalar_name} and {two.scalar_name}"
        )
    if x._array.ndim == 1 == y._array.ndim and x._array.shape == y._array.shape:
        result = vdot(x, y)
    else:
        result = mul(x.conj(), y).sum(dim)
    return result if out is None else into(out, result.detach, (x, y), "linalg_vecdot")


@public
def trace(input: Tensor) -> Tensor:
    """Return the sum of a matrix's diagonal."""
    check_tensor(input, "trace")
    if input._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input._array.ndim}")
    if input._array.dtype.kind == "b":
        raise no_kernel("trace", input)
    return apply(rules.trace, input)


@public
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Return the cross product along a dim of length 3."""
    check_tensor(input, "linalg_cross")
    check_tensor(other, "linalg_cross", "other", 2)
    a, b = input._array, other._array
    if a.ndim != b.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    place = wrap_dim(as_int(dim, "linalg_cross", "dim"), a.ndim)
    if a.shape[place] != 3 or b.shape[place] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[place]} and {b.shape[place]}"
        )
    check_scalar_types(input, other)
    if a.dtype.kind == "b":
        raise no_kernel("cross", input)
    return run("linalg_cross", out, rules.linalg_cross, input, other, dim=place)


@public
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the cross product along a dim of length 3: by default the first such dim."""
    check_tensor(input, "cross")
    check_tensor(other, "cross", "other", 2)
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nGive the dim: linalg.cross takes "
            "the last one by default, and this function the first of length 3."
        )
        places = [place for place, n in enumerate(input._array.shape) if n == 3]
        if not places:
            raise RuntimeError("no dimension of size 3 in input")
        dim = places[0]
    return linalg_cross(input, other, dim=dim, out=out)


@public
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of matrices."""
    check_tensor(A, "linalg_diagonal", "A")
    return diagonal(A, offset, dim1, dim2)


@public
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the powers 0 to N-1 of each element, as a new last dim."""
    check_tensor(x, "linalg_vander", "x")
    count = (x._array.shape[-1] if x._array.ndim else 1) if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    shape = x._array.shape
    kind = x._array.dtype if x._array.dtype.kind != "b" else np.dtype(np.int64)
    powers = expand_to(unsqueeze(x, -1), (*shape, count - 1)).cumprod(-1)
    return cat([wrap(np.ones((*shape, 1), kind)), powers], -1)


@public
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of each element of a vector as a row, largest first unless `increasing`."""
    check_tensor(x, "vander", "x")
    if x._array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._array.shape[0] if N is None else N
    if count <= 1:
        powers = wrap(np.ones((x._array.shape[0], count), x._array.dtype))
    else:
        powers = linalg_vander(x, N=count)
    return powers if increasing else powers.flip((-1,))


class ProductMethods:
    """Products as methods of a tensor."""

    __slots__ = ()

    inner, kron, trace, cross = inner, kron, trace, cross
