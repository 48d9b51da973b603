"""What can go wrong when a step is compiled."""

from __future__ import annotations

import os

import jax

from undertow._src.arrays.device.memory import NeedsValue, TraceAborted
from undertow._src.arrays.jax.tracing import ShapeNeedsValues
from undertow._src.base.sites import PACKAGE

# What JAX raises where code of undertow's asks a value of it that only the program has.
OF_JAX = (
    jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError, jax.errors.UnexpectedTracerError,
)  # fmt: skip
_FOREIGN = (PACKAGE, os.path.dirname(os.path.abspath(jax.__file__)) + os.sep)


class CompileError(TraceAborted, RuntimeError):
    """The step can't be one program that does what the Python code does; the message names the line, or the hook."""


class RunsAsWritten(TraceAborted, Exception):
    """The call runs as it is written, because it leaves something that later calls find: they are other steps."""


class CompileWarning(UserWarning):
    """The step was compiled, and something about it deserves a look."""


def explained(error: Exception) -> CompileError:
    """Return a CompileError that says what was asked of values that are not known, and where."""
    if isinstance(error, NeedsValue):
        return CompileError(f"undertow.compile: {error}")
    what = str(error).partition("\n")[0]
    if not isinstance(error, ShapeNeedsValues):
        what = (
            f"something depends on values that only the program has. Keep it to operations on tensors. JAX says: {what}"
        )
    return CompileError(f"undertow.compile: at {line_of(error)}, {what}")


def line_of(error: BaseException) -> str:
    """Return the user's line from which an exception came."""
    line, trace = "an unknown line", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_FOREIGN):
            line = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line
