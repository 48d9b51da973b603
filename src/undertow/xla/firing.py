"""Hooks in a step that is compiled: where each one runs, decided before it runs for the first time.

A hook that only computes with tensors runs during the trace and so becomes part of the program. A hook that does something
else as well (prints, appends, counts) has to do it on every call, so it runs on the host with real values:

    after     it returns nothing, so nothing waits for it: it runs once the program has finished, in its turn
    inside    its result is needed: the program stops for it (an ordered callback) and goes on with what it returns
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._core import TensorCore, wrap
from undertow.modes import local, no_grad, set_grad_enabled
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer
from undertow.tree import leaves, map_leaves
from undertow.xla.effects import Effect, Exactly, Kind, Read, analyse
from undertow.xla.errors import CompileError
from undertow.xla.state import where_defined
from undertow.xp.device import DeviceArray, NeedsValue


class Placed:
    """Where a hook runs, and why; for `explain`."""

    __slots__ = ("hook", "name", "where", "runs", "why")

    def __init__(self, hook: Any, runs: str, why: str) -> None:
        self.hook, self.runs, self.why = hook, runs, why
        self.name = getattr(hook, "__qualname__", None) or type(hook).__name__
        self.where = where_defined(hook)

    def __repr__(self) -> str:
        return f"{self.name} ({self.where}) runs {self.runs}: {self.why}"


class Later:
    """A hook that runs after the program: its arguments as they were when its turn came."""

    __slots__ = ("hook", "args", "kwargs", "patches", "recording")

    def __init__(self, hook: Any, args: Any, kwargs: Any) -> None:
        self.hook = hook
        self.patches: list[tuple[Any, DeviceArray, Any]] = []  # tensors from outside: what they, and their .grad, were
        self.args = map_leaves(self._kept, args)
        self.kwargs = map_leaves(self._kept, kwargs)
        self.recording = local.modes.grad_enabled

    def _kept(self, value: Any) -> Any:
        if isinstance(value, TensorCore):
            if (value._edge is None and value._requires_grad) or value._meta is not None:
                grad = value._meta.grad if value._meta is not None else None
                self.patches.append((value, value._array.copy(), None if grad is None else _frozen(grad)))
                return value
            return _frozen(value)
        return value

    def run(self) -> None:
        """Calls the hook with the values of this call."""
        before = []
        for tensor, array, grad in self.patches:
            meta = tensor._get_meta()
            before.append((tensor, tensor._array, meta.grad))
            tensor._array = DeviceArray(array.value)
            meta.grad = None if grad is None else _fresh(grad)
        try:
            with set_grad_enabled(self.recording):
                answer = self.hook(*map_leaves(_fresh, self.args), **map_leaves(_fresh, self.kwargs))
        finally:
            for tensor, array, grad in before:
                tensor._array = array
                tensor._meta.grad = grad
        if answer is not None:
            raise CompileError(f"{Placed(self.hook, 'after', '')!r} and returned a value, which comes too late")


def _frozen(tensor: Any) -> Any:
    """A tensor that goes on showing the present value, whatever is written to the original."""
    twin = wrap(tensor._array.copy())
    twin._requires_grad, twin._edge = tensor._requires_grad, tensor._edge
    return twin


def _fresh(value: Any) -> Any:
    """A tensor of a hook's own for each call."""
    if isinstance(value, TensorCore) and type(value._array) is DeviceArray and value._meta is None:
        return _frozen(value)
    return value


class Firing:
    """Takes the place of `hooks.fire` while a step is traced."""

    def __init__(self) -> None:
        self.later: list[Later] = []
        self.placed: list[Placed] = []
        self.reads: list[Read] = []  # values that hooks in the program depend on
        self.stores: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # where they store something, and what was there

    def __call__(self, hook: Any, *args: Any, **kwargs: Any) -> Any:
        if is_own(hook):  # undertow's own bookkeeping, made of tensor work
            return hook(*args, **kwargs)
        effects = analyse(hook, [_kind(arg) for arg in args])
        holders = [holder for holder in map(_holder, effects.effects) if holder is not None]
        if len(holders) == len(effects.effects):  # at most stores, which come out the same on every call
            self.reads += effects.reads
            self.stores += [(holder, dict(holder)) for holder in holders]
            try:
                answer = hook(*args, **kwargs)
            except NeedsValue as error:
                return self._inside(hook, args, kwargs, f"it needs a value: {error}")
            self.placed.append(Placed(hook, "in the program", "it only computes with tensors"))
            return answer
        first = effects.effects[0]
        why = f"it {first.what} (line {first.line})"
        if effects.returns is False:
            self.later.append(Later(hook, args, kwargs))
            self.placed.append(Placed(hook, "after the program", why))
            return None
        return self._inside(hook, args, kwargs, why)

    def _inside(self, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        """An ordered callback, which gives back what the hook makes of its argument."""
        changed = _changed_argument(args)
        if changed is None:
            raise CompileError(f"{Placed(hook, 'nowhere', why)!r}, and undertow can't tell what its result would change")
        tensors: list[Any] = []
        shape = map_leaves(lambda part: _Place(tensors, part) if isinstance(part, TensorCore) else part, (args, kwargs))
        results = [part for part in leaves(args[changed]) if isinstance(part, TensorCore)]
        specs = [jax.ShapeDtypeStruct(part._array.shape, part._array.dtype) for part in results]

        def on_host(*arrays: Any) -> Any:
            given_args, given_kwargs = map_leaves(
                lambda part: wrap(np.array(arrays[part.place])) if type(part) is _Place else part, shape
            )
            with no_grad():
                answer = hook(*given_args, **given_kwargs)
            chosen = given_args[changed] if answer is None else answer
            return [np.asarray(part.numpy()) for part in leaves(chosen) if isinstance(part, TensorCore)]

        values = io_callback(on_host, specs, *[tensor._array.value for tensor in tensors], ordered=True)
        self.placed.append(Placed(hook, "inside the program, on the host", why))
        fresh = iter([wrap(DeviceArray(value)) for value in values])
        return map_leaves(lambda part: next(fresh) if isinstance(part, TensorCore) else part, args[changed])


class _Place:
    """Where in a callback's arguments a tensor comes."""

    __slots__ = ("place",)

    def __init__(self, tensors: list[Any], tensor: Any) -> None:
        self.place = len(tensors)
        tensors.append(tensor)


def _changed_argument(args: tuple[Any, ...]) -> int | None:
    """Which argument a hook's result replaces; see `hooks.POINTS`."""
    if len(args) == 1 and not isinstance(args[0], (Module, Optimizer)):
        return 0
    if isinstance(args[0], Module):
        return 1 if len(args) == 2 or local.modes.backward_pass is not None else len(args) - 1
    return 0 if isinstance(args[0], tuple) else None


def _kind(arg: Any) -> Kind:
    if isinstance(arg, (Module, Optimizer)):
        return Exactly(arg)
    return "tensor" if isinstance(arg, TensorCore) else "tensors" if isinstance(arg, tuple) else "other"


def _holder(effect: Effect) -> dict[Any, Any] | None:
    """The mapping that a store changes, if it is one that gives the same on every call."""
    if effect.kind != "store" or effect.target is None:
        return None
    return effect.target if isinstance(effect.target, dict) else getattr(effect.target, "__dict__", None)


def is_own(hook: Any) -> bool:
    """Whether a hook is undertow's own."""
    home = getattr(hook, "__module__", None) or type(hook).__module__
    return (home or "").partition(".")[0] == "undertow"
