"""`torch._tensor_str`: the printing of tensors, under the names that packages import."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.tensor.printing import _columns, _contents, _notated, _notation
from undertow._src.tensor.printing import _options as PRINT_OPTS  # noqa: F401
from undertow._src.tensor.printing import get_printoptions as get_printoptions
from undertow._src.tensor.printing import printoptions as printoptions
from undertow._src.tensor.printing import set_printoptions as set_printoptions

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """Return a tensor as text."""
    return repr(self) if tensor_contents is None else f"tensor({tensor_contents})"


def _tensor_str(self: Any, indent: int) -> str:
    """Return the elements of a tensor as text, with lines after the first indented."""
    return _contents(self.detach()._array, indent)


class _Formatter:
    """Formats numbers like the elements of a tensor: in the same notation and column width."""

    def __init__(self, tensor: Any) -> None:
        array = tensor.detach()._array
        self.floating_dtype = tensor.is_floating_point()
        self.max_width = _columns(array)[1] if array.size else 1
        self.int_mode, self.sci_mode = True, False
        if self.floating_dtype:
            values = array.astype(np.float64).ravel()
            self.int_mode, self.sci_mode = _notation(values[np.isfinite(values) & (values != 0)])

    def width(self) -> int:
        """Return the width of a column."""
        return self.max_width

    def format(self, value: Any) -> str:
        """Return a number as text."""
        text = _notated(np.array([value]), self.int_mode, self.sci_mode)[0] if self.floating_dtype else f"{value}"
        return text.rjust(self.max_width)
