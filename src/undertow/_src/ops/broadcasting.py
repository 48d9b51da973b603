"""Public functions for dims of size one: removing, adding and broadcasting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.array import lying
from undertow._src.arrays.numpy.shape import expand_dims, restride
from undertow._src.engine.arguments import (
    as_int,
    as_ints,
    broadcast_two,
    check_tensor,
    invalid_combination,
    is_int,
    only_named,
    spread_ints,
    tensor_list,
    wrap_dim,
    wrap_dims,
)
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.shape import reshape_to
from undertow._src.ops.views import apply_view_in_place, view_of
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import Size, size_of

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

# --- dims of size one


def _squeezed_axes(input: Tensor, dim: object) -> tuple[Any, tuple[int, ...]]:
    """Return the dims given to `squeeze`, and those of them that have size one."""
    shape = input._array.shape
    if isinstance(dim, (tuple, list)):
        dim = wrap_dims(as_ints(dim, "squeeze", "dim", 2), len(shape))
        return dim, tuple([each for each in dim if shape and shape[each] == 1])
    if not is_int(dim):
        raise invalid_combination("squeeze", (dim,))
    dim = wrap_dim(as_int(dim, "squeeze", "dim", 2), len(shape))
    return dim, (dim,) if shape and shape[dim] == 1 else ()


def _without_ones(input: Tensor) -> tuple[int, ...]:
    return tuple([axis for axis, n in enumerate(input._array.shape) if n == 1])


_ALL: Any = object()


@overloaded
def squeeze(input: Tensor, dim: Any = _ALL, *more: int) -> Tensor:
    """Return a view without the dims of size one, or without those among the given dims."""
    check_tensor(input, "squeeze")
    array = lying(input._array)
    if dim is _ALL:
        axes = _without_ones(input)
        return view_of(rules.squeeze, input, array.squeeze(axes), {"axes": axes})
    dim, axes = _squeezed_axes(input, (dim, *more) if more else dim)
    rule = rules.squeeze_dim if isinstance(dim, int) else rules.squeeze_dims
    return view_of(rule, input, array.squeeze(axes), {"dim": dim, "axes": axes})


@public
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Return a view with a new dim of size one."""
    check_tensor(input, "unsqueeze")
    array = lying(input._array)
    dim = wrap_dim(as_int(dim, "unsqueeze", "dim", 2), array.ndim + 1)
    return view_of(rules.unsqueeze, input, expand_dims(array, dim), {"dim": dim})


_squeeze_in_place = twin(rules.squeeze, "SqueezeBackward3", view=True)
_squeeze_dim_in_place = twin(rules.squeeze_dim, "SqueezeBackward4", view=True)
_squeeze_dims_in_place = twin(rules.squeeze_dims, "SqueezeBackward5", view=True)
_unsqueeze_in_place = twin(rules.unsqueeze, "UnsqueezeBackward1", view=True)


@overloaded
def squeeze_(self: Tensor, dim: int | _size = _ALL) -> Tensor:
    """Remove dims of size one in place."""
    if dim is _ALL:
        return apply_view_in_place(_squeeze_in_place, self, axes=_without_ones(self))
    dim, axes = _squeezed_axes(self, dim)
    rule = _squeeze_dim_in_place if isinstance(dim, int) else _squeeze_dims_in_place
    return apply_view_in_place(rule, self, dim=dim, axes=axes)


