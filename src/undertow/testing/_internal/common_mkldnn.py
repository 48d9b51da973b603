"""Facts for tests about oneDNN's reduced-precision float32 products: undertow multiplies float32 in full precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def bf32_is_not_fp32() -> bool:
    """Whether float32 products may be rounded to bfloat16: never."""
    return False


def tf32_is_not_fp32() -> bool:
    """Whether float32 products may be rounded to TF32: never."""
    return False


@contextmanager
def reduced_f32_off() -> Iterator[None]:
    """Return a block with full precision, which is always used."""
    yield


@contextmanager
def bf32_on(self: Any, bf32_precision: float = 1e-2) -> Iterator[None]:
    """Return a block with the test's tolerances for products in bfloat16."""
    before, self.precision = self.precision, bf32_precision
    try:
        yield
    finally:
        self.precision = before


tf32_on = bf32_on


def reduced_f32_on_and_off(bf32_precision: float = 1e-2, tf32_precision: float = 1e-5) -> Callable[[Any], Any]:
    """Decorate a test to run with each precision: here there is one, so it runs once."""
    return lambda test: test


bf32_on_and_off = reduced_f32_on_and_off
