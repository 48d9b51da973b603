"""Public products of two vectors, matrices or stacks of matrices, composed as PyTorch composes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.array import lying
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    broadcast_two,
    check_tensor,
    invalid_combination,
    must_be,
    no_kernel,
    scalar_name,
)
from undertow._src.engine.outputs import into
from undertow._src.ops.arithmetic import add, mul
from undertow._src.ops.broadcasting import expand_to, squeeze, unsqueeze
from undertow._src.ops.named import run
from undertow._src.ops.numbers import as_number
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.shape import reshape_to, t, transpose
from undertow._src.ops.views import view_of
from undertow._src.overrides import torch_function
from undertow._src.rules import arrange
from undertow._src.rules import linalg as rules
from undertow._src.rules import reduce as reduce_rules
from undertow._src.rules import shape as shape_rules
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def kind_of(input: Tensor) -> Any:
    return DTYPE_OF[input._array.dtype]


def flipped(array: Any) -> bool:
    """Whether a matrix (or each of a stack) is transposed in memory."""
    strides = array.strides
    return strides[-2] < strides[-1] and array.ndim >= 2


# --- products of two


@overloaded
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of two matrices."""
    check_tensor(input, "mm")
    check_tensor(mat2, "mm", "mat2", 2)
    return matrix_product(input, mat2, out)


def matrix_product(input: Tensor, mat2: Tensor, out: Tensor | None = None) -> Tensor:
    a, b = input._array, mat2._array
    if a.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if b.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise cannot_multiply(a.shape, b.shape)
    if a.dtype is not b.dtype:
        _check_same(input, mat2)
    if a.dtype.kind == "b":
        raise no_kernel("addmm_impl_cpu_", input)
    sides = (flipped(a), flipped(b))
    return rules.mm.run(input, mat2, flipped=sides) if out is None else run(
        "mm", out, rules.mm, input, mat2, flipped=sides)  # fmt: skip


def cannot_multiply(a: tuple[int, ...], b: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})")


def _check_same(input: Tensor, other: Tensor) -> None:
    one, two = kind_of(input), kind_of(other)
    if one is not two:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {one.c_name} != {two.c_name}")


def check_scalar_types(input: Tensor, other: Tensor) -> None:
    """Refuse two different dtypes."""
    if kind_of(input) is not kind_of(other):
        raise RuntimeError(f"expected scalar type {scalar_name(input)} but found {scalar_name(other)}")


@overloaded
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the products of two stacks of matrices."""
    check_tensor(input, "bmm")
    check_tensor(mat2, "bmm", "mat2", 2)
    return stack_product(input, mat2, out)


def stack_product(input: Tensor, mat2: Tensor, out: Tensor | None = None) -> Tensor:
    a, b = input._array, mat2._array
    check_batches(a.shape, b.shape)
    check_scalar_types(input, mat2)
    if a.dtype.kind == "b":
        raise no_kernel("bmm", input)
    return run("bmm", out, rules.bmm, input, mat2, flipped=(flipped(a), flipped(b)))


def check_batches(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for name, shape in (("batch1", a), ("batch2", b)):
        if len(shape) != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if (a[0], a[2]) != b[:2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: [{b[0]}, {b[1]}]."
        )


@public
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of a matrix and a vector."""
    check_tensor(input, "mv")
    check_tensor(vec, "mv", "vec", 2)
    a, b = input._array, vec._array
    if a.ndim != 2 or b.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
        )
    if kind_of(input) is not kind_of(vec):
        other = scalar_name(vec)
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {other}, {scalar_name(input)}, and {other}"
        )
    if a.dtype.kind == "b":
        raise no_kernel("addmv_impl_cpu", input)
    return run("mv", out, rules.mv, input, vec)


def _check_vectors(input: Tensor, other: Tensor) -> None:
    a, b = input._array, other._array
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if kind_of(input) is not kind_of(other):
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {scalar_name(input)} and {scalar_name(other)}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number of "
            f"elements"
        )
    if a.dtype.kind == "b":
        raise no_kernel("dot", input)


@public
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sum of the products of two vectors' elements."""
    check_tensor(input, "dot")
    check_tensor(tensor, "dot", "tensor", 2)
    _check_vectors(input, tensor)
    return run("dot", out, rules.dot, input, tensor)


@public
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the dot product with the first vector's conjugate."""
    check_tensor(input, "vdot")
    check_tensor(other, "vdot", "other", 2)
    _check_vectors(input, other)
    return run("vdot", out, rules.vdot, input, other)