@public
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Add a dim of size one in place."""
    dim = wrap_dim(as_int(dim, "unsqueeze_", "dim", 1), self._array.ndim + 1)
    return apply_view_in_place(_unsqueeze_in_place, self, dim=dim)


# --- broadcasting


def expand_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return a view expanded to a size, in which -1 keeps a dim."""
    array = input._array
    have = array.shape
    lead = len(size) - len(have)
    if lead < 0:
        raise RuntimeError(
            f"expand(torch.{DTYPE_OF[array.dtype].scalar_name}Tensor{{{list(have)}}}, size={list(size)}): the number of "
            f"sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor ({len(have)})"
        )
    shape, strides = list(size), [0] * len(size)
    own, after = array.strides, array.itemsize
    for axis in range(len(size) - 1, -1, -1):
        n = size[axis]
        if axis >= lead:
            m, stride = have[axis - lead], own[axis - lead]
            if n == m:
                strides[axis] = stride
            elif n == -1:
                shape[axis], strides[axis] = m, stride
            elif m != 1 or n < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({m}) at non-singleton dimension "
                    f"{axis}.  Target sizes: {list(size)}.  Tensor sizes: {list(have)}"
                )
        elif n < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {axis}"
            )
        elif n == 1:
            strides[axis] = after
        after = shape[axis] * strides[axis]
    wanted = tuple(shape)
    return view_of(rules.expand, input, restride(array, wanted, strides), {"size": wanted})


@public
def expand(self: Tensor, *size: Any, implicit: bool = False, **named: Any) -> Tensor:
    """Return a view expanded along dims of size one and new leading dims; -1 keeps a dim."""
    if named:
        size = (*size, *only_named(named, "expand", "size"))
    return expand_to(self, spread_ints(size, "expand", "size"))


@public
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a view expanded to a second tensor's shape."""
    check_tensor(other, "expand_as", "other")
    return expand_to(self, other._array.shape)


@public
def broadcast_to(input: Tensor, size: _size) -> Tensor:
    """Return a view broadcast to a size."""
    check_tensor(input, "broadcast_to")
    return expand_to(input, as_ints(size, "broadcast_to", "size", 2))


@public
def broadcast_tensors(*tensors: Tensor) -> tuple[Any, ...]:
    """Return tensors broadcast to one shape."""
    given = tensor_list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors, "")
    shape: tuple[int, ...] = ()
    for tensor in given:
        shape = broadcast_two(shape, tensor._array.shape)
    return tuple([tensor if tensor._array.shape == shape else expand_to(tensor, shape) for tensor in given])


@public
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that shapes broadcast to."""
    sizes = [(shape,) if is_int(shape) else tuple(shape) for shape in shapes]
    result = [1] * max([0, *map(len, sizes)])
    for place, size in enumerate(sizes):
        for axis in range(-1, -1 - len(size), -1):
            n = size[axis]
            if not isinstance(n, str) and n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if n == 1 or n == result[axis]:
                continue
            if result[axis] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {axis}! Argument {place} "
                    f"is of {size}, which does not broadcast to {result}"
                )
            result[axis] = n
    return size_of(tuple(result))


def _at_least(dims: int, name: str, grow: Callable[..., Any]) -> Callable[..., Any]:
    """Return `atleast_1d` or a relative, from a function that expands one tensor."""

    def function(*tensors: Any) -> tuple[Tensor, ...]:
        if len(tensors) == 1 and isinstance(tensors[0], TensorCore):
            return grow(tensors[0])
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            raise invalid_combination(name, tensors)
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple([grow(tensor) for tensor in tensor_list(given, name)])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensors with at least {dims} dim{'s' if dims > 1 else ''}."
    return public(function)


def _grow_2d(x: Tensor) -> Tensor:
    ndim = x._array.ndim
    return reshape_to(x, (1, 1)) if not ndim else unsqueeze(x, 0) if ndim == 1 else x


def _grow_3d(x: Tensor) -> Any:
    ndim = x._array.ndim
    if ndim == 1:
        return unsqueeze(unsqueeze(x, 0), -1)
    return reshape_to(x, (1, 1, 1)) if not ndim else unsqueeze(x, -1) if ndim == 2 else x


atleast_1d = _at_least(1, "atleast_1d", lambda x: x if x._array.ndim else reshape_to(x, (1,)))
atleast_2d = _at_least(2, "atleast_2d", _grow_2d)
atleast_3d = _at_least(3, "atleast_3d", _grow_3d)


class StretchMethods(TensorCore):
    """Dims of size one as methods of a tensor."""

    __slots__ = ()

    squeeze, unsqueeze, squeeze_, unsqueeze_ = squeeze, unsqueeze, squeeze_, unsqueeze_
    expand, expand_as, broadcast_to = expand, expand_as, broadcast_to
