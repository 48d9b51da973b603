"""View rules: a different shape of the same storage. Their gradients need only shapes and statics.

The adjoint of a view of a part puts the part back among zeros; those adjoints are rules too (`select_backward`), whose
own gradient is the view again.
"""

# fmt: off
from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# --- the whole of a tensor

view = op("view", lambda xp, self, *, size: xp.reshape(self, size), view=True,
          self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))

unsafe_view = op("unsafe_view", lambda xp, self, *, size: xp.reshape(self, size),
                 self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))

reshape_alias = op("reshape_alias", lambda xp, self, *, size: xp.reshape(self, size), view=True,
                   self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))

expand = op("expand", lambda xp, self, *, size: xp.broadcast_to(self, size), view=True,
            self=lambda xp, g, self_spec: xp.sum_to_shape(g, self_spec.shape))

permute = op("permute", lambda xp, self, *, dims: xp.transpose(self, dims), view=True,
             self=lambda xp, g, dims: xp.transpose(g, inverse_permutation(dims)))

transpose = op("transpose", lambda xp, self, *, dim0, dim1: xp.swapaxes(self, dim0, dim1), view=True,
               self=lambda xp, g, dim0, dim1: xp.swapaxes(g, dim0, dim1))

t = op("t", lambda xp, self: xp.transpose(self), view=True, self=lambda xp, g: xp.transpose(g))

squeeze = op("squeeze", lambda xp, self, *, axes: xp.squeeze(self, axes), view=True,
             self=lambda xp, g, axes, self_spec: xp.reshape(g, self_spec.shape) if axes else g)

squeeze_dim = op("squeeze", lambda xp, self, *, dim, axes: xp.squeeze(self, axes), view=True, node="SqueezeBackward1",
                 self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))

squeeze_dims = op("squeeze", lambda xp, self, *, dim, axes: xp.squeeze(self, axes), view=True, node="SqueezeBackward2",
                  self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))

unsqueeze = op("unsqueeze", lambda xp, self, *, dim: xp.expand_dims(self, dim), view=True,
               self=lambda xp, g, dim: xp.squeeze(g, (dim,)))

# --- a part of a tensor

select = op("select", lambda xp, self, *, dim, index: xp.select(self, dim, index), view=True,
            self=lambda xp, g, self_spec, dim, index: xp.select_backward(g, self_spec.shape, dim, index))

slice = op("slice", lambda xp, self, *, dim, start, end, step: xp.slice_along(self, dim, start, end, step), view=True,
           self=lambda xp, g, self_spec, dim, start, end, step: xp.slice_backward(
               g, self_spec.shape, dim, start, end, step))

diagonal = op("diagonal", lambda xp, self, *, offset, dim1, dim2: xp.diagonal(self, offset, dim1, dim2), view=True,
              self=lambda xp, g, self_spec, offset, dim1, dim2: xp.diagonal_backward(
                  g, self_spec.shape, offset, dim1, dim2))

diagonal_copy = op("diagonal", lambda xp, self, *, offset, dim1, dim2: xp.copy(xp.diagonal(self, offset, dim1, dim2)),
                   node="DiagonalBackward0_copy",
                   self=lambda xp, g, self_spec, offset, dim1, dim2: xp.diagonal_backward(
                       g, self_spec.shape, offset, dim1, dim2))

unfold = op("unfold", lambda xp, self, *, dimension, size, step: xp.windows(self, dimension, size, step), view=True,
            self=lambda xp, g, self_spec, dimension, size, step: xp.windows_backward(
                g, self_spec.shape, dimension, size, step))

as_strided = op("as_strided", lambda xp, self, *, size, stride, storage_offset, layout: xp.as_strided(
                    self, size, stride, storage_offset, layout), view=True,
                self=lambda xp, g, size, stride, storage_offset, layout: xp.as_strided_backward(
                    g, size, stride, storage_offset, layout))

# --- several parts of a tensor

split = op("split", lambda xp, self, *, split_size, dim: parts(xp, self, split_points(self, split_size, dim), dim),
           view=True, outputs=0, self=lambda xp, g, dim: xp.concatenate(g, dim))

split_with_sizes = op("split_with_sizes", lambda xp, self, *, split_sizes, dim: parts(
                          xp, self, running_sums(split_sizes), dim),
                      view=True, outputs=0, self=lambda xp, g, dim: xp.concatenate(g, dim))

unbind = op("unbind", lambda xp, self, *, dim: tuple([xp.select(self, dim, nr) for nr in range(self.shape[dim])]),
            view=True, outputs=0, self=lambda xp, g, dim: xp.stack(g, dim))

# --- adjoints of the parts

select_backward = op("select_backward", lambda xp, grad, *, shape, dim, index: xp.select_backward(
                         grad, shape, dim, index),
                     grad=lambda xp, g, dim, index: xp.select(g, dim, index))

slice_backward = op("slice_backward", lambda xp, grad, *, shape, dim, start, end, step: xp.slice_backward(
                        grad, shape, dim, start, end, step),
                    grad=lambda xp, g, dim, start, end, step: xp.slice_along(g, dim, start, end, step))

diagonal_backward = op("diagonal_backward", lambda xp, grad, *, shape, offset, dim1, dim2: xp.diagonal_backward(
                           grad, shape, offset, dim1, dim2),
                       grad=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2))

unfold_backward = op("unfold_backward", lambda xp, grad, *, shape, dimension, size, step: xp.windows_backward(
                         grad, shape, dimension, size, step),
                     grad=lambda xp, g, dimension, size, step: xp.windows(g, dimension, size, step))

as_strided_backward = op("as_strided_backward", lambda xp, grad, *, size, stride, storage_offset, layout:
                         xp.as_strided_backward(grad, size, stride, storage_offset, layout), node="AsStridedBackward0",
                         grad=lambda xp, g, size, stride, storage_offset, layout: xp.as_strided(
                             g, size, stride, storage_offset, layout))
# fmt: on


def inverse_permutation(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation of dims that undoes a given one."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


def split_points(x: Array, split_size: int, dim: int) -> list[int]:
    """Return where parts of equal size begin and end along a dim; the last may be shorter, and there is at least one."""
    n = x.shape[dim]
    return [*range(0, n, split_size), n] if n else [0, 0]


def running_sums(sizes: tuple[int, ...]) -> list[int]:
    """Return 0 and the running sums of sizes: where parts begin and end."""
    points = [0]
    for size in sizes:
        points.append(points[-1] + size)
    return points


def parts(xp: Namespace, x: Array, points: list[int], dim: int) -> tuple[Any, ...]:
    """Return the ranges between points along a dim."""
    return tuple([xp.slice_along(x, dim, start, end, 1) for start, end in pairwise(points)])
