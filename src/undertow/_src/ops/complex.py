"""Public functions that take complex numbers apart and put them together, and the methods made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.public import finish, public
from undertow._src.ops.slicing import select
from undertow._src.rules import complex as rules
from undertow._src.tensor.core import TensorCore, ndarray
from undertow._src.tensor.lazy_conj import reflect, reflections
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _is_complex(tensor: Tensor) -> bool:
    return tensor._array.dtype.kind == "c"


@public
def real(input: Any) -> Any:
    """Return a view of the real part; a real tensor itself."""
    check_tensor(input, "real")
    if not _is_complex(input):
        return input
    return select(apply(rules.view_as_real, conj(input) if is_conj(input) else input), input.dim(), 0)


@public
def imag(input: Any) -> Any:
    """Return a view of the imaginary part of a complex tensor."""
    check_tensor(input, "imag")
    if not _is_complex(input):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if is_conj(input):
        return select(_neg_view(apply(rules.view_as_real, conj(input))), input.dim(), 1)
    return select(apply(rules.view_as_real, input), input.dim(), 1)


@public
def conj(input: Tensor) -> Tensor:
    """Return the conjugate, as a view; a real tensor itself."""
    check_tensor(input, "conj")
    return _mirrored(rules.conj_view, input, np.conjugate) if _is_complex(input) else input


def conjugate(input: Tensor) -> Tensor:
    """Return the conjugate for use in other functions: no view."""
    return apply(rules.conj, input) if _is_complex(input) else input


@public
def _neg_view(self: Tensor) -> Tensor:
    """Return the negative, as a view."""
    return _mirrored(rules.neg_view, self, np.negative)


def _mirrored(rule: Any, input: Tensor, function: object) -> Tensor:
    """Return a view that mirrors the input through a function."""
    result = apply(rule, input)
    if type(input._array) is ndarray:
        result._array = reflect(input._array, function)
    return result


@public
def is_conj(input: Tensor) -> bool:
    """Whether a tensor is a conjugate view."""
    return _is_complex(input) and reflections(input._array).count(np.conjugate) % 2 == 1


@public
def is_neg(input: Tensor) -> bool:
    """Whether a tensor is a negative view, as the imaginary part of a conjugate is."""
    return reflections(input._array).count(np.negative) % 2 == 1


@public
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the conjugate, as a new tensor."""
    check_tensor(input, "conj_physical")
    if out is None and input._array.dtype.kind != "c":
        return input
    return finish(rules.conj_physical, (input,), out)


@public
def conj_physical_(self: Tensor) -> Tensor:
    """In-place conjugate."""
    return apply_in_place(rules.conj_physical_, self)


@public
def resolve_conj(input: Tensor) -> Tensor:
    """Return a conjugate view as a conjugated copy."""
    check_tensor(input, "resolve_conj")
    return input.clone() if is_conj(input) else input  # a copy is no mirror


@public
def resolve_neg(input: Tensor) -> Tensor:
    """Return a negative view as a negated copy."""
    check_tensor(input, "resolve_neg")
    return input.clone() if is_neg(input) else input


@public
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the angle in the complex plane, in radians."""
    check_tensor(input, "angle")
    return finish(rules.angle, (input,), out)


@public
def view_as_real(input: Tensor) -> Tensor:
    """Return a view of complex numbers as pairs of real ones along a new last dim."""
    check_tensor(input, "view_as_real")
    if not _is_complex(input):
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if is_conj(input):
        raise RuntimeError("view_as_real doesn't work on unresolved conjugated tensors.  Call resolve_conj() first.")
    return apply(rules.view_as_real, input)


@public
def view_as_complex(input: Tensor) -> Tensor:
    """Return a view of pairs of real numbers along the last dim as complex ones."""
    check_tensor(input, "view_as_complex")
    array, kind = input._array, DTYPE_OF[input._array.dtype]
    if array.dtype.kind != "f":
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, not for {kind.scalar_name}"
        )
    if array.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if array.strides[-1] != array.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(stride % (2 * array.itemsize) for stride in array.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    if kind.itemsize == 2:
        raise no_kernel("view_as_complex", input)
    return apply(rules.view_as_complex, input)


def _check_parts(one: Tensor, two: Tensor) -> None:
    kinds = [DTYPE_OF[part._array.dtype] for part in (one, two)]
    if any(part._array.dtype.kind != "f" for part in (one, two)):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{kinds[0].scalar_name} and {kinds[1].scalar_name}"
        )
    if kinds[0] is not kinds[1]:
        raise RuntimeError(
            f"Expected object of scalar type {kinds[0].scalar_name} but got scalar type {kinds[1].scalar_name} for "
            "second argument"
        )


@public
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i·imag."""
    check_tensor(real, "complex", "real")
    check_tensor(imag, "complex", "imag", 2)
    _check_parts(real, imag)
    return finish(rules.complex, (real, imag), out)


@public
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the complex number of a magnitude and an angle."""
    check_tensor(abs, "polar", "abs")
    check_tensor(angle, "polar", "angle", 2)
    _check_parts(abs, angle)
    return finish(rules.polar, (abs, angle), out)


class ComplexMethods:
    """Parts of complex numbers as properties and methods of a tensor."""

    __slots__ = ()

    conj, conj_physical, conj_physical_, angle = conj, conj_physical, conj_physical_, angle
    is_conj, is_neg, resolve_conj, resolve_neg = is_conj, is_neg, resolve_conj, resolve_neg

    @property
    def real(self) -> Any:
        """A view of the real part."""
        return real(self)

    @real.setter
    def real(self, value: object) -> None:
        real(self).copy_(value if isinstance(value, TensorCore) else _like(self, value))

    @property
    def imag(self) -> Any:
        """A view of the imaginary part."""
        return imag(self)

    @imag.setter
    def imag(self, value: object) -> None:
        imag(self).copy_(value if isinstance(value, TensorCore) else _like(self, value))


def _like(self: Any, value: Any) -> Any:
    return real(self).detach().mul(0).add(value)
