"""Record the line that switched gradient mode off: a `with`, a decorator or a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

_MADE = "_undertow_why_made"  # the place where a context manager was made
_BEFORE = "_undertow_why_before"  # the values of `watcher.off` from before it was entered


class Modes:
    """Maintains `watcher.off`: the place that switched gradient mode off, or None while it is on."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def install(self, patches: Patches) -> None:
        torch = self.watcher.engine.torch
        for cls in (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode):
            at_once = cls is torch.set_grad_enabled
            patches.wrap(cls, "__init__", partial(self._made, at_once=at_once))
            patches.wrap(cls, "__enter__", self._entered)
            patches.wrap(cls, "__exit__", self._left)
            patches.wrap(cls, "clone", self._cloned)
        patches.wrap(torch.set_grad_enabled, "__call__", self._decorated)

    def _switches_off(self, context: Any) -> bool:
        torch = self.watcher.engine.torch
        if isinstance(context, torch.enable_grad):
            return False
        return isinstance(context, torch.no_grad) or bool(getattr(context, "mode", True))

    def _responsible(self, context: Any, place: Place | None) -> Place | None:
        torch = self.watcher.engine.torch
        if isinstance(context, torch.set_grad_enabled):
            return None if context.mode else place
        return place if self._switches_off(context) else None

    def _made(self, original: Callable[..., Any], at_once: bool) -> Callable[..., Any]:
        def __init__(context: Any, *args: Any, **kwargs: Any) -> None:
            watcher = self.watcher
            before = watcher.off
            original(context, *args, **kwargs)
            place = watcher.here()
            setattr(context, _MADE, place)
            if at_once:  # set_grad_enabled(False) also works as a plain call
                setattr(context, _BEFORE, [before])
                # If the mode is already off, library code that sets it again, as step() does, is not responsible.
                again = before is not None and not watcher.places.is_user(sys._getframe(1).f_code)
                watcher.off = self._responsible(context, before if again else place)

        return __init__

    def _entered(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __enter__(context: Any) -> Any:
            watcher = self.watcher
            before = watcher.off
            result = original(context)
            # For a `with` in user code, the place is that line. A decorator is entered by library code: its own line.
            inside_user = watcher.places.is_user(sys._getframe(1).f_code)
            place = watcher.here() if inside_user else getattr(context, _MADE, None)
            stack = getattr(context, _BEFORE, None)
            if stack is None:
                setattr(context, _BEFORE, stack := [])
            stack.append(before)
            watcher.off = self._responsible(context, place)
            return result

        return __enter__

    def _left(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __exit__(context: Any, *exception: Any) -> Any:
            stack = getattr(context, _BEFORE, None)
            result = original(context, *exception)
            if stack:
                at_once = isinstance(context, self.watcher.engine.torch.set_grad_enabled)
                self.watcher.off = stack[0] if at_once else stack.pop()
            return result

        return __exit__

    def _decorated(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(context: Any, function: Any) -> Any:
            result = original(context, function)  # this undoes the switch that making the decorator caused
            self.watcher.off = getattr(context, _BEFORE, [None])[0]
            return result

        return __call__

    def _cloned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clone(context: Any) -> Any:
            before = self.watcher.off
            result = original(context)
            self.watcher.off = before
            setattr(result, _MADE, getattr(context, _MADE, None))
            return result

        return clone