@public
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Every product of an element of one vector with one of another."""
    check_tensor(input, "outer")
    check_tensor(vec2, "outer", "vec2", 2)
    for name, given in (("self", input), ("vec2", vec2)):
        if given._array.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {given._array.ndim}-D")
    return mul(reshape_to(input, (-1, 1)) if input._array.size else unsqueeze(input, 1), vec2, out=out)


@public
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`outer`, under its old name."""
    if out is not None:
        warn("torch.ger is deprecated and will be removed in a future PyTorch release: torch.outer is its new name.")
    return outer(input, vec2, out=out)


# --- matmul: the product of whatever has at least one dim


@public
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return the matrix product of two tensors: vectors, matrices, or stacks of matrices that broadcast."""
    if not (isinstance(input, TensorCore) and isinstance(other, TensorCore)):
        check_tensor(input, "matmul")
        check_tensor(other, "matmul", "other", 2)
    if out is None:
        return product(input, other)
    name = "matmul of matrices" if input._array.ndim == 2 == other._array.ndim else "matmul"
    return into(out, lambda: product(input, other), (input, other), name)


def product(input: Tensor, other: Tensor) -> Tensor:
    a, b = input._array, other._array
    if a.ndim == 2 == b.ndim:
        return matrix_product(input, other)
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    if b.ndim == 1 and a.ndim <= 2:
        return mv(input, other) if a.ndim == 2 else dot(input, other)
    if a.ndim == 1 and b.ndim == 2:
        product = matrix_product(unsqueeze(input, 0), other)
        return apply(reduce_rules.squeeze_in_place, product, size=product._array.shape[1:])
    if a.ndim == 3 == b.ndim and (a.shape[0] == 1) != (b.shape[0] == 1):  # one matrix for the whole stack
        if a.shape[0] == 1:
            input = squeeze(input, 0)
        else:
            other = squeeze(other, 0)
        return _folded(input, other)
    if _should_fold(input, other):
        return _folded(input, other)
    return _batched(input, other)


def _should_fold(input: Tensor, other: Tensor) -> bool:
    """Whether a stack times one matrix (or vector) becomes a single product of two matrices."""
    a, b = input._array, other._array
    larger, smaller = (a, other) if a.ndim >= b.ndim else (b, input)
    if larger.ndim < 3 or smaller._array.ndim > 2:
        return False
    if smaller._requires_grad:
        return True
    if a.ndim == 2:
        return False
    return larger.flags.c_contiguous or all(
        larger.strides[axis] == larger.strides[axis + 1] * larger.shape[axis + 1] for axis in range(larger.ndim - 2)
    )


def _folded(input: Tensor, other: Tensor) -> Tensor:
    """Return the rows of a whole stack as one tall matrix."""
    a, b = input._array, other._array
    if a.ndim >= b.ndim:
        tall = reshape_to(input, (math.prod(a.shape[:-1]), a.shape[-1]))
        if b.ndim == 1:
            return apply(shape_rules.unsafe_view, mv(tall, other), size=a.shape[:-1])
        return apply(shape_rules.unsafe_view, matrix_product(tall, other), size=(*a.shape[:-1], b.shape[-1]))
    turned = transpose(other, -2, -1)
    shape = turned._array.shape
    tall = reshape_to(turned, (math.prod(shape[:-1]), shape[-1]))
    if a.ndim == 1:
        return apply(shape_rules.unsafe_view, mv(tall, input), size=shape[:-1])
    product = apply(shape_rules.unsafe_view, matrix_product(tall, t(input)), size=(*shape[:-1], a.shape[0]))
    result = transpose(product, -2, -1)
    return result if a.shape[0] == 1 else apply(arrange.contiguous, result)


def _batched(input: Tensor, other: Tensor) -> Tensor:
    """Stacks of matrices, broadcast to each other, as one stack each."""
    a, b = input._array.shape, other._array.shape
    if len(a) == 1:
        return _without(_batched(unsqueeze(input, 0), other), -2)
    if len(b) == 1:
        return _without(_batched(input, unsqueeze(other, 1)), -1)
    batch = broadcast_two(a[:-2], b[:-2])
    count = math.prod(batch)
    left = reshape_to(_stretched(input, batch), (count, *a[-2:]))
    right = reshape_to(_stretched(other, batch), (count, *b[-2:]))
    return apply(shape_rules.unsafe_view, stack_product(left, right), size=(*batch, a[-2], b[-1]))


def _stretched(input: Tensor, batch: tuple[int, ...]) -> Tensor:
    array = input._array
    shape = (*batch, *array.shape[-2:])
    if array.shape == shape:
        return view_of(shape_rules.expand, input, lying(array).view(), {"size": shape})
    return expand_to(input, shape)


def _without(result: Any, dim: int) -> Tensor:
    shape = list(result._array.shape)
    del shape[dim]
    return apply(shape_rules.unsafe_view, result, size=tuple(shape))


# --- a product added to something


def factors(name: str, input: Tensor, beta: Any, alpha: Any) -> tuple[Any, Any]:
    beta, alpha = as_number(beta), as_number(alpha)
    for given, value in (("beta", beta), ("alpha", alpha)):
        if not isinstance(value, (int, float, complex)):
            raise invalid_combination(name, (input,), {given: value})
    return (int(beta), int(alpha)) if input._array.dtype.kind in "iu" else (beta, alpha)


def check_expandable(shape: tuple[int, ...], target: tuple[int, ...], input: Tensor) -> None:
    if len(shape) > len(target):
        raise RuntimeError(
            f"expand(torch.{scalar_name(input)}Tensor{{{list(shape)}}}, size={list(target)}): the number of sizes "
            f"provided ({len(target)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    for back in range(1, len(shape) + 1):
        if shape[-back] not in (1, target[-back]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[-back]}) must match the existing size ({shape[-back]}) at "
                f"non-singleton dimension {len(target) - back}.  Target sizes: {list(target)}.  Tensor sizes: "
                f"{list(shape)}"
            )


def check_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: object, alpha: object) -> dict[str, Any]:
    if not (isinstance(input, TensorCore) and isinstance(mat1, TensorCore) and isinstance(mat2, TensorCore)):
        for place, (name, given) in enumerate((("input", input), ("mat1", mat1), ("mat2", mat2))):
            check_tensor(given, "addmm", name, place + 1)
    a, b = mat1._array, mat2._array
    if a.ndim != 2 or b.ndim != 2:
        name, array = ("mat1", a) if a.ndim != 2 else ("mat2", b)
        raise RuntimeError(f"{name} must be a matrix, got {array.ndim}-D tensor")
    if a.shape[1] != b.shape[0]:
        raise cannot_multiply(a.shape, b.shape)
    if input._array.dtype is not b.dtype or a.dtype is not b.dtype:
        for name, given in (("self", input), ("mat1", mat1)):
            if kind_of(given) is not kind_of(mat2):
                raise RuntimeError(
                    f"{name} and mat2 must have the same dtype, but got {scalar_name(given)} and {scalar_name(mat2)}"
                )
    shape = input._array.shape
    if shape != b.shape[1:]:
        check_expandable(shape, (a.shape[0], b.shape[1]), input)
    if a.dtype.kind == "b":
        raise no_kernel("addmm_impl_cpu_", mat1)
    if beta != 1 or alpha != 1 or type(beta) is not int or type(alpha) is not int:
        beta, alpha = factors("addmm", input, beta, alpha)
    return {"beta": beta, "alpha": alpha, "flipped": (flipped(a), flipped(b))}


def added_product(
    input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """addmm."""
    statics = check_addmm(input, mat1, mat2, beta, alpha)
    if out is None:
        return rules.addmm.run(input, mat1, mat2, **statics)
    return run("addmm", out, rules.addmm, input, mat1, mat2, **statics)


# --- linear layers


@public
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input @ weightᵀ + bias, over the last dim."""
    for place, given in enumerate((input, weight) if bias is None else (input, weight, bias)):
        if not isinstance(given, TensorCore):
            raise must_be("Tensor", given, "linear", ("input", "weight", "bias")[place], place + 1)
    if out is not None:
        return into(out, lambda: linear(input, weight, bias), (input, weight, bias), "linear")
    a = input._array
    if a.ndim == 0 or weight._array.ndim == 0:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {a.ndim}D and {weight._array.ndim}D"
        )
    w, rows = weight._array, None
    if bias is not None and a.ndim != 2 and a.flags.c_contiguous and bias._array.ndim == 1:
        rows = reshape_to(input, (math.prod(a.shape[:-1]), a.shape[-1]))
    turned = view_of(shape_rules.t, weight, lying(w).T, {}) if w.ndim == 2 else t(weight)
    if bias is None:
        return product(input, turned)
    if rows is not None:
        result = added_product(bias, rows, turned)
        return reshape_to(result, (*a.shape[:-1], result._array.shape[1]))
    return added_product(bias, input, turned) if a.ndim == 2 else add(product(input, turned), bias)


class MatmulMethods:
    """Products as methods of a tensor."""

    __slots__ = ()

    mm, bmm, mv, dot, vdot, outer, ger, matmul = mm, bmm, mv, dot, vdot, outer, ger, matmul

    def __matmul__(self, other: object) -> Tensor:
        if not isinstance(other, TensorCore) and not torch_function.overrides(other):
            return NotImplemented
        return self.matmul(other)  # the method, so that overrides are shown Tensor.matmul

    def __rmatmul__(self, other: object) -> Any:
        if not isinstance(other, TensorCore) and not torch_function.overrides(other):
            return NotImplemented
        return matmul(other, self)
