"""Rules that move elements: joining, repeating, rotating, triangles, padding; and plain copies."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.convert import copy_in_order
from undertow._src.rules.rule import Spec, op, twin

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# --- copies

clone = op("clone", lambda xp, self: xp.copy(self), self=lambda g: g)

contiguous = op("clone", lambda xp, self: xp.contiguous(self), self=lambda g: g)

reordered = op("clone", lambda xp, self, *, axes: copy_in_order(xp, self, axes), self=lambda g: g)

# --- joining

cat = op("cat", lambda xp, *tensors, dim, dtype: join(xp, tensors, dim, dtype),
         joint=lambda xp, g, needs, tensors_spec, dim: cut(xp, g, needs, tensors_spec, dim))

# As in PyTorch, node hooks see the gradients of all inputs here, required or not.
stack = op("stack", lambda xp, *tensors, dim, dtype: xp.stack(unified(xp, tensors, dtype), dim),
           joint=lambda xp, g, needs, tensors_spec, dim: tuple([
               to_spec(xp, xp.select(g, dim, nr), spec) if need or spec.dtype == xp.dtype_of(g) else None
               for nr, (need, spec) in enumerate(zip(needs, tensors_spec, strict=True))]))

block_diag = op("block_diag", lambda xp, *tensors, dtype: blocks(xp, unified(xp, tensors, dtype)),
                joint=lambda xp, g, needs, tensors_spec: cut_blocks(xp, g, needs, tensors_spec))

# --- repeating and rotating

repeat = op("repeat", lambda xp, self, *, repeats: xp.tile(self, repeats),
            self=lambda xp, g, self_spec, repeats: sum_repeats(xp, g, self_spec.shape, repeats))

flip = op("flip", lambda xp, self, *, dims: xp.flip(self, dims),
          self=lambda xp, g, dims: xp.flip(g, dims))

roll = op("roll", lambda xp, self, *, shifts, dims: rolled(xp, self, shifts, dims),
          self=lambda xp, g, shifts, dims: rolled(xp, g, tuple([-n for n in shifts]), dims))

rot90 = op("rot90", lambda xp, self, *, k, dims: xp.rot90(self, k, dims),
           self=lambda xp, g, k, dims: xp.rot90(g, -k, dims))

# --- triangles, diagonals, padding

tril = op("tril", lambda xp, self, *, diagonal: xp.in_rows(xp.tril(self, diagonal)),
          self=lambda xp, g, diagonal: xp.tril(g, diagonal))

triu = op("triu", lambda xp, self, *, diagonal: xp.in_rows(xp.triu(self, diagonal)),
          self=lambda xp, g, diagonal: xp.triu(g, diagonal))

diag_embed = op("diag_embed", lambda xp, self, *, offset, dim1, dim2: xp.diag_embed(self, offset, dim1, dim2),
                self=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2))

constant_pad_nd = op("constant_pad_nd", lambda xp, self, *, pad, value, widths: xp.pad(self, widths, value),
                     self=lambda xp, g, widths: xp.pad(g, tuple([(-before, -after) for before, after in widths]), 0))

# --- overwriting: the in-place forms of these are fill_, zero_, copy_

fill = op("fill", lambda xp, self, *, value: xp.full_like(self, value), node="FillBackward2",
          self=lambda xp, g: xp.zeros_like(g))

fill_tensor = op("fill", lambda xp, self, value: xp.broadcast_to(value, self.shape), node="FillBackward3",
                 self=lambda xp, g: xp.zeros_like(g),
                 value=lambda xp, g, value_spec: xp.astype(xp.sum(g), value_spec.dtype))

filled = twin(fill, "FillBackward0")

filled_tensor = op("fill", lambda xp, self, value: xp.full_like(self, 0) + xp.astype(value, self.dtype),
                   node="FillBackward1",
                   self=lambda xp, g: xp.zeros_like(g),
                   value=lambda xp, g, value_spec: xp.astype(xp.sum(g), value_spec.dtype))

zero = op("zero", lambda xp, self: xp.zeros_like(self), self=lambda xp, g: xp.zeros_like(g))

copy = op("copy", lambda xp, self, src: xp.broadcast_to(src, self.shape), node="CopyBackwards",
          self=lambda xp, g: xp.zeros_like(g),
          src=lambda xp, g, src_spec: to_spec(xp, g, src_spec))

masked_fill = op("masked_fill", lambda xp, self, mask, *, value: xp.masked_fill(self, mask, value),
                 self=lambda xp, g, mask, self_spec: xp.sum_to_shape(xp.masked_fill(g, mask, 0), self_spec.shape))

masked_fill_tensor = op("masked_fill", lambda xp, self, value, mask: xp.masked_fill(self, mask, value),
                        node="MaskedFillBackward1",
                        self=lambda xp, g, mask, self_spec: xp.sum_to_shape(
                            xp.masked_fill(g, mask, 0), self_spec.shape),
                        value=lambda xp, g, mask, value_spec: xp.astype(
                            xp.sum(xp.where(mask, g, xp.zeros_like(g))), value_spec.dtype))
# fmt: on


def rolled(xp: Namespace, x: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """Return x rolled along dims, or flattened if there are none."""
    if dims:
        return xp.roll(x, shifts, dims)
    return xp.reshape(xp.roll(xp.reshape(x, (-1,)), shifts, (0,)), x.shape)


def is_skipped(shape: tuple[int, ...]) -> bool:
    """Whether `cat` skips a tensor: an empty 1-d tensor, whatever the others' shapes."""
    return shape == (0,)


