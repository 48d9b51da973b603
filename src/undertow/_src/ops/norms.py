"""Public norms of vectors and matrices, distances, and condition numbers' building blocks."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_int,
    broadcast_two,
    check_tensor,
    invalid_combination,
    is_int,
    must_be,
    no_kernel,
    wrap_dim,
)
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.broadcasting import unsqueeze
from undertow._src.ops.decompositions import linalg_svdvals
from undertow._src.ops.named import run
from undertow._src.ops.numbers import as_number, refuse_bools
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.reduce import amax, amin, folded_dims, sum
from undertow._src.ops.shape import permuted
from undertow._src.rules import vector_norm as rules
from undertow._src.types.dtypes import COMPLEX, DTYPE_OF, FLOATING, as_dtype, promote

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number, _size
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor


def _kind(input: Tensor) -> Any:
    return DTYPE_OF[input._array.dtype]


def _cast(input: Tensor, dtype: object, name: str) -> Tensor:
    """Return the input in the given dtype, which must not be narrower or of a different kind."""
    own = _kind(input)
    if own.category < FLOATING:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {own.scalar_name}")
    if dtype is None:
        return input
    wanted = as_dtype(dtype, name, "dtype")
    if wanted.category < FLOATING:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {wanted.scalar_name}")
    for kind, word in ((True, "complex"), (False, "real")):
        if (own.category == COMPLEX) is kind and (wanted.category == COMPLEX) is not kind:
            raise RuntimeError(f"{name}: dtype should be {word} for {word} inputs, but got {wanted.scalar_name}")
    if promote(own, wanted) is not wanted:
        raise RuntimeError(
            f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without narrowing to the "
            f"specified dtype ({wanted.scalar_name})"
        )
    return input if wanted is own else input.to(wanted)


@public
def linalg_vector_norm(
    input: Tensor, ord: Number | complex = 2, dim: int | _size | None = None, keepdim: bool = False, *,
    dtype: dtype | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(Σ |input|ᵖ) to the power 1/p over the given dims; the number of non-zeros for p = 0."""
    check_tensor(input, "linalg_vector_norm")
    ord = as_number(ord)
    if isinstance(ord, (str, bool)) or not isinstance(ord, (int, float)):
        raise must_be("Number", ord, "linalg_vector_norm", "ord", 2)
    return vector_norm(input, ord, dim, keepdim, dtype, out)


def vector_norm(
    x: Tensor, ord: float, dim: object, keepdim: bool, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    x = _cast(x, dtype, "linalg.vector_norm")
    dims = folded_dims(dim, x, "linalg_vector_norm")
    shape = x._array.shape
    if (ord < 0 or ord == inf) and 0 in shape:
        shown = f"{ord:g}"
        if dim is None or len(dims) == len(shape):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because "
                "none of its elements is the largest or smallest"
            )
        for each in dims:
            if shape[each] == 0:
                raise RuntimeError(
                    f"linalg.vector_norm cannot compute the {shown} norm on the dimension {each}, which "
                    "is empty: the norm of nothing is not defined"
                )
    return run("linalg_vector_norm", out, rules.linalg_vector_norm, x, ord=float(ord), dim=dims, keepdim=bool(keepdim))


