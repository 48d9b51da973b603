"""Adding a gradient into a leaf's `.grad`.

NOTE ownership of gradients. The first gradient becomes `.grad` itself if nothing else holds it, which saves a copy of
every parameter's size; any other is copied, because the next backward adds to `.grad` in place. Whether an array is
held elsewhere is read off its reference count. How many references the engine itself has at that moment depends on the
interpreter, so `own_references.py` measures it when undertow is imported. Until then everything is copied. A weight's
gradient is transposed twice on its way, so it is a view, whose base becomes `.grad` if only the view holds it.

A gradient that hooks have seen arrives as the tensor that they saw, and its reference count decides, as in PyTorch: a
hook that keeps `g` keeps its value, one that keeps `g.detach()` shares its buffer with `.grad` from then on.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.arrays.device.placement import HostedArray, hosted, placed
from undertow._src.arrays.namespaces import is_batched
from undertow._src.base import tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.engine import backward_hooks
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import broadcast_two
from undertow._src.engine.node import AccumulateGrad
from undertow._src.engine.outputs import bump, refuse_overlap
from undertow._src.engine.writes import check_writable
from undertow._src.rules.rule import op
from undertow._src.tensor.core import InferenceStorage, TensorCore, ndarray, wrap
from undertow._src.types.devices import cpu
from undertow.storage import is_dense

if TYPE_CHECKING:
    from undertow._src.engine.engine import BackwardPass

copy_gradient = op("copy", lambda xp, self: xp.copy(self), node="CopyBackwards", self=lambda g: g)

ARRAYS = (ndarray, DeviceArray)


def accumulate(task: BackwardPass, node: AccumulateGrad, g: Any, more_references: int = 0) -> None:
    """Add g to the leaf's gradient, in place unless the pass is recorded, then fire post-accumulate hooks.

    `more_references`: the engine's references to `g` beyond the traversal's own.
    """
    leaf = node.variable
    meta = leaf._meta
    if g is not None and leaf._requires_grad:  # requires_grad may have been switched off since the graph was made
        if leaf._edge is not None and not leaf._edge[0]._begins:
            raise RuntimeError(
                "leaf variable has been moved into the graph interior: it was written to with a recorded operation after "
                "it was used, so that its gradient can't be kept. Write to a clone()."
            )
        # Above 0 if anything else refers to it.
        shared = getrefcount(g) - backward_hooks.own_references - more_references
        if (
            type(g) is ndarray
            and not slow_path.count
            and not slow_path.listeners
            and g.dtype is leaf._array.dtype
            and (meta.grad is None or meta.grad._is_strided)
        ):
            with node.lock:
                if meta.grad is not None:
                    _add_in_place(meta.grad, g)
                else:
                    is_shown = node._extras is not None and bool(node._extras.post_hooks)
                    meta.grad = wrap(_owned(g, leaf._array, shared <= 0, is_shown))
        else:
            _accumulate_generally(task, node, g, shared)
    if meta.post_hooks:
        backward_hooks.fire_post_accumulate_hooks(leaf, meta.post_hooks)


def _accumulate_generally(task: BackwardPass, node: AccumulateGrad, g: Any, shared: int) -> None:
    """Add g to the leaf's gradient in every case; `shared`: how many references there are beyond the engine's."""
    leaf = node.variable
    meta, array = leaf._meta, leaf._array
    shown, seen = g, isinstance(g, TensorCore)
    if seen and shared > 0 and tracer.current is not None:
        shared -= tracer.current.references_to(g)
    unshared = shared <= 0
    g = task.value(g)
    if slow_path.listeners:
        slow_path.listeners[-1](node, g, ())
    if slow_path.count:
        g = cast_to_leaf(leaf, g)
    if g.__class__ in ARRAYS and g.dtype is not array.dtype and meta.grad_dtype is None:
        g = g.astype(array.dtype, copy=False)
    with node.lock:
        grad = meta.grad
        if slow_path.dispatcher is not None and not task.recorded and slow_path.dispatcher.takes((g, grad)):
            meta.grad = slow_path.dispatcher.accumulated(leaf, grad, g, unshared)
        elif is_sparse(g) or is_sparse(grad):
            meta.grad = _with_sparse(grad, g, task.recorded)
        elif isinstance(g, TensorCore):
            meta.grad = apply(copy_gradient, g) if grad is None else grad + g
        elif grad is None:
            is_shown = seen or (node._extras is not None and bool(node._extras.post_hooks))
            own = _owned(g, array, unshared, is_shown)
            meta.grad = wrap(own)
            if own is g and seen and tracer.current is not None:
                tracer.current.note_taken_over(shown, meta.grad)
            if slow_path.count and local.modes.inference:
                meta.grad._storage = InferenceStorage()
        else:
            _add_in_place(grad, g)


def _owned(g: Any, array: Any, unshared: bool, is_shown: bool) -> Any:
    """Return a gradient's buffer, to become the `.grad` of a leaf with this array; or a copy.

    A buffer of its own with the leaf's strides is taken over. A broadcast or transposed array has none; a view shown to
    hooks, before or after this, counts as one: that such views alias `.grad` is visible.
    """
    if type(g) is not ndarray:
        # On a device, copies cost nothing until they are written to, but aliases that hooks keep count.
        own = unshared and is_shown and g.shape == array.shape and g.strides == array.strides
        return g if own else copy_like(g, array)
    if unshared and g.strides == array.strides:
        if is_shown or g.base is None:
            return g
        base: Any = g.base
        if base.__class__ is ndarray and base.shape == g.shape and base.strides == g.strides:
            if getrefcount(base) <= _references_to_base and base.base is None and base.dtype is g.dtype:
                return base  # transposed twice
    return copy_like(g, array)


def _count_references(g: Any) -> int:
    """Return how many references to a view's base `_owned` sees if only the view holds it, with this interpreter."""
    base: Any = g.base
    return getrefcount(base)


