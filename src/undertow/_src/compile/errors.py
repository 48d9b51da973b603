"""The errors and warnings of compiling a step."""

from __future__ import annotations

import os

import jax

from undertow._src.arrays.device.memory import NeedsValue, TraceAborted
from undertow._src.arrays.jax.tracing import ShapeNeedsValues
from undertow._src.base.sites import PACKAGE

# JAX's errors if undertow's own code needs a value that only the running program has.
OF_JAX = (
    jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError, jax.errors.UnexpectedTracerError,
)  # fmt: skip
FOREIGN = (PACKAGE, os.path.dirname(os.path.abspath(jax.__file__)) + os.sep)


class CompileError(TraceAborted, RuntimeError):
    """The step can't be compiled so that it acts as eager mode does; the message names the line or the hook."""


class RunsAsWritten(TraceAborted, Exception):
    """This call runs eagerly, because the state that it leaves makes all later calls different (it fills a cache, say)."""


class CompileWarning(UserWarning):
    """A step has parts that could not be checked, is compiled often, or runs without a program."""


def explained(error: Exception) -> CompileError:
    """Return a CompileError that names the unknown value that was needed, and the line."""
    if isinstance(error, NeedsValue):
        return CompileError(f"undertow.compile: {error}")
    what = str(error).partition("\n")[0]
    if not isinstance(error, ShapeNeedsValues):
        what = f"a value is needed that only the running program knows. Use operations on tensors. JAX says: {what}"
    return CompileError(f"undertow.compile: at {line_of(error)}, {what}")


def line_of(error: BaseException) -> str:
    """Return the user's line from which an exception came."""
    line, trace = "an unknown line", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(FOREIGN):
            line = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line
