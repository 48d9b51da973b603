"""Public functions that give a tensor a different shape, or its dims a different order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.array import lying
from undertow._src.arrays.numpy.shape import is_plain, restride, view_strides
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_int,
    as_ints,
    check_tensor,
    invalid_combination,
    is_int,
    is_listed_int,
    only_named,
    spread_ints,
    wrap_dim,
)
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.views import apply_view_in_place, view_of
from undertow._src.rules import arrange, convert
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import Rule, op, twin
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, as_dtype, dtype

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

# --- new shapes for the same elements


def infer_size(size: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return a size for this number of elements, with its one -1 filled in."""
    known, inferred = 1, None
    for place, n in enumerate(size):
        if n >= 0:
            known *= n
        elif n != -1:
            raise RuntimeError(f"invalid shape dimension {n} at index {place} of shape {list(size)}")
        elif inferred is not None:
            raise RuntimeError("only one dimension can be inferred")
        else:
            inferred = place
    if inferred is None:
        if known == count:
            return size
    elif known > 0 and count % known == 0:
        return size[:inferred] + (count // known,) + size[inferred + 1 :]
    elif known == 0 and count == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because any number would fit in place of -1"
        )
    raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")


def _strided_view(input: Tensor, size: tuple[int, ...], rule: Rule) -> Any | None:
    """Return a view of a tensor that is not contiguous, or None where its strides don't allow it."""
    array = lying(input._array)
    strides = view_strides(array, size)
    if strides is None:
        return None
    return view_of(rule, input, restride(array, size, strides), {"size": size})


def reshape_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """`reshape` to a size of which one number may be -1."""
    array = lying(input._array)
    size = infer_size(size, array.size)
    if is_plain(array):
        return view_of(rules.view, input, array.reshape(size), {"size": size})
    result = _strided_view(input, size, rules.view if array.flags.c_contiguous else rules.reshape_alias)
    return result if result is not None else apply(rules.unsafe_view, apply(arrange.contiguous, input), size=size)


def view_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """`view` with a size of which one number may be -1."""
    array = lying(input._array)
    size = infer_size(size, array.size)
    if is_plain(array):
        return view_of(rules.view, input, array.reshape(size), {"size": size})
    result = _strided_view(input, size, rules.view)
    if result is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at some dimension it spans two parts of "
            "memory). Use .reshape(...) instead, which copies."
        )
    return result


@public
def reshape(input: Tensor, shape: _size) -> Tensor:
    """Another shape for the same elements: a view where memory allows it, else a copy."""
    check_tensor(input, "reshape")
    return reshape_to(input, as_ints(shape, "reshape", "shape", 2))


@public
def reshape_method(self: Tensor, *shape: object, **named: object) -> Tensor:
    """Another shape for the same elements: a view where memory allows it, else a copy."""
    if named:
        shape = (*shape, *only_named(named, "reshape", "shape"))
    return reshape_to(self, spread_ints(shape, "reshape", "shape"))


_NUMBERS = (bool, int, float, complex)  # Python's types, which stand for dtypes


@public
def view(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """Return a view in a different shape, or of a different dtype."""
    if named:
        size = (*size, *named.values())
    if len(size) == 1 and (isinstance(size[0], dtype) or (isinstance(size[0], type) and size[0] in _NUMBERS)):
        return view_dtype(self, as_dtype(size[0], "view", "dtype"))
    if not size or not (is_listed_int(size[0]) or (len(size) == 1 and isinstance(size[0], (tuple, list)))):
        raise invalid_combination("view", size)
    return view_to(self, spread_ints(size, "view", "size"))


_view_bits = op("view", lambda xp, self, *, dtype: self.view(dtype), view=True)


def view_dtype(input: Tensor, kind: dtype) -> Tensor:
    """Return `view_bits` outside the graph: to autograd these are different numbers."""
    result = view_bits(input, kind)
    result._view = None
    return result


def view_bits(input: Tensor, kind: dtype) -> Tensor:
    """Return the same bits as numbers of a different dtype; the last dim grows or shrinks with the element size."""
    array = input._array
    have, want = array.itemsize, kind.numpy.itemsize
    own = DTYPE_OF[array.dtype]
    if have != want:
        if not array.ndim:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {own.scalar_name} as {kind.scalar_name} (different element sizes)"
            )
        if want > have and (array.shape[-1] * have) % want:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {want // have} to view {own.scalar_name} as {kind.scalar_name} "
                f"(different element sizes), but got {array.shape[-1]}"
            )
        if array.shape[-1] > 1 and array.strides[-1] != have:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {own.scalar_name} as {kind.scalar_name} (different element sizes), "
                f"but got {array.strides[-1] // have}"
            )
    return apply(_view_bits, input, dtype=kind.numpy)


