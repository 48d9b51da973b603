"""`torch._C._functorch`: how packages ask whether a tensor is one example inside `torch.func.vmap`."""

from __future__ import annotations

from typing import Any

from undertow.func._vmapping import MappedLevel, open_levels

__all__ = ["get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor"]


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is one example inside a vmap."""
    return isinstance(getattr(tensor, "_level", None), MappedLevel)


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor is wrapped for a derivative: derivatives need no wrapping here."""
    return False


def get_unwrapped(tensor: Any) -> Any:
    """Return the whole tensor, all examples along its first dim."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present!")
    return tensor._value


def maybe_get_bdim(tensor: Any) -> int:
    """Which dim of the whole tensor holds the examples; -1 of a plain tensor."""
    return 0 if is_batchedtensor(tensor) else -1


def maybe_get_level(tensor: Any) -> int:
    """Which vmap a tensor belongs to, the outermost being 1; -1 of a plain tensor."""
    return tensor._level.number if is_batchedtensor(tensor) else -1


def maybe_current_level() -> int | None:
    """Return the number of the innermost vmap at work."""
    levels = open_levels()
    return levels[-1].number if levels else None


def peek_interpreter_stack() -> Any:
    """Return the innermost transform at work, or None."""
    levels = open_levels()
    return levels[-1] if levels else None
