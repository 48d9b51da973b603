"""Index rules: selecting and writing elements, by index, by mask, along an axis.

Differentiable inputs come first; indices and masks follow, are saved as inputs are, and have no gradient.
"""

# fmt: off
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Spec, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

FOLDS = {"max": "amax", "min": "amin"}  # legacy names of reductions, which have no derivative

# --- advanced indexing

index = op("index", lambda xp, self, *indices: xp.index(self, *indices),
           self=lambda xp, g, self_spec, indices: xp.index_backward(g, self_spec.shape, *indices))

index_backward = op("index_backward", lambda xp, grad, *indices, shape: xp.index_backward(grad, shape, *indices),
                    node="IndexPutImplBackward0", grad=lambda xp, g, indices: xp.index(g, *indices))

index_put = op("index_put", lambda xp, self, values, *indices, accumulate: xp.index_put(
                   self, values, *indices, accumulate=accumulate),
               self=lambda xp, g, indices, accumulate: g if accumulate else xp.index_put(
                   g, xp.zeros((), xp.dtype_of(g)), *indices, accumulate=False),
               values=lambda xp, g, indices, values_spec: xp.index_summed(g, values_spec.shape, *indices))

# --- slices of an axis

index_select = op("index_select", lambda xp, self, index, *, dim: xp.index_select(self, dim, index),
                  self=lambda xp, g, index, self_spec, dim: xp.index_select_backward(g, self_spec.shape, dim, index))

index_add = op("index_add", lambda xp, self, source, index, *, dim, alpha: xp.index_add(
                   self, dim, index, source if alpha is None else source * alpha),
               self=lambda g: g,
               source=lambda xp, g, index, source, source_spec, dim, alpha: scaled(
                   xp.reshape(xp.index_select(g, dim, index), source_spec.shape), alpha))

index_copy = op("index_copy", lambda xp, self, source, index, *, dim: xp.index_copy(self, dim, index, source),
                self=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0),
                source=lambda xp, g, index, source, source_spec, dim: xp.reshape(
                    xp.index_select(g, dim, index), source_spec.shape))

index_fill = op("index_fill", lambda xp, self, index, *, dim, value: xp.index_fill(self, dim, index, value),
                self=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0))

index_fill_tensor = op("index_fill", lambda xp, self, value, index, *, dim: xp.index_fill(self, dim, index, value),
                       node="IndexFillBackward1",
                       self=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0),
                       value=lambda xp, g, index, dim: xp.sum(g - xp.index_fill(g, dim, index, 0)))

# --- one index per element

gather = op("gather", lambda xp, self, index, *, dim, sparse_grad: xp.gather(self, dim, index),
            self=lambda xp, g, index, self, dim, sparse_grad: (
                xp.sparse_gather_grad if sparse_grad else xp.gather_backward)(g, tuple(self.shape), dim, index))

scatter = op("scatter", lambda xp, self, src, index, *, dim: xp.scatter(self, dim, index, src),
             self=lambda xp, g, index, dim: xp.scatter_value(g, dim, index, 0),
             src=lambda xp, g, index, dim: xp.gather(g, dim, index))

scatter_value = op("scatter", lambda xp, self, index, *, dim, value: xp.scatter_value(self, dim, index, value),
                   node="ScatterBackward1",
                   self=lambda xp, g, index, dim: xp.scatter_value(g, dim, index, 0))

scatter_add = op("scatter_add", lambda xp, self, src, index, *, dim: xp.scatter_add(self, dim, index, src),
                 self=lambda g: g,
                 src=lambda xp, g, index, dim: xp.gather(g, dim, index))

scatter_reduce = op("scatter_reduce", lambda xp, self, src, index, *, dim, reduce, include_self: xp.scatter_reduce(
                        self, dim, index, src, FOLDS.get(reduce, reduce), include_self),
                    slots=2,
                    joint=lambda xp, g, needs, self, src, index, result, dim, reduce, include_self: share_out(
                        xp, g, self, src, index, result, dim, reduce, include_self))

index_reduce = op("index_reduce", lambda xp, self, source, index, *, dim, reduce, include_self: xp.scatter_reduce(
                      self, dim, spread(xp, index, source.shape, dim), source, reduce, include_self),
                  slots=2,
                  joint=lambda xp, g, needs, self, source, index, result, dim, reduce, include_self: share_out(
                      xp, g, self, source, spread(xp, index, source.shape, dim), result, dim, reduce, include_self))

