"""Full backward hooks for nested inputs and outputs and for keyword arguments.

Registered with `nested=True`, a hook gets gradients in the nesting of the values they belong to: tuples, lists, dicts
and dataclasses, with None where there is no tensor or no gradient.

    hook(module, grad_args, grad_kwargs, grad_output) -> None or (new grad_args, new grad_kwargs)
    pre_hook(module, grad_output) -> None or new grad_output
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base import hooks
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules import _backward_hook as plain
from undertow.nn.modules._backward_hook import BackwardHook, through_identity

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow.nn.modules._hook_registry import ModuleHooks


class NestedHook:
    """A hook in a module's map that was registered with nested=True."""

    def __init__(self, hook: hooks.Hook) -> None:
        self.hook = hook

    def __call__(self, *args: object) -> Any:
        return hooks.fire(self.hook, *args)

    def __repr__(self) -> str:
        return f"NestedHook({self.hook!r})"


def around(module: ModuleHooks, user_hooks: Sequence[hooks.Hook], user_pre_hooks: Sequence[hooks.Hook]) -> BackwardHook:
    """Return the hooks around a call: the plain kind, unless one was registered with nested=True."""
    for hook in (*user_hooks, *user_pre_hooks):
        if type(hook) is NestedHook:
            return NestedBackwardHook(module, user_hooks, user_pre_hooks)
    return BackwardHook(module, user_hooks, user_pre_hooks)


# --- nesting


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def flatten(value: Any, into: list[Any]) -> None:
    """Append the leaves of nested containers, in order."""
    if isinstance(value, (tuple, list)):
        for part in value:
            flatten(part, into)
    elif isinstance(value, dict):
        for part in value.values():
            flatten(part, into)
    elif _is_dataclass(value):
        for field in dataclasses.fields(value):
            flatten(getattr(value, field.name), into)
    else:
        into.append(value)


def rebuild(like: Any, take: Callable[[], Any]) -> Any:
    """Return the same nesting with new leaves, taken in order, in new containers of the same classes."""
    if isinstance(like, tuple):
        parts = [rebuild(part, take) for part in like]
        return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)
    if isinstance(like, list):
        return type(like)([rebuild(part, take) for part in like])
    if isinstance(like, dict):
        twin = copy.copy(like)
        for key, part in like.items():
            twin[key] = rebuild(part, take)
        return twin
    if _is_dataclass(like):
        twin = copy.copy(like)
        for field in dataclasses.fields(like):
            object.__setattr__(twin, field.name, rebuild(getattr(like, field.name), take))
        return twin
    return take()


def same_nesting(one: Any, other: object) -> bool:
    """Whether two values have the same containers with leaves at the same positions."""
    if isinstance(one, (tuple, list)):
        return (
            isinstance(other, type(one)) and len(one) == len(other)
            and all(same_nesting(a, b) for a, b in zip(one, other, strict=True))
        )  # fmt: skip
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and one.keys() == other.keys() and all(same_nesting(one[k], other[k]) for k in one)
        )
    if _is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(same_nesting(getattr(one, n), getattr(other, n)) for n in names)
    return other is None or isinstance(other, TensorCore)


# --- one call


