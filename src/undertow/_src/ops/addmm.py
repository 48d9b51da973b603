"""Public functions that add a product of matrices to something: addmm and its relatives, also in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.engine.arguments import check_tensor, no_kernel, scalar_name
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.matmul import (
    added_product,
    check_addmm,
    check_batches,
    check_expandable,
    check_scalar_types,
    factors,
    kind_of,
)
from undertow._src.ops.named import run
from undertow._src.ops.public import overloaded
from undertow._src.rules import linalg as rules

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor


@overloaded
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """beta input + alpha mat1 @ mat2."""
    return added_product(input, mat1, mat2, beta, alpha, out)


@overloaded
def addmm_(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1
) -> Tensor:
    """In-place addmm."""
    statics = check_addmm(input, mat1, mat2, beta, alpha)
    _check_in_place(input, (mat1._array.shape[0], mat2._array.shape[1]))
    return apply_in_place(rules.addmm, input, mat1, mat2, **statics)


def _check_in_place(input: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a target that does not have the size of the product."""
    if input._array.shape != shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(input._array.shape)} and output tensor size {list(shape)} should "
            "match"
        )


def _checked_baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta: object, alpha: object) -> dict[str, Any]:
    for place, (name, given) in enumerate((("input", input), ("batch1", batch1), ("batch2", batch2))):
        check_tensor(given, "baddbmm", name, place + 1)
    a, b = batch1._array.shape, batch2._array.shape
    _check_batch("batch1", a)
    _check_batch("batch2", b)
    check_batches(a, b)
    check_expandable(input._array.shape, (a[0], a[1], b[2]), input)
    check_scalar_types(batch1, batch2)
    check_scalar_types(input, batch2)
    if batch1._array.dtype.kind == "b":
        raise no_kernel("baddbmm", batch1)
    beta, alpha = factors("baddbmm", input, beta, alpha)
    return {"beta": beta, "alpha": alpha}


@overloaded
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """beta input + alpha batch1 @ batch2, for stacks of matrices."""
    statics = _checked_baddbmm(input, batch1, batch2, beta, alpha)
    return run("baddbmm", out, rules.baddbmm, input, batch1, batch2, **statics)


@overloaded
def baddbmm_(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1
) -> Tensor:
    """In-place baddbmm."""
    statics = _checked_baddbmm(input, batch1, batch2, beta, alpha)
    _check_in_place(input, (*batch1._array.shape[:2], batch2._array.shape[2]))
    return apply_in_place(rules.baddbmm, input, batch1, batch2, **statics)


def _check_batch(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(shape)}, {len(shape) - 1}], but got {len(shape)}): "
            f"{name} must be a 3D tensor"
        )
    if len(shape) != 3:
        raise RuntimeError(f"{name} must be a 3D tensor")


def _checked_addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta: object, alpha: object) -> dict[str, Any]:
    a, b = batch1._array.shape, batch2._array.shape
    for name, shape in (("batch1", a), ("batch2", b)):
        _check_batch(name, shape)
    if a[0] != b[0]:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {a[0]} and {b[0]}")
    check_expandable(input._array.shape, (a[1], b[2]), input)
    if a[2] != b[1]:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({a[1]}x{a[2]} and {b[1]}x{b[2]})")
    check_scalar_types(batch1, batch2)
    beta, alpha = factors("addbmm", input, beta, alpha)
    return {"beta": beta, "alpha": alpha}


@overloaded
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """beta input + alpha Σ batch1 @ batch2 over a stack."""
    statics = _checked_addbmm(input, batch1, batch2, beta, alpha)
    return run("addbmm", out, rules.addbmm, input, batch1, batch2, **statics)


@overloaded
def addbmm_(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1
) -> Tensor:
    """In-place addbmm."""
    return apply_in_place(rules.addbmm, input, batch1, batch2, **_checked_addbmm(input, batch1, batch2, beta, alpha))


def _checked_addmv(input: Tensor, mat: Tensor, vec: Tensor, beta: object, alpha: object) -> dict[str, Any]:
    c, a, b = input._array, mat._array, vec._array
    if a.ndim != 2 or b.ndim != 1 or c.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {c.ndim}, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0] or (c.ndim and c.shape[0] not in (1, a.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({c.shape[0] if c.ndim else 1}), mat ({a.shape[0]}x{a.shape[1]}), "
            f"vec ({b.shape[0]})"
        )
    if not kind_of(input) is kind_of(mat) is kind_of(vec):
        names = f"{scalar_name(input)}, {scalar_name(mat)}, and {scalar_name(vec)}"
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names}")
    beta, alpha = factors("addmv", input, beta, alpha)
    return {"beta": beta, "alpha": alpha}


@overloaded
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """beta input + alpha mat @ vec."""
    return run("addmv", out, rules.addmv, input, mat, vec, **_checked_addmv(input, mat, vec, beta, alpha))


@overloaded
def addmv_(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1
) -> Tensor:
    """In-place addmv."""
    statics = _checked_addmv(input, mat, vec, beta, alpha)
    _check_in_place(input, mat._array.shape[:1])
    return apply_in_place(rules.addmv, input, mat, vec, **statics)


def _checked_addr(input: Tensor, vec1: Tensor, vec2: Tensor, beta: object, alpha: object) -> dict[str, Any]:
    for name, given in (("vec1", vec1), ("vec2", vec2)):
        if given._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {given._array.ndim}-D")
    check_expandable(input._array.shape, (vec1._array.size, vec2._array.size), input)
    if input._array.dtype.kind in "iu":
        for name, value in (("beta", beta), ("alpha", alpha)):
            if isinstance(value, float):
                raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    return {"beta": beta, "alpha": alpha}


@overloaded
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """beta input + alpha times the outer product of two vectors."""
    return run("addr", out, rules.addr, input, vec1, vec2, **_checked_addr(input, vec1, vec2, beta, alpha))


@overloaded
def addr_(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number | complex = 1, alpha: Number | complex = 1
) -> Tensor:
    """In-place addr."""
    return apply_in_place(rules.addr, input, vec1, vec2, **_checked_addr(input, vec1, vec2, beta, alpha))


class AddmmMethods:
    """Sums with products as methods of a tensor."""

    __slots__ = ()

    addmm, addmv, addr, addbmm, baddbmm = addmm, addmv, addr, addbmm, baddbmm
    addmm_, addmv_, addr_, addbmm_, baddbmm_ = addmm_, addmv_, addr_, addbmm_, baddbmm_
