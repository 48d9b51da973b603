"""Adding a gradient into a leaf's `.grad`."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from undertow._core import InferenceStorage, TensorCore, wrap
from undertow.autograd import firing
from undertow.autograd.apply import apply
from undertow.autograd.node import AccumulateGrad
from undertow.modes import local, special
from undertow.rules.rule import op

ndarray = np.ndarray

copy_gradient = op("copy", lambda xp, self: xp.copy(self), node="CopyBackwards", self=lambda g: g)


def accumulate(task: Any, node: AccumulateGrad, g: Any) -> None:
    """Adds g to the leaf's gradient, in place unless the pass is recorded, then fires post-accumulate hooks.

    A gradient that nobody else holds becomes `.grad` itself; any other is copied, since a later backward will add to
    `.grad` in place.
    """
    leaf = node.variable
    meta = leaf._meta
    if g is not None:
        if type(g) is ndarray and g.dtype is not leaf._array.dtype:
            g = g.astype(leaf._array.dtype, copy=False)
        with node.lock:
            grad = meta.grad
            if isinstance(g, TensorCore):
                meta.grad = _first_recorded(g) if grad is None else grad + g
            elif grad is None:
                meta.grad = wrap(g if _is_ours(g) else _copy_like(g, leaf._array))
                if special.active and local.modes.inference:
                    meta.grad._storage = InferenceStorage()
            elif type(grad._array) is ndarray:
                np.add(grad._array, g, out=grad._array, casting="unsafe")
                grad._get_storage().version += 1
            else:
                grad._array = grad._array + g
    if meta.post_hooks:
        firing.fire_post_accumulate_hooks(leaf, meta.post_hooks)


def _first_recorded(g: Any) -> Any:
    return apply(copy_gradient, g)


def _is_ours(g: Any) -> bool:
    """Whether nobody but the engine holds this array. A view, or a stretched or transposed array, is not ours."""
    return type(g) is ndarray and g.base is None and getrefcount(g) <= _ALONE and g.flags.c_contiguous


def _copy_like(g: Any, leaf_array: Any) -> Any:
    if type(leaf_array) is ndarray and leaf_array.flags.c_contiguous:
        return np.array(g, order="C")
    copy = np.empty_like(leaf_array)
    copy[...] = g
    return copy


def _count_alone() -> int:
    """The reference count that `_is_ours` sees for an array held only by the engine's loop, found by asking."""
    counts: list[int] = []

    def outer(arrived: dict[int, Any]) -> None:
        g = arrived.pop(0)
        middle(None, None, g)

    def middle(task: Any, node: Any, g: Any) -> None:
        if g is not None:
            inner(g)

    def inner(g: Any) -> None:
        counts.append(getrefcount(g))

    outer({0: np.zeros(())})
    return counts[0]


_ALONE = _count_alone()
