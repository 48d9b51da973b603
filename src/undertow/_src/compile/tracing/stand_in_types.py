"""The class of the classes that stand for `int` and `float` in a trace: code that looks at `type(n)` must not notice them.

`type(n)` can't be made to give `int`. So if code of the user looks at the class itself (`str(type(n))`, `table[type(n)]`),
the step is traced again, with plain numbers.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from undertow._src.base import tracer
from undertow._src.compile.effects import purity
from undertow._src.compile.tracing.current_trace import running_trace

_OPERATORS = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
_REFLECTED = {f"__r{operator}__" for operator in _OPERATORS.split()}


class StandInType(type):
    """The class of classes of stand-ins."""

    def __hash__(cls) -> int:
        _ask()
        return type.__hash__(cls)

    def __eq__(cls, other: object) -> bool:
        _ask()
        return cls is other

    def __repr__(cls) -> str:
        _ask()
        return type.__repr__(cls)

    def __getattribute__(cls, name: str) -> Any:
        if not name.startswith("__array") and name not in _REFLECTED:  # which NumPy looks up
            _ask()
        return type.__getattribute__(cls, name)


def _ask() -> None:
    """Trace again with plain numbers, if code of the user looks at a class."""
    if tracer.current is not None and tracer.current.is_here():
        frame = _asking(sys._getframe(2))
        if frame is not None:
            running_trace().rule_out_stand_ins()


def _asking(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the user's code that looks at a class, directly or through the standard library."""
    if frame is not None and frame.f_globals.get("__name__") in ("abc", __name__):  # `isinstance` asks for the class
        return None
    while frame is not None and purity.origin_of_file(frame.f_code.co_filename) == "standard":
        frame = frame.f_back
    if frame is None or purity.origin_of_file(frame.f_code.co_filename) != "user":
        return None
    return None if str(frame.f_globals.get("__name__")).partition(".")[0] in _OTHERS else frame


_OTHERS = ("jax", "jaxlib", "ml_dtypes")
