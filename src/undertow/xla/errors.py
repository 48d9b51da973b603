"""What can go wrong when a step is compiled."""

from __future__ import annotations


class CompileError(RuntimeError):
    """The step can't be one program that does what the Python code does; the message names the line, or the hook."""


class CompileWarning(UserWarning):
    """The step was compiled, and something about it deserves a look."""
