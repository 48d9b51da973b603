"""Hooks of modules: their registrars, on one module and on all, and the call that fires them.

Order of a call: forward pre-hooks, forward, forward hooks; in each, global hooks before the module's own. Every list is
read, with its flags, right before its first hook fires, so hooks may add and remove hooks freely. Backward hooks are
wired into the graph by the call, from the lists as they are then.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from undertow._src.base import hooks
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules._nested_backward_hook import NestedHook
from undertow.nn.modules._nested_backward_hook import around as backward_hook_around
from undertow.nn.modules._parameters_ready import attach as attach_parameters_ready

if TYPE_CHECKING:
    from undertow._src.engine.node import Node
    from undertow._tensor import Tensor

    NewGradients: TypeAlias = tuple[Tensor | None, ...] | Tensor | None

Hooks = OrderedDict[int, hooks.Hook]
Flags = OrderedDict[int, bool]

# Hooks on every module. Tools edit these in place.
_global_backward_pre_hooks: Hooks = hooks.CountedHooks()
_global_backward_hooks: Hooks = hooks.CountedHooks()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: Hooks = hooks.CountedHooks()
_global_forward_hooks: Hooks = hooks.CountedHooks()
_global_forward_hooks_always_called: Flags = hooks.CountedHooks()
_global_forward_hooks_with_kwargs: Flags = hooks.CountedHooks()

_MIXED_KINDS = "Cannot use both regular backward hooks and full backward hooks {}. Please use only one of them."
_ON_ONE, _ON_ALL = "on a single Module", "as a global Module hook"


class ModuleHooks:
    """The part of a module that registers and fires hooks."""

    _is_full_backward_hook: bool | None
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: Flags
    _forward_hooks_always_called: Flags
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: Flags

    # --- registrars

    def register_forward_pre_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...]], Any]
        | Callable[[Self, tuple[Any, ...], dict[str, Any]], tuple[Any, dict[str, Any]] | None],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
    ) -> hooks.RemovableHandle:
        """hook(module, args) -> None or new args; with_kwargs: hook(module, args, kwargs) -> None or (args, kwargs)."""
        return _add(self._forward_pre_hooks, hook, prepend, (self._forward_pre_hooks_with_kwargs, with_kwargs))

    def register_forward_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...], Any], Any] | Callable[[Self, tuple[Any, ...], dict[str, Any], Any], Any],
        *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False,
    ) -> hooks.RemovableHandle:  # fmt: skip
        """hook(module, args, output) -> None or new output; with_kwargs: hook(module, args, kwargs, output).

        With always_call it also runs, with output None, when forward or an earlier hook raised.
        """
        return _add(
            self._forward_hooks, hook, prepend,
            (self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call),
        )  # fmt: skip

    def register_full_backward_pre_hook(
        self, hook: Callable[[Self, tuple[Tensor, ...]], NewGradients] | Callable[[Self, Any], Any],
        prepend: bool = False, *, nested: bool = False,
    ) -> hooks.RemovableHandle:  # fmt: skip
        """hook(module, grad_output) -> None or new grad_output (a tuple), before the module's backward.

        With nested (not in PyTorch) grad_output has the nesting of the output: dicts, lists, dataclasses.
        """
        return _add(self._backward_pre_hooks, NestedHook(hook) if nested else hook, prepend)

    def register_full_backward_hook(
        self,
        hook: Callable[[Self, tuple[Tensor, ...], tuple[Tensor, ...]], NewGradients] | Callable[[Self, Any, Any, Any], Any],
        prepend: bool = False, *, nested: bool = False,
    ) -> hooks.RemovableHandle:  # fmt: skip
        """hook(module, grad_input, grad_output) -> None or new grad_input (a tuple), after the module's backward.

        With nested (not in PyTorch): hook(module, grad_args, grad_kwargs, grad_output) -> None or (grad_args,
        grad_kwargs), each in the nesting of the values it belongs to, keyword arguments included.

        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_output))
        >>> layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
        (tensor([[1.]]),)
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED_KINDS.format(_ON_ONE))
        self._is_full_backward_hook = True
        return _add(self._backward_hooks, NestedHook(hook) if nested else hook, prepend)

    def register_backward_hook(
        self, hook: Callable[[Self, tuple[Tensor, ...], tuple[Tensor, ...]], NewGradients]
    ) -> hooks.RemovableHandle:
        """hook(module, grad_input, grad_output) on the last node of the output: the old, partial kind."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED_KINDS.format(_ON_ONE))
        self._is_full_backward_hook = False
        return _add(self._backward_hooks, hook, False)

    def register_parameters_ready_hook(self, hook: Callable[[Self], None]) -> hooks.RemovableHandle:
        """hook(module) -> ignored, once a backward pass has accumulated the gradients of all parameters here and below.

        Not in PyTorch. Parameters that the pass does not reach are not waited for. The parameters are those that the
        module has now; register it again after adding some.

        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        >>> for layer in model:
        ...     handle = layer.register_parameters_ready_hook(lambda layer: print(layer.weight.grad.shape, "ready"))
        >>> model(torch.ones(1, 2)).sum().backward()
        torch.Size([1, 2]) ready
        torch.Size([2, 2]) ready
        """
        ready = self.__dict__.setdefault("_parameters_ready_hooks", OrderedDict())
        return attach_parameters_ready(ready, self, hook)

    # --- which backward hooks apply

    def _get_backward_hooks(self) -> tuple[list[hooks.Hook], list[hooks.Hook]]:
        """Return the full and the old backward hooks of this module, global ones first."""
        full: list[hooks.Hook] = []
        old: list[hooks.Hook] = []
        if _global_is_full_backward_hook is True:
            full += _global_backward_hooks.values()
        if self._is_full_backward_hook is True:
            full += self._backward_hooks.values()
        if _global_is_full_backward_hook is False:
            old += _global_backward_hooks.values()
        if self._is_full_backward_hook is False:
            old += self._backward_hooks.values()
        return full, old

    def _get_backward_pre_hooks(self) -> list[hooks.Hook]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    # --- the call

    def _wrapped_call_impl(self, *args: object, **kwargs: object) -> Any:
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._backward_hooks or self._backward_pre_hooks or self._forward_hooks or self._forward_pre_hooks
            or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks
        ):  # fmt: skip
            return self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        result: Any = None
        called: set[int] = set()  # always_call hooks that have run
        try:
            full: Sequence[hooks.Hook] = ()
            old: Sequence[hooks.Hook] = ()
            pre: Sequence[hooks.Hook] = ()
            if self._backward_hooks or _global_backward_hooks:
                full, old = self._get_backward_hooks()
            if self._backward_pre_hooks or _global_backward_pre_hooks:
                pre = self._get_backward_pre_hooks()
            if self._forward_pre_hooks or _global_forward_pre_hooks:
                for hook, with_kwargs in _forward_pre_list(self):
                    args, kwargs = _fire_forward_pre_hook(hook, with_kwargs, self, args, kwargs)
            around = None
            if full or pre:
                around = backward_hook_around(self, full, pre)
                args, kwargs = around.enter(args, kwargs)
            result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
            if self._forward_hooks or _global_forward_hooks:
                for identity, hook, with_kwargs, always in _forward_list(self):
                    if always:
                        called.add(identity)
                    answer = _fire_forward_hook(hook, with_kwargs, self, args, kwargs, result)
                    if answer is not None:
                        result = answer
            if around is not None:
                result = around.leave(result)
            if old:
                self._wire_old_hooks(old, args, result)
            return result
        except Exception:
            self._call_despite_error(args, kwargs, result, called)
            raise

    def _call_despite_error(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, called: set[int]) -> None:
        """Run the always_call hooks that have not run yet after an error, which is raised again afterwards."""
        for identity, hook, with_kwargs, always in _forward_list(self):
            if not always or identity in called:
                continue
            try:
                answer = _fire_forward_hook(hook, with_kwargs, self, args, kwargs, result)
            except Exception as error:
                kind = "module" if identity in self._forward_hooks else "global module"
                warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was dropped, as a different "
                    f"error had come from forward: {error}"
                )
                continue
            if answer is not None:
                result = answer

    def _wire_old_hooks(self, old: Sequence[hooks.Hook], args: tuple[Any, ...], result: Any) -> None:
        shown = result
        while not isinstance(shown, TensorCore):
            if isinstance(shown, dict):
                shown = next(value for value in shown.values() if isinstance(value, TensorCore))
            else:
                shown = shown[0]
        node = shown.grad_fn
        if node is not None:
            for hook in old:
                node.register_hook(functools.partial(hook, self))
            self._maybe_warn_non_full_backward_hook(args, result, node)

    def _maybe_warn_non_full_backward_hook(self, args: object, result: object, node: Node) -> None:
        """Warn if a non-full backward hook will not see all gradients."""
        outputs = (result,) if isinstance(result, TensorCore) else result
        if not (isinstance(outputs, tuple) and all(isinstance(part, TensorCore) for part in outputs)):
            _warn_old("hooks on a Module that does not return a single Tensor or tuple", "of the grad_output")
            return
        inputs = (args,) if isinstance(args, TensorCore) else args
        if not (isinstance(inputs, tuple) and all(isinstance(part, TensorCore) for part in inputs)):
            takes = "hooks on a Module that does not take as input a single Tensor or tuple"
            _warn_old(takes, "of the grad_input")
            return
        makers = {part.grad_fn for part in outputs if part.grad_fn is not None}
        if len(makers) > 1 or (len(makers) == 1 and node not in makers):
            _warn_old("hook when outputs are generated by different autograd Nodes", "grad_output")
            return
        sources = {part.grad_fn for part in inputs if part.grad_fn is not None}
        below = {child for child, _ in node.next_functions}
        if below != sources:
            _warn_old("hook when the forward contains multiple autograd Nodes", "grad_input")


def _warn_old(where: str, missing: str) -> None:
    kind = "non-full backward" if where.startswith("hooks") else "a non-full backward"
    warn(
        f"Using {kind} {where} is deprecated and will be removed in future versions. This hook is not given some "
        f"{missing}. Please use register_full_backward_hook to get the documented behavior.",
        FutureWarning,
    )


def _forward_pre_list(module: ModuleHooks) -> list[tuple[hooks.Hook, bool]]:
    """Return the forward pre-hooks, global ones first, each with whether it takes keyword arguments."""
    flags = module._forward_pre_hooks_with_kwargs
    listed = [(hook, False) for hook in _global_forward_pre_hooks.values()]
    return listed + [(hook, identity in flags) for identity, hook in module._forward_pre_hooks.items()]


def _fire_forward_pre_hook(
    hook: hooks.Hook, with_kwargs: bool, module: ModuleHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Run one forward pre-hook and return the arguments to continue with."""
    if not with_kwargs:
        answer = hooks.fire(hook, module, args)
        if answer is not None:
            args = answer if isinstance(answer, tuple) else (answer,)
        return args, kwargs
    answer = hooks.fire(hook, module, args, kwargs)
    if answer is None:
        return args, kwargs
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}.")
    return answer


