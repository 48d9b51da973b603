"""What a profiler notes of a call: the function's name, the user's lines on the stack, the number of operations."""

from __future__ import annotations

import math
import sys
from pathlib import Path

_HERE = str(Path(__file__).parents[3])

# The methods of Python's operators, and the functions that they call.
OPERATORS = {
    "__truediv__": "div", "__rtruediv__": "reciprocal", "__floordiv__": "floor_divide", "__mod__": "remainder",
    "__getitem__": "index", "__setitem__": "index_put_", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "__invert__": "bitwise_not", "__rsub__": "rsub",
} | {
    f"__{side}{name}__": name if side != "i" else f"{name}_"
    for side in ("", "r", "i") for name in ("add", "sub", "mul", "matmul", "pow") if (side, name) != ("r", "sub")
} | {f"__{name}__": name for name in ("neg", "abs", "eq", "ne", "lt", "le", "gt", "ge")}  # fmt: skip


def calling_lines() -> list[str]:
    """Return the user's lines on the stack, the innermost first."""
    lines, frame = [], sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_HERE):
            lines.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return lines


def operations(name: str, shapes: list[list[int]]) -> int:
    """Return the number of additions and multiplications of a function; 0 if it is not counted."""
    if name in ("mm", "matmul", "bmm", "addmm", "baddbmm") and len(shapes) >= 2:
        one, other = shapes[-2:] if name.startswith(("add", "badd")) else shapes[:2]
        if len(one) >= 2 and len(other) >= 2:
            return 2 * math.prod(one) * other[-1]
    if name in ("add", "mul") and shapes:
        return math.prod(max(shapes, key=math.prod))
    return 0
