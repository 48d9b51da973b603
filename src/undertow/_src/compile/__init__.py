"""Whole training steps, hooks included, compiled to XLA programs. The entry point is `undertow.compile`."""

from __future__ import annotations

from undertow._src.compile.api import compile as compile
from undertow._src.compile.compiled import Compiled as Compiled
from undertow._src.compile.compiled import reset as reset
from undertow._src.compile.errors import CompileError as CompileError
from undertow._src.compile.errors import CompileWarning as CompileWarning
from undertow._src.compile.report import explain as explain
from undertow._src.compile.same_firing import assert_same_firing as assert_same_firing
