"""Whole training steps as XLA programs, with every hook alive. The door is `undertow.compile`."""

from __future__ import annotations

from undertow.xla.compiled import Compiled as Compiled
from undertow.xla.compiled import reset as reset
from undertow.xla.errors import CompileError as CompileError
from undertow.xla.errors import CompileWarning as CompileWarning
from undertow.xla.modules import compile as compile
from undertow.xla.report import explain as explain
from undertow.xla.same_firing import assert_same_firing as assert_same_firing
