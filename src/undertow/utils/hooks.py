"""The handle that hooks are removed with, and hooks that pickling may drop without a word."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from undertow.hooks import RemovableHandle as RemovableHandle
from undertow.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"BackwardHook": "undertow.nn.modules._backward_hook"})

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Marks a hook whose loss when a tensor is pickled is expected, so that nobody warns about it."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns of the hooks on a tensor that a pickle would drop."""
    for hook in (tensor._backward_hooks or {}).values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