class NestedBackwardHook(BackwardHook):
    """The hooks around one call of a module with at least one nested hook. Plain hooks run too, where they can fire."""

    __slots__ = ("arguments", "output", "plain_places")

    def __init__(
        self, module: ModuleHooks, user_hooks: Sequence[hooks.Hook], user_pre_hooks: Sequence[hooks.Hook]
    ) -> None:
        super().__init__(module, user_hooks, user_pre_hooks)
        self.arguments: tuple[Any, Any] = ((), {})  # nestings, with None at all leaves
        self.output: Any = None
        self.plain_places: list[int] | None = None  # where a plain hook's grad_output is among the leaves

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        ends: list[Any] = []
        flatten((args, kwargs), ends)
        self.n_inputs = len(ends)
        self.arguments = rebuild((args, kwargs), lambda: None)
        passed = through_identity(ends, self._at_inputs)
        if passed is None:
            return args, kwargs
        values, self.input_places = passed
        return rebuild((args, kwargs), iter(values).__next__)

    def leave(self, output: Any) -> Any:
        ends: list[Any] = []
        flatten(output, ends)
        self.n_outputs = len(ends)
        self.output = rebuild(output, lambda: None)
        if isinstance(output, TensorCore):
            self.plain_places = [0]
        elif isinstance(output, tuple) and all(not isinstance(part, (tuple, list, dict)) for part in output):
            self.plain_places = list(range(len(output)))
        elif any(type(hook) is not NestedHook for hook in (*self.user_hooks, *self.user_pre_hooks)):
            self._warn_that_hooks_cannot_fire(f"{type(output)}")
        passed = through_identity(ends, self._at_outputs)
        if passed is None:
            return output
        values, self.output_places = passed
        return rebuild(output, iter(values).__next__)

    def _at_outputs(self, xp: Namespace, arrived: Sequence[Any], passed: tuple[Any, ...]) -> tuple[Any, ...]:
        shown = [plain._shown(part) for part in arrived]
        ends = before = plain._spread(shown, self.output_places, self.n_outputs)
        by = None  # the hook that replaced them
        for hook in self.user_pre_hooks:
            if type(hook) is NestedHook:
                answer = hooks.fire(hook.hook, self.module, rebuild(self.output, iter(ends).__next__))
                if answer is not None:
                    ends, by = self._ends_of(answer, self.output, "grad_output"), hook.hook
            elif self.plain_places is not None:
                answer = hooks.fire(hook, self.module, ends)
                if answer is not None:
                    plain._check_count(hook, answer, ends, "Backward pre hook", "grad_output")
                    ends, by = tuple(answer), hook
        self.grad_outputs = ends
        if self.input_places is None:
            self._fire_hooks((None,) * self.n_inputs)
        if ends is before:
            return tuple(arrived)
        return plain._checked(by, xp, shown, [ends[place] for place in self.output_places])

    def _at_inputs(self, xp: Namespace, arrived: Sequence[Any], passed: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_outputs is None:
            return passed
        assert self.input_places is not None
        shown = [plain._shown(part) for part in passed]
        before = plain._spread(shown, self.input_places, self.n_inputs)
        ends, by = self._fire_hooks(before)
        if ends is before:
            return passed
        return plain._checked(by, xp, shown, [ends[place] for place in self.input_places])

    def _fire_hooks(self, ends: tuple[Any, ...]) -> tuple[tuple[Any, ...], hooks.Hook | None]:
        """Run the hooks on the gradients of all leaves; return the result and the last hook that changed it."""
        by: hooks.Hook | None = None
        grad_outputs, self.grad_outputs = self.grad_outputs, None
        assert grad_outputs is not None
        for hook in self.user_hooks:
            grad_args, grad_kwargs = rebuild(self.arguments, iter(ends).__next__)
            if type(hook) is NestedHook:
                shown = rebuild(self.output, iter(grad_outputs).__next__)
                answer = hooks.fire(hook.hook, self.module, grad_args, grad_kwargs, shown)
            elif self.plain_places is not None:
                flat = tuple([part if isinstance(part, TensorCore) else None for part in grad_args])
                answer = hooks.fire(hook, self.module, flat, grad_outputs)
                if answer is not None:
                    plain._check_count(hook, answer, flat, "Backward hook", "grad_input")
                    kept = [new if isinstance(old, TensorCore) else old for old, new in zip(grad_args, answer)]
                    answer = (tuple(kept), grad_kwargs)
            else:
                continue
            if answer is not None:
                ends = self._ends_of(answer, self.arguments, "(grad_args, grad_kwargs)")
                by = hook.hook if type(hook) is NestedHook else hook
        return ends, by

    def _ends_of(self, answer: object, wanted: object, what: str) -> tuple[Any, ...]:
        """Return a hook's result, flattened, after checking that its nesting fits."""
        if not same_nesting(wanted, answer):
            raise RuntimeError(
                f"A nested backward hook of {type(self.module).__name__} returned another nesting than it was given. "
                f"Return None, or {what} in the same nesting with a tensor or None at every leaf."
            )
        ends: list[Any] = []
        flatten(answer, ends)
        return tuple(ends)