# --- flat positions and masks

take = op("take", lambda xp, self, index: xp.take_flat(self, index), keeps=("self",),
          self=lambda xp, g, index, self_spec: xp.put_flat(
              xp.zeros(self_spec.shape, self_spec.dtype), index, g, True))

put = op("put", lambda xp, self, source, index, *, accumulate: xp.put_flat(self, index, source, accumulate),
         self=lambda xp, g, index, accumulate: g if accumulate else xp.put_flat(g, index, zeros_at(xp, index, g), False),
         source=lambda xp, g, index, source, source_spec: xp.reshape(xp.take_flat(g, index), source_spec.shape))

masked_select = op("masked_select", lambda xp, self, mask: xp.masked_select(self, mask), keeps=("self",),
                   self=lambda xp, g, mask, self_spec: xp.sum_to_shape(
                       xp.masked_scatter(zeros_over(xp, mask, self_spec), mask, g), self_spec.shape))

masked_scatter = op("masked_scatter", lambda xp, self, source, mask: xp.masked_scatter(self, mask, source),
                    self=lambda xp, g, mask, self_spec: xp.sum_to_shape(
                        xp.masked_fill(g, mask, 0), self_spec.shape),
                    source=lambda xp, g, mask, source_spec: lengthen(xp, xp.masked_select(g, mask), source_spec))

# --- a part replaced, the rest kept

select_scatter = op("select_scatter", lambda xp, self, src, *, dim, index: replace_part(
                        xp, self, src, lambda g: xp.select_backward(g, self.shape, dim, index)),
                    self=lambda xp, g, src_spec, self_spec, dim, index: replace_part(
                        xp, g, xp.zeros(src_spec.shape, src_spec.dtype),
                        lambda part: xp.select_backward(part, self_spec.shape, dim, index)),
                    src=lambda xp, g, dim, index: xp.select(g, dim, index))

slice_scatter = op("slice_scatter", lambda xp, self, src, *, dim, start, end, step: replace_part(
                       xp, self, src, lambda g: xp.slice_backward(g, self.shape, dim, start, end, step)),
                   self=lambda xp, g, src_spec, self_spec, dim, start, end, step: replace_part(
                       xp, g, xp.zeros(src_spec.shape, src_spec.dtype),
                       lambda part: xp.slice_backward(part, self_spec.shape, dim, start, end, step)),
                   src=lambda xp, g, dim, start, end, step: xp.slice_along(g, dim, start, end, step))

diagonal_scatter = op("diagonal_scatter", lambda xp, self, src, *, offset, dim1, dim2: replace_part(
                          xp, self, src, lambda g: xp.diagonal_backward(g, self.shape, offset, dim1, dim2)),
                      self=lambda xp, g, src_spec, self_spec, offset, dim1, dim2: replace_part(
                          xp, g, xp.zeros(src_spec.shape, src_spec.dtype),
                          lambda part: xp.diagonal_backward(part, self_spec.shape, offset, dim1, dim2)),
                      src=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2))

put_strided = lambda xp, self, src, *, size, stride, storage_offset, layout: replace_part(
    xp, self, src, lambda g: xp.as_strided_backward(g, size, stride, storage_offset, layout))
take_strided = lambda xp, g, size, stride, storage_offset, layout: xp.as_strided(g, size, stride, storage_offset, layout)
as_strided_scatter = op("as_strided_scatter", put_strided,
                        # PyTorch returns the part that was replaced, where one would expect the rest.
                        self=lambda xp, g, size, stride, storage_offset, layout: xp.as_strided_backward(
                            xp.as_strided(g, size, stride, storage_offset, layout), size, stride, storage_offset, layout),
                        src=take_strided,
                        pushed=op("as_strided_scatter", put_strided,
                                  self=lambda xp, g, size, stride, storage_offset, layout: replace_part(
                                      xp, g, xp.zeros(size, xp.dtype_of(g)), lambda part: xp.as_strided_backward(
                                          part, size, stride, storage_offset, layout)),
                                  src=take_strided))
# fmt: on