def unified(xp: Namespace, tensors: tuple[Any, ...], dtype: object) -> tuple[Any, ...]:
    """Return tensors in one dtype; None says that they already are."""
    return tensors if dtype is None else tuple([xp.astype(tensor, dtype) for tensor in tensors])


def join(xp: Namespace, tensors: tuple[Any, ...], dim: int, dtype: object) -> Array:
    """Join tensors along a dim; empty 1-d tensors are skipped, whatever the others' shapes."""
    if dtype is not None:
        tensors = unified(xp, tensors, dtype)
    for tensor in tensors:
        if tensor.shape == (0,):
            tensors = tuple([tensor for tensor in tensors if not is_skipped(tensor.shape)]) or tensors[:1]
            break
    return xp.concatenate(tensors, dim)


def cut(xp: Namespace, g: Array, needs: tuple[bool, ...], specs: tuple[Spec, ...], dim: int) -> tuple[Any, ...]:
    """Return the adjoint of `join`: each tensor's range of g."""
    results, start = [], 0
    for need, spec in zip(needs, specs, strict=True):
        if is_skipped(spec.shape):
            results.append(xp.zeros(spec.shape, spec.dtype) if need else None)
            continue
        end = start + spec.shape[dim]
        # A view: cheap, and node hooks see all.
        results.append(to_spec(xp, xp.slice_along(g, dim, start, end, 1), spec))
        start = end
    return tuple(results)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    return (1, 1) if not shape else (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def blocks(xp: Namespace, tensors: tuple[Any, ...]) -> Array:
    """Return matrices along the diagonal of one that is 0 elsewhere."""
    shapes = [_matrix(tensor.shape) for tensor in tensors]
    columns = sum([shape[1] for shape in shapes])
    rows, left = [], 0
    for tensor, shape in zip(tensors, shapes, strict=True):
        widths = ((0, 0), (left, columns - left - shape[1]))
        rows.append(xp.pad(xp.reshape(tensor, shape), widths, 0))
        left += shape[1]
    return xp.concatenate(rows, 0)


def cut_blocks(xp: Namespace, g: object, needs: tuple[bool, ...], specs: tuple[Spec, ...]) -> tuple[Any, ...]:
    """Return the adjoint of `blocks`: each matrix's block of g."""
    results: list[Any] = []
    top = left = 0
    for need, spec in zip(needs, specs, strict=True):
        rows, columns = _matrix(spec.shape)
        if need:
            part = xp.slice_along(xp.slice_along(g, 0, top, top + rows, 1), 1, left, left + columns, 1)
            results.append(to_spec(xp, xp.reshape(part, spec.shape), spec))
        else:
            results.append(None)
        top, left = top + rows, left + columns
    return tuple(results)


def sum_repeats(xp: Namespace, g: Array, shape: tuple[int, ...], repeats: tuple[int, ...]) -> Array:
    """Return the adjoint of `repeat`: every repetition added up."""
    if 0 in repeats:
        return xp.zeros(shape, xp.dtype_of(g))
    lead = len(repeats) - len(shape)
    sizes = (1,) * lead + shape
    pairs = tuple([each for n, m in zip(repeats, sizes, strict=True) for each in (n, m)])
    total = xp.sum(xp.reshape(g, pairs), axis=tuple(range(0, 2 * len(repeats), 2)))
    return xp.reshape(total, shape)


def to_spec(xp: Namespace, g: Array, spec: Spec) -> Array:
    """Return a gradient in the shape and dtype of an input that was broadcast and cast."""
    g = xp.sum_to_shape(g, spec.shape)
    if xp.dtype_of(g) == spec.dtype:
        return g
    if xp.dtype_of(g).kind == "c" and spec.dtype.kind != "c":
        g = xp.real(g)
    return xp.astype(g, spec.dtype)