def _matrix_norm(A: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if A._array.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    A = _cast(A, dtype, "linalg.matrix_norm")
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    rows, columns = (wrap_dim(each, A._array.ndim) for each in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        others = [each for each in range(A._array.ndim) if each not in (rows, columns)]
        order = (*others, rows, columns)
        values = linalg_svdvals(permuted(A, order))
        result = sum(values, -1) if ord == "nuc" else (amax if ord > 0 else amin)(values, -1)
        if keepdim:
            result = unsqueeze(unsqueeze(result, -1), -1)
            result = permuted(result, tuple(sorted(range(len(order)), key=order.__getitem__)))
        return result
    if ord in (1, -1, inf, -inf):
        along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
        if not keepdim and along < across:
            across -= 1
        return (amax if ord > 0 else amin)(vector_norm(A, 1, along, keepdim), across, keepdim)
    raise RuntimeError(f"linalg.matrix_norm: Order {ord if isinstance(ord, str) else f'{ord:g}'} not supported.")


def _finished(name: str, out: Any, compute: Callable[..., Any], inputs: tuple[Any, ...]) -> Tensor:
    return compute() if out is None else into(out, compute, inputs, name)


@overloaded
def linalg_matrix_norm(
    input: Tensor, ord: Number | complex | str = "fro", dim: int | _size = (-2, -1), keepdim: bool = False, *,
    dtype: dtype | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a norm of matrices: of elements ("fro"), singular values ("nuc", ±2), columns (±1) or rows (±inf)."""
    check_tensor(input, "linalg_matrix_norm")
    if not isinstance(dim, (tuple, list)):
        raise invalid_combination("linalg_matrix_norm", (input,), {"dim": dim})
    return _finished("linalg_matrix_norm", out, lambda: _matrix_norm(input, ord, dim, keepdim, dtype), (input,))


def _norm(A: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    ndim = A._array.ndim
    dims = None if dim is None else [dim] if is_int(dim) else list(dim)
    if ord is None and dims is None:
        return vector_norm(A, 2, None, keepdim, dtype)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2, not {dims}")
    if dims is None and ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must have one or two dims, not {ndim}."
        )
    if isinstance(ord, str):
        return _matrix_norm(A, ord, dims if dims is not None else (-2, -1), keepdim, dtype)
    if ord is not None and (len(dims) == 2 if dims is not None else ndim == 2):
        return _matrix_norm(A, ord, dims if dims is not None else (0, 1), keepdim, dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype)


@overloaded
def linalg_norm(
    input: Tensor, ord: Number | complex | str | None = None, dim: int | _size | None = None, keepdim: bool = False, *,
    out: Tensor | None = None, dtype: dtype | None = None,
) -> Tensor:  # fmt: skip
    """Return a norm of vectors or of matrices, depending on the order and the number of dims."""
    check_tensor(input, "linalg_norm")
    result = _norm(input, ord, dim, keepdim, dtype)
    return result if out is None else into(out, lambda: result, (), "linalg_norm")


@public
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Tensor:  # fmt: skip
    """Return a norm of a tensor's elements, or with p = "nuc" of matrices."""
    check_tensor(input, "norm")

    def compute() -> Tensor:
        if isinstance(p, str):
            few = dim is None or is_int(dim) or len(dim) <= 2
            if p == "fro" and few:
                return vector_norm(input, 2, dim, keepdim, dtype)
            dims = list(range(input._array.ndim)) if dim is None else [dim] if is_int(dim) else list(dim)
            return _matrix_norm(input, p, dims, keepdim, dtype)
        return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype)

    return _finished("norm", out, compute, (input,))


@public
def norm_method(
    self: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: dtype | None = None
) -> Tensor:
    """Return a norm of the elements, or with p = "nuc" of matrices."""
    return norm(self, p, dim, keepdim, dtype=dtype)


# --- distances


@public
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm of a difference."""
    check_tensor(input, "dist")
    check_tensor(other, "dist", "other", 2)
    broadcast_two(input._array.shape, other._array.shape)
    refuse_bools((input, other))
    if input._array.dtype.kind == "b":
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. `a ^ b` is true where they differ."
        )
    common = promote(DTYPE_OF[input._array.dtype], DTYPE_OF[other._array.dtype])
    if not (common.is_floating_point or common.is_complex):
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex, and that of dist's difference is {common}."
        )
    return apply(rules.dist, input, other, p=float(p))


@public
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return the p-norm of every row of x1 minus every row of x2."""
    a, b = x1._array, x2._array
    for name, given in (("X1", x1), ("X2", x2)):
        if _kind(given).category != FLOATING:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {_kind(given).scalar_name}")
    for name, array in (("X1", a), ("X2", b)):
        if array.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {array.ndim}D")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a.shape[-1]} X2: {b.shape[-1]}")
    return _cdist(x1, x2, p, compute_mode)


def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: str) -> Tensor:
    a, b = x1._array, x2._array
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    _check_batches(a.shape[:-2], b.shape[:-2])
    if a.dtype != b.dtype and a.size and b.size:
        if p == 2 and _by_products(compute_mode, a, b):
            names = _kind(x1).c_name, _kind(x2).c_name
            raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}")
        raise RuntimeError(f"expected scalar type {_kind(x1).scalar_name} but found {_kind(x2).scalar_name}")
    if a.dtype.kind not in "f" or a.itemsize < 4:
        raise no_kernel("cdist", x1)
    return apply(rules.cdist, x1, x2, p=float(p))


def _check_batches(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    for back, (n, m) in enumerate(zip(reversed(one), reversed(two), strict=False), 1):
        if n != m and 1 not in (n, m):
            raise RuntimeError(
                f"The size of tensor a ({n}) must match the size of tensor b ({m}) at the non-singleton dimension "
                f"{max(len(one), len(two)) - back}"
            )


def _by_products(compute_mode: str, a: Any, b: Any) -> bool:
    """Whether PyTorch computes Euclidean distances by a matrix product: if set to, or for many rows."""
    many = max(a.shape[-2], b.shape[-2]) > 25 and compute_mode == "use_mm_for_euclid_dist_if_necessary"
    return many or compute_mode == "use_mm_for_euclid_dist"


def _checked_renorm(input: Tensor, p: Any, dim: Any, maxnorm: Any) -> dict[str, Any]:
    check_tensor(input, "renorm")
    if input._array.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input._array.ndim} dimensions")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    place = wrap_dim(as_int(dim, "renorm", "dim", 3), input._array.ndim)
    return {"p": float(p), "dim": place, "maxnorm": float(maxnorm)}


@public
def renorm(
    input: Tensor, p: Number | complex, dim: int, maxnorm: Number | complex, *, out: Tensor | None = None
) -> Tensor:
    """Scale each slice along a dim down to a p-norm of at most maxnorm."""
    return run("renorm", out, rules.renorm, input, **_checked_renorm(input, p, dim, maxnorm))


@public
def renorm_(input: Tensor, p: Number | complex, dim: int, maxnorm: Number | complex) -> Tensor:
    """In-place renorm."""
    return apply_in_place(rules.renorm, input, **_checked_renorm(input, p, dim, maxnorm))


class NormMethods:
    """Norms as methods of a tensor."""

    __slots__ = ()

    norm, dist, renorm, renorm_ = norm_method, dist, renorm, renorm_