def _fire_forward_hook(
    hook: hooks.Hook, with_kwargs: bool, module: ModuleHooks, args: object, kwargs: dict[str, Any], result: object
) -> Any:
    if with_kwargs:
        return hooks.fire(hook, module, args, kwargs, result)
    return hooks.fire(hook, module, args, result)


def _forward_list(module: ModuleHooks) -> list[tuple[int, hooks.Hook, bool, bool]]:
    """Return the forward hooks with their flags, global ones first: (id, hook, with_kwargs, always_call)."""
    listed = [
        (identity, hook, identity in _global_forward_hooks_with_kwargs, identity in _global_forward_hooks_always_called)
        for identity, hook in _global_forward_hooks.items()
    ]
    return listed + [
        (identity, hook, identity in module._forward_hooks_with_kwargs, identity in module._forward_hooks_always_called)
        for identity, hook in module._forward_hooks.items()
    ]


def _add(own: Hooks, hook: hooks.Hook, prepend: bool, *flags: tuple[Flags, bool]) -> hooks.RemovableHandle:
    """Add a hook with its flags; its handle removes all of that."""
    handle = hooks.RemovableHandle(own, extra_dict=[flagged for flagged, _ in flags])
    own[handle.id] = hook
    for flagged, on in flags:
        if on:
            flagged[handle.id] = True
    if prepend:
        own.move_to_end(handle.id, last=False)
    return handle


