"""`swap_tensors`: exchange the contents of two tensors, which keep their identities."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from undertow._src.base.hooks import CountedHooks
from undertow._src.engine.saved import SavedValue
from undertow._src.tensor.core import TensorCore, View, wrap

_PARTS = ("_array", "_edge", "_requires_grad", "_storage", "_view", "_meta")


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange two tensors: memory, class, attributes, hooks, gradients. References to one now see the other.

    Raises while a graph holds one of them as a saved tensor. A graph that leads to one of them fails when its gradient
    arrives there.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, TensorCore):
            raise AttributeError(
                f"'{type(tensor).__name__}' object has no attribute '_use_count': {name} is not a tensor"
            )
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if _slots(type(t1)) != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        meta = tensor._meta
        accumulator = meta.accumulator() if meta is not None and meta.accumulator is not None else None
        if accumulator is None:
            continue
        if any(isinstance(holder, (SavedValue, View)) for holder in gc.get_referrers(tensor)):
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2 without a graph that keeps it: first delete its views and "
                "the results computed from it"
            )
        _poison(accumulator, tensor)
    for part in _PARTS:
        mine, theirs = getattr(t1, part), getattr(t2, part)
        setattr(t1, part, theirs)
        setattr(t2, part, mine)
    CountedHooks.changes += 1
    t1.__class__, t2.__class__ = type(t2), type(t1)
    mine, theirs = dict(t1.__dict__), dict(t2.__dict__)
    t1.__dict__.clear()
    t1.__dict__.update(theirs)
    t2.__dict__.clear()
    t2.__dict__.update(mine)


def _poison(accumulator: Any, tensor: Any) -> None:
    """Make a graph fail if it leads to a swapped leaf, whose accumulator no longer belongs to the tensor."""
    tensor._meta.accumulator = None
    former = wrap(tensor._array)
    former._requires_grad = True
    former._get_meta().accumulator = weakref.ref(accumulator)
    accumulator.variable = former
    accumulator.register_prehook(_refuse_gradient)


def _refuse_gradient(gradients: Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the leaf that it leads to was exchanged "
        "with another tensor after the forward pass. Convert a module before its forward pass or after its backward pass."
    )


def _slots(cls: type) -> set[str]:
    return {name for base in cls.__mro__ if base is not TensorCore for name in vars(base).get("__slots__", ())}


def set_module(obj: Any, mod: str) -> None:
    """Set the `__module__` of an object."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
