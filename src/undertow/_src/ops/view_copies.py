"""View functions as copies: `select_copy` is `select` with a new storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_int,
    as_ints,
    broadcast_two,
    check_tensor,
    invalid_combination,
    type_name,
    wrap_dim,
)
from undertow._src.engine.outputs import into, refuse_recording, write_out
from undertow._src.ops import broadcasting, shape, slicing
from undertow._src.ops import complex as complex_ops
from undertow._src.ops.copied_parts import alias_of, apart
from undertow._src.ops.index_parsing import slice_item
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.views import view_of
from undertow._src.rules import convert
from undertow._src.rules.elementwise import not_differentiated
from undertow._src.rules.rule import op
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import dtype as Dtype

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor

_ALL: Any = object()


def _copy_node(node: str) -> str:
    return node + "_copy"


def _copied(name: str, input: Tensor, view: Callable[[Any], Any], out: Tensor | None = None) -> Any:
    """Return a copy of the view that a function takes of the input."""
    check_tensor(input, name)
    compute = lambda: apart(input, view(alias_of(input)), _copy_node, copied=True)
    return compute() if out is None else into(out, compute, (input,), name)


def _all_copied(name: str, input: Any, view: Callable[[Any], Any], out: Any) -> Any:
    """Copy the views that a function takes, into the tensors of `out` if given (and then return nothing)."""
    copies = _copied(name, input, view)
    if out is None:
        return copies
    if len(out) != len(copies):
        raise RuntimeError(f"{name}_int_out expected an out= argument of size {len(copies)}, got size {len(out)}")
    for place, target in enumerate(out):
        if not isinstance(target, TensorCore):
            raise TypeError(f"expected Tensor as element {place} in argument 'out', but got {type_name(target)}")
    if name == "unbind_copy":
        refuse_recording(name, out)
    for target, result in zip(out, copies, strict=True):
        if name == "split_copy":
            broadcast_two(target._array.shape, result._array.shape)
        write_out(target, wrap(result._array), name)
    return None


def _refuse_complex_gradient(name: str, *tensors: Any) -> None:
    """Refuse the gradient of complex results that PyTorch lacks."""
    if local.modes.grad_enabled and any(each._requires_grad for each in tensors):
        raise RuntimeError(f"{name} does not support automatic differentiation for outputs with complex dtype.")


# --- the whole of a tensor


@public
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy in C order."""
    return _copied("alias_copy", input, lambda x: view_of(convert.alias, x, x._array, {}), out)


_detached = op("detach", lambda xp, self: xp.contiguous(self), node="NotImplemented",
               self=not_differentiated("detach_copy"))  # fmt: skip


@public
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy; in spite of its name it stays in the graph, whose backward refuses it."""
    check_tensor(input, "detach_copy")
    compute = lambda: apply(_detached, input)
    return compute() if out is None else into(out, compute, (input,), "detach_copy")


@overloaded
def view_copy(
    input: Tensor, size: _size | None = None, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Return a copy in another shape, or with its bits seen as another dtype."""
    wanted = size if dtype is None else dtype
    if not isinstance(wanted, (tuple, list, Dtype)):
        raise invalid_combination("view_copy", [value for value in (input, size) if value is not None])
    if isinstance(wanted, Dtype):
        return _copied("view_copy", input, lambda x: shape.view_bits(x, wanted), out)
    sizes = as_ints(wanted, "view_copy", "size", 2)
    return _copied("view_copy", input, lambda x: shape.view_to(x.contiguous(), sizes), out)


@public
def expand_copy(input: Tensor, size: _size, *, implicit: bool = False, out: Tensor | None = None) -> Tensor:
    """Return a copy stretched along dims of size one and new leading dims; -1 keeps a dim."""
    sizes = as_ints(size, "expand_copy", "size", 2)
    return _copied("expand_copy", input, lambda x: broadcasting.expand_to(x, sizes), out)