@public
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view` in another tensor's shape."""
    check_tensor(other, "view_as", "other")
    return view_to(self, other._array.shape)


@public
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape` in another tensor's shape."""
    check_tensor(other, "reshape_as", "other")
    return reshape_to(self, other._array.shape)


@public
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Several neighbouring dims as one."""
    check_tensor(input, "flatten")
    shape = input._array.shape
    ndim = len(shape)
    start = wrap_dim(as_int(start_dim, "flatten", "start_dim", 2), ndim)
    end = wrap_dim(as_int(end_dim, "flatten", "end_dim", 3), ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not ndim:
        return reshape_to(input, (1,))
    if start == end:
        return input
    middle = 1
    for n in shape[start : end + 1]:
        middle *= n
    return reshape_to(input, (*shape[:start], middle, *shape[end + 1 :]))


@public
def ravel(input: Tensor) -> Tensor:
    """All elements as one dim."""
    check_tensor(input, "ravel")
    return view_to(input if lying(input._array).flags.c_contiguous else apply(arrange.contiguous, input), (-1,))


@public
def unflatten(input: Tensor, dim: int, sizes: _size) -> Tensor:
    """One dim as several."""
    check_tensor(input, "unflatten")
    shape = input._array.shape
    place = wrap_dim(as_int(dim, "unflatten", "dim", 2), len(shape))
    wanted = as_ints(sizes, "unflatten", "sizes", 3)
    if not shape:
        raise RuntimeError("unflatten got an unexpected error:\na tensor without dims has none to unflatten")
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        sizes = infer_size(wanted, shape[place])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {place} ({shape[place]}) in "
            "the input tensor"
        ) from None
    return view_to(input, (*shape[:place], *sizes, *shape[place + 1 :]))


# --- new order for the same dims


def permuted(input: Any, dims: tuple[int, ...]) -> Any:
    ndim = input._array.ndim
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the list: "
            f"it has {ndim}, and {len(dims)} are given"
        )
    order = tuple([wrap_dim(dim, ndim) for dim in dims])
    if len(set(order)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return view_of(rules.permute, input, lying(input._array).transpose(order), {"dims": order})


@public
def permute(input: Tensor, dims: _size) -> Tensor:
    """Return a view with its dims in another order."""
    check_tensor(input, "permute")
    return permuted(input, as_ints(dims, "permute", "dims", 2))


@public
def permute_method(self: Tensor, *dims: object, **named: object) -> Tensor:
    """Return a view with its dims in another order."""
    if named:
        dims = (*dims, *only_named(named, "permute", "dims"))
    return permuted(self, spread_ints(dims, "permute", "dims"))


@public
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Return a view with two dims swapped."""
    check_tensor(input, "transpose")
    array = lying(input._array)
    ndim = array.ndim
    dim0 = wrap_dim(as_int(dim0, "transpose", "dim0", 2), ndim)
    dim1 = wrap_dim(as_int(dim1, "transpose", "dim1", 3), ndim)
    value = array.swapaxes(dim0, dim1) if ndim else array.view()
    return view_of(rules.transpose, input, value, {"dim0": dim0, "dim1": dim1})


@public
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with two dims swapped."""
    return transpose(input, axis0, axis1)


@public
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dims swapped."""
    return transpose(input, dim0, dim1)


@public
def t(input: Tensor) -> Tensor:
    """Return a matrix transposed; a tensor of fewer dims as it is."""
    check_tensor(input, "t")
    if input._array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D")
    return view_of(rules.t, input, lying(input._array).transpose(), {})


@public
def adjoint(input: Tensor) -> Tensor:
    """Matrices transposed and conjugated."""
    check_tensor(input, "adjoint")
    return _adjoint(input, "adjoint()")


def _adjoint(input: Any, name: str) -> Any:
    if input._array.ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    turned = transpose(input, -2, -1) if input._array.ndim else input
    return turned.conj() if input._array.dtype.kind == "c" else turned


