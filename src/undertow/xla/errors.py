"""What can go wrong when a step is compiled."""

from __future__ import annotations

import os

from undertow.xp.device_memory import NeedsValue, Stops
from undertow.xp.jax_tracing import ShapeNeedsValues

_FOREIGN = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, f"{os.sep}jax{os.sep}")


class CompileError(Stops, RuntimeError):
    """The step can't be one program that does what the Python code does; the message names the line, or the hook."""


class CompileWarning(UserWarning):
    """The step was compiled, and something about it deserves a look."""


def explained(error: Exception) -> CompileError:
    """A CompileError that says what was asked of values that are not known, and where."""
    if isinstance(error, NeedsValue):
        return CompileError(f"undertow.compile: {error}")
    site, trace = "an unknown line", error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        name, home = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
        if home.partition(".")[0] not in ("undertow", "jax") and not any(part in name for part in _FOREIGN):
            site = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    what = str(error).partition("\n")[0]
    if not isinstance(error, ShapeNeedsValues):
        what = f"something depends on values that only the program has. Keep it to operations on tensors. JAX says: {what}"
    return CompileError(f"undertow.compile: at {site}, {what}")