def scaled(g: Array, alpha: object) -> Array:
    return g if alpha is None else g * alpha


def spread(xp: Namespace, index: Array, shape: tuple[int, ...], dim: int) -> Array:
    """Return an index of slices as an index of elements."""
    if not shape:
        return xp.reshape(index, ())
    sizes = tuple([-1 if axis == dim else 1 for axis in range(len(shape))])
    return xp.broadcast_to(xp.reshape(index, sizes), shape)


def zeros_at(xp: Namespace, index: Array, g: Array) -> Array:
    return xp.zeros(index.shape, xp.dtype_of(g))


def zeros_over(xp: Namespace, mask: Array, spec: Spec) -> Array:
    """Return zeros in the shape that a mask and an input broadcast to."""
    return xp.broadcast_to(xp.zeros((), spec.dtype), stretched(mask.shape, spec.shape))


def stretched(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two compatible shapes broadcast to."""
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + tuple(a), (1,) * (ndim - len(b)) + tuple(b)
    return tuple([m if n == 1 else n for n, m in zip(a, b, strict=True)])


def lengthen(xp: Namespace, g: Array, spec: Spec) -> Array:
    """Return the gradient of a source of which only the first elements were used."""
    return xp.reshape(xp.pad(g, ((0, spec.size - g.shape[0]),), 0), spec.shape)


def replace_part(xp: Namespace, whole: Array, part: Array, put: Callable[..., Any]) -> Array:
    """Return the whole with a part replaced; `put` places a part among zeros."""
    inside = put(xp.ones(part.shape, xp.dtype_of(whole))) != 0
    return xp.where(inside, xp.astype(put(part), xp.dtype_of(whole)), whole)


def share_out(
    xp: Namespace, g: Array, self: Array, src: Array, index: Array, result: Array, dim: int, reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the gradients of scatter_reduce by the target and by the source."""
    if reduce in FOLDS:
        raise RuntimeError(f"Expected 'reduce' to be one of 'sum', 'prod', 'mean', 'amax', 'amin' but got {reduce}.")
    if reduce == "sum":
        own, given = g, xp.gather(g, dim, index)
    elif reduce == "mean":
        counts = xp.full_like(g, 1 if include_self else 0)
        counts = xp.scatter_add(counts, dim, index, xp.ones_like(src))
        counts = xp.maximum(counts, xp.ones_like(counts))
        own = g / counts
        given = xp.gather(own, dim, index)
    elif reduce == "prod":
        own, given = _share_product(xp, g, self, src, index, result, dim, include_self)
    else:
        kind = xp.dtype_of(g)
        is_own = xp.astype(self == result, kind)
        is_given = xp.astype(src == xp.gather(result, dim, index), kind)
        own_count = is_own if include_self else xp.scatter_value(is_own, dim, index, 0)
        winners = xp.scatter_add(own_count, dim, index, is_given)
        shares = g / xp.maximum(winners, xp.ones_like(winners))
        own, given = is_own * shares, is_given * xp.gather(shares, dim, index)
        if not include_self:
            untouched = xp.scatter_value(xp.ones_like(g), dim, index, 0)
            own = untouched * g
        return own, given
    if not include_self:
        own = xp.scatter_value(own, dim, index, 0)
    return own, given


def _share_product(
    xp: Namespace, g: Array, self: Array, src: Array, index: Array, result: Array, dim: int, include_self: bool
) -> tuple[Any, Any]:
    """Return the product of all other factors, without dividing by zero."""
    ones = xp.ones_like(self)
    own_safe = xp.where(self == 0, ones, self)
    own = g * xp.scatter_reduce(own_safe, dim, index, src, "prod", include_self) / own_safe
    zeros = src == 0
    counts = xp.scatter_add(xp.zeros_like(self), dim, index, xp.astype(zeros, xp.dtype_of(src)))
    alone = xp.logical_and(zeros, xp.gather(counts, dim, index) == 1)
    others = xp.scatter_reduce(self, dim, index, xp.where(alone, xp.ones_like(src), src), "prod", include_self)
    through_zero = xp.gather(g * others, dim, index)
    plain = xp.gather(g * result, dim, index) / xp.where(zeros, xp.ones_like(src), src)
    return own, xp.where(alone, through_zero, plain)
