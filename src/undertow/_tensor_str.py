"""`torch._tensor_str`: how tensors print, by the names under which packages look for it."""

from __future__ import annotations

from typing import Any

from undertow.printing import _contents
from undertow.printing import _options as PRINT_OPTS  # noqa: F401
from undertow.printing import get_printoptions as get_printoptions
from undertow.printing import printoptions as printoptions
from undertow.printing import set_printoptions as set_printoptions

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """A tensor as text."""
    return repr(self) if tensor_contents is None else f"tensor({tensor_contents})"


def _tensor_str(self: Any, indent: int) -> str:
    """The elements of a tensor as text, lines after the first indented."""
    return _contents(self.detach()._array, indent)