_references_to_base = _count_references(np.zeros((2, 3)).T)


def is_sparse(g: object) -> bool:
    """Whether a gradient has no array."""
    return isinstance(g, TensorCore) and not g._is_strided


def stays_tensor(g: object) -> bool:
    """Whether a gradient is carried as a tensor in every pass: a sparse one, or one whose class overrides operators."""
    if not isinstance(g, TensorCore):
        return False
    return not g._is_strided or (slow_path.dispatcher is not None and slow_path.dispatcher.is_class(type(g)))


def added(one: Any, other: Any) -> Any:
    """Return the sum of two gradients: a sparse one can be added to a dense one, but not the reverse."""
    return other + one if is_sparse(one) and not is_sparse(other) else one + other


def _with_sparse(grad: TensorCore | None, g: Any, recorded: bool) -> TensorCore:
    """Return a leaf's gradient with g added, where one of them is sparse; in place if possible."""
    if grad is None:  # its order is dropped, as in PyTorch
        return g.clone() if recorded else g.clone()._coalesced_(g._nnz() < 2)
    g = g if isinstance(g, TensorCore) else wrap(g)
    if recorded or not is_sparse(g):
        return added(grad, g)
    return grad.add_(g)


def cast_to_leaf(leaf: Any, g: Any) -> Any:
    """Return a gradient on its leaf's device and in its dtype: a 0-dim CPU tensor may take part in ops on a device."""
    wanted = leaf._meta.grad_dtype
    if wanted is not None and wanted.dtype is not None:
        g = g.to(wanted.dtype) if isinstance(g, TensorCore) else g.astype(wanted.dtype.numpy, copy=False)
    if is_sparse(g) or is_batched(g):
        return g
    array = g._array if isinstance(g, TensorCore) else g
    if tracer.current is not None or (type(array) is ndarray and type(leaf._array) is ndarray):
        return g
    there = array.device if type(array) is DeviceArray else getattr(array, "nominal", cpu)
    if there is leaf.device or leaf.device.type == "meta":
        return g
    return g.to(leaf.device) if g is not array else placed(g, leaf.device)


def copy_like(g: Any, leaf_array: Any) -> Any:
    """Return a copy of a gradient with the leaf's strides; contiguous if the leaf has gaps."""
    if type(g) is HostedArray:
        return hosted(copy_like(np.asarray(g), np.asarray(leaf_array)), g.nominal)
    leaf = lying(leaf_array)
    if type(g) is DeviceArray:
        own = g.copy()
        if type(leaf) is ndarray and not leaf.flags.c_contiguous and is_dense(leaf):
            own.lie_with(leaf.strides)
        return own
    if hasattr(g, "without_values"):
        return g.copy()
    if type(leaf) is not ndarray or leaf.flags.c_contiguous or not is_dense(leaf):
        return np.array(g, order="C")
    copy = np.empty_like(leaf, dtype=g.dtype)
    copy[...] = g
    return copy


def _add_in_place(grad: TensorCore, g: Any) -> None:
    check_writable(grad, recorded=False)
    array = grad._array
    if g.shape != array.shape:  # the leaf's data was replaced since its last gradient
        broadcast_two(array.shape, g.shape)
    if type(array) is ndarray:
        refuse_overlap(array)
        np.add(array, g, out=array, casting="unsafe")
    else:
        array[...] = array + g
    bump(grad)
