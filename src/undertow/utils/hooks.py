"""The handle that removes a hook, and hooks that pickling may drop silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from undertow._src.base.hooks import RemovableHandle as RemovableHandle
from undertow._src.base.hooks import warn_if_has_hooks as warn_if_has_hooks
from undertow._src.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"BackwardHook": "undertow.nn.modules._backward_hook"})

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Mark a hook that pickling a tensor may drop without a warning."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f
