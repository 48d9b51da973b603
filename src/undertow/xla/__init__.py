"""Whole training steps as XLA programs, with every hook alive."""

from __future__ import annotations

from undertow.xla.compiled import Compiled as Compiled
from undertow.xla.compiled import compile as compile
from undertow.xla.errors import CompileError as CompileError
from undertow.xla.errors import CompileWarning as CompileWarning