@public
def permute_copy(input: Tensor, dims: _size, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with its dims in another order."""
    order = as_ints(dims, "permute_copy", "dims", 2)
    return _copied("permute_copy", input, lambda x: shape.permuted(x, order), out)


@public
def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with two dims swapped."""
    return _copied("transpose_copy", input, lambda x: shape.transpose(x, dim0, dim1), out)


@public
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a matrix, transposed."""
    return _copied("t_copy", input, shape.t, out)


@overloaded
def squeeze_copy(input: Tensor, dim: int | _size = _ALL, *, out: Tensor | None = None) -> Tensor:
    """Return a copy without the dims of size one, or without those among the given dims."""
    view = broadcasting.squeeze if dim is _ALL else lambda x: broadcasting.squeeze(x, dim)
    return _copied("squeeze_copy", input, view, out)


@public
def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with a new dim of size one."""
    return _copied("unsqueeze_copy", input, lambda x: broadcasting.unsqueeze(x, dim), out)


@public
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers as pairs of real ones along a new last dim."""
    return _copied("view_as_real_copy", input, complex_ops.view_as_real, out)


@public
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Pairs of real numbers along the last dim as complex ones."""
    check_tensor(input, "view_as_complex_copy")
    result = complex_ops.view_as_complex(alias_of(input))
    _refuse_complex_gradient("view_as_complex_copy", input)
    compute = lambda: apart(input, result, _copy_node, copied=True)
    return compute() if out is None else into(out, compute, (input,), "view_as_complex_copy")


# --- a part of a tensor


@public
def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of one index along a dim, which goes away."""
    result = _copied("select_copy", input, lambda x: slicing.select(x, dim, index), out)
    if result._array.dtype.kind == "c":
        _refuse_complex_gradient("select_copy", input)
    return result


@public
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy of a range of one dim."""
    check_tensor(input, "slice_copy")
    if not input._array.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    place = wrap_dim(as_int(dim, "slice_copy", "dim", 2), input._array.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    result = _copied("slice_copy", input, lambda x: slice_item(x, place, slice(start, end, step), True), out)
    if result._array.dtype.kind == "c":
        _refuse_complex_gradient("slice_copy", input)
    return result


@public
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of the diagonal of two dims, as a new last dim."""
    return _copied("diagonal_copy", input, lambda x: slicing.diagonal(x, offset, dim1, dim2), out)


@public
def unfold_copy(input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None) -> Tensor:
    """Copy of windows along a dim, a step apart; positions within a window become the last dim."""
    return _copied("unfold_copy", input, lambda x: slicing.unfold(x, dimension, size, step), out)


@public
def as_strided_copy(
    input: Tensor, size: _size, stride: _size, storage_offset: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return a copy of a tensor's storage viewed with any size, strides and offset."""
    return _copied("as_strided_copy", input, lambda x: slicing.as_strided(x, size, stride, storage_offset), out)


# --- several parts of a tensor


@public
def split_copy(input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Any] | None = None) -> tuple[Tensor, ...]:
    """Copy of parts of one size along a dim; the last may be shorter."""
    size = as_int(split_size, "split_copy", "split_size", 2)
    return _all_copied("split_copy", input, lambda x: slicing.split(x, size, dim), out)


@public
def split_with_sizes_copy(input: Any, split_sizes: object, dim: int = 0, *, out: Sequence[Any] | None = None) -> Any:
    """Copy of parts of the given sizes along a dim."""
    sizes = as_ints(split_sizes, "split_with_sizes_copy", "split_sizes", 2)
    copies = _copied("split_with_sizes_copy", input, lambda x: slicing.split_with_sizes(x, sizes, dim))
    if out is None:
        return copies
    for target, result in zip(out, copies, strict=True):
        write_out(target, wrap(result._array), "split_with_sizes_copy")
    return None


@public
def unbind_copy(input: Tensor, dim: int = 0, *, out: Sequence[Any] | None = None) -> tuple[Tensor, ...]:
    """Copy of every index along a dim, each without that dim."""
    return _all_copied("unbind_copy", input, lambda x: slicing.unbind(x, dim), out)
