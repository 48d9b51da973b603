"""Test cases for compiled code: compiled programs are dropped before and after each test."""

from __future__ import annotations

from typing import Any

from undertow.compiler import reset
from undertow.testing._internal.common_utils import TestCase as _TestCase
from undertow.testing._internal.common_utils import run_tests as _run_tests

__all__ = ["TestCase", "run_tests"]


class TestCase(_TestCase):
    """A test that begins without compiled programs."""

    def setUp(self) -> None:
        super().setUp()
        reset()

    def tearDown(self) -> None:
        reset()
        super().tearDown()


def run_tests(needs: str | tuple[str, ...] = ()) -> Any:
    """Run the tests of a file."""
    return _run_tests()