# --- hooks on every module


def register_module_forward_pre_hook(hook: hooks.Hook) -> hooks.RemovableHandle:
    """hook(module, args) -> None or new args, before every module's forward."""
    return _add(_global_forward_pre_hooks, hook, False)


def register_module_forward_hook(
    hook: hooks.Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> hooks.RemovableHandle:
    """hook(module, args, output) -> None or new output, after every module's forward."""
    return _add(
        _global_forward_hooks, hook, False,
        (_global_forward_hooks_with_kwargs, with_kwargs), (_global_forward_hooks_always_called, always_call),
    )  # fmt: skip


def register_module_full_backward_pre_hook(hook: hooks.Hook, *, nested: bool = False) -> hooks.RemovableHandle:
    """hook(module, grad_output) -> None or new grad_output, before every module's backward."""
    return _add(_global_backward_pre_hooks, NestedHook(hook) if nested else hook, False)


def register_module_full_backward_hook(hook: hooks.Hook, *, nested: bool = False) -> hooks.RemovableHandle:
    """hook(module, grad_input, grad_output) -> None or new grad_input, after every module's backward."""
    return _register_global_backward(NestedHook(hook) if nested else hook, True)


def register_module_backward_hook(hook: hooks.Hook) -> hooks.RemovableHandle:
    """Register a backward hook of the old, partial kind on every module."""
    return _register_global_backward(hook, False)


def _register_global_backward(hook: hooks.Hook, full: bool) -> hooks.RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(_MIXED_KINDS.format(_ON_ALL))
    _global_is_full_backward_hook = full
    return _add(_global_backward_hooks, hook, False)


def has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks or _global_backward_hooks or _global_forward_hooks or _global_forward_pre_hooks
    )