@overloaded
def movedim(input: Tensor, source: object, destination: object) -> Tensor:
    """Return a view with some dims at other places, the rest in their order."""
    check_tensor(input, "movedim")
    ndim = input._array.ndim
    if is_int(source) and is_int(destination):
        source, destination = (source,), (destination,)
    elif not (isinstance(source, (tuple, list)) and isinstance(destination, (tuple, list))):
        raise invalid_combination("movedim", (source, destination))
    sources, targets = as_ints(source, "movedim", "source", 2), as_ints(destination, "movedim", "destination", 3)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same number "
            f"of dims as destination ({list(targets)} dims)"
        )
    moved, places = [wrap_dim(dim, ndim) for dim in sources], [wrap_dim(dim, ndim) for dim in targets]
    for name, dims, given in (("source", moved, sources), ("destination", places, targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not ndim:
        return apply(convert.alias, input)
    order: list[int] = [-1] * ndim
    for dim, place in zip(moved, places, strict=True):
        order[place] = int(dim)
    rest = iter([dim for dim in range(ndim) if dim not in moved])
    return permuted(input, tuple([next(rest) if dim < 0 else dim for dim in order]))


@public
def moveaxis(input: Tensor, source: int | _size, destination: int | _size) -> Tensor:
    """Return a view with some dims at other places, the rest in their order."""
    return movedim(input, source, destination)


# PyTorch numbers the nodes of views that are taken in place on.
_t_in_place = twin(rules.t, "TBackward1", view=True)
_transpose_in_place = twin(rules.transpose, "TransposeBackward1", view=True)


@public
def t_(self: Tensor) -> Tensor:
    """Transpose a matrix in place: the same storage, different strides."""
    if self._array.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D")
    return apply_view_in_place(_t_in_place, self)


@public
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two dims in place."""
    ndim = self._array.ndim
    dim0 = wrap_dim(as_int(dim0, "transpose_", "dim0", 1), ndim)
    dim1 = wrap_dim(as_int(dim1, "transpose_", "dim1", 2), ndim)
    return apply_view_in_place(_transpose_in_place, self, dim0=dim0, dim1=dim1)


def _of_matrices(self: Any, name: str, advice: str) -> bool:
    """Whether a tensor has matrices to transpose; 0-dim ones pass with a warning."""
    ndim = self._array.ndim
    if ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not ndim:
        _warn_zero_dim(name, advice)
    return ndim > 0


def _warn_zero_dim(name: str, advice: str) -> None:
    warn_once(f"Tensor.{name} is deprecated on 0-D tensors. {advice}")


_IDENTITY = "This function is the identity in these cases."
_CONJUGATE = "Consider using x.conj()."


class ShapeMethods(TensorCore):
    """Shape functions as methods of a tensor."""

    __slots__ = ()

    reshape, view, view_as, reshape_as = reshape_method, view, view_as, reshape_as
    flatten, unflatten, ravel = flatten, unflatten, ravel
    permute, transpose, t, adjoint = permute_method, transpose, t, adjoint
    swapaxes, swapdims, movedim, moveaxis = swapaxes, swapdims, movedim, moveaxis
    t_, transpose_, swapaxes_, swapdims_ = t_, transpose_, transpose_, transpose_

    @property
    def T(self) -> Tensor:
        """All dims in reverse order."""
        ndim = self._array.ndim
        if not ndim:
            _warn_zero_dim("T", _IDENTITY)
        elif ndim != 2:
            warn_once(
                "The use of `x.T` on tensors of dimension other than 2 is deprecated and will be an error in a later "
                "release. `x.mT` transposes each matrix of a batch; x.permute(*range(x.dim() - 1, -1, -1)) reverses all "
                "dimensions."
            )
        return permuted(self, tuple(range(ndim - 1, -1, -1)))

    @property
    def mT(self) -> Any:
        """The last two dims swapped."""
        return transpose(self, -2, -1) if _of_matrices(self, "mT", _IDENTITY) else self

    @property
    def H(self) -> Tensor:
        """A matrix transposed and conjugated."""
        ndim = self._array.ndim
        if ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
                + (" For batches of matrices, consider using tensor.mH" if ndim > 2 else "")
            )
        if not ndim:
            _warn_zero_dim("H", _CONJUGATE)
        return _adjoint(self, "H")

    @property
    def mH(self) -> Tensor:
        """Matrices transposed and conjugated."""
        _of_matrices(self, "mH", _CONJUGATE)
        return _adjoint(self, "mH")
