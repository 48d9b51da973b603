"""Samples of an operator that a test leaves out, or that fail."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class SampleRule:
    """Which samples of which operators a rule is for."""

    op_match_fn: Any = None
    sample_match_fn: Any = None
    name: str = ""

    @property
    def type(self) -> str:
        raise NotImplementedError

    def get_context(self, test_case: Any) -> Any:
        raise NotImplementedError


@dataclass
class SkipRule(SampleRule):
    """Samples that are left out."""

    @property
    def type(self) -> str:
        return "skip"

    @contextlib.contextmanager
    def get_context(self, test_case: Any) -> Iterator[None]:
        test_case.skipTest("Skipped!")
        yield


@dataclass
class XFailRule(SampleRule):
    """Samples that fail."""

    error_type: Any = Exception
    error_msg: str = ".*"

    @property
    def type(self) -> str:
        return "xfail"

    def get_context(self, test_case: Any) -> Any:
        return test_case.assertRaisesRegex(self.error_type, re.compile(self.error_msg, re.DOTALL))


class sample_skips_and_xfails:
    """Gives a test rules about samples."""

    def __init__(self, rules: Any) -> None:
        self.rules = rules

    def __call__(self, fn: Any) -> Any:
        fn.sample_skips_and_xfails = self.rules
        return fn
