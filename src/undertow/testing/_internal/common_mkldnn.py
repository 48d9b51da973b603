"""What tests ask about oneDNN's float32 products with fewer bits: undertow multiplies float32 in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def bf32_is_not_fp32() -> bool:
    """Whether float32 products may be rounded to bfloat16 on this machine."""
    return False


def tf32_is_not_fp32() -> bool:
    """Whether they may be rounded to TF32."""
    return False


@contextmanager
def reduced_f32_off() -> Iterator[None]:
    """Return a block with full products, as everywhere."""
    yield


@contextmanager
def bf32_on(self: Any, bf32_precision: float = 1e-2) -> Iterator[None]:
    """Return a block in which a test accepts results of products in bfloat16."""
    before, self.precision = self.precision, bf32_precision
    try:
        yield
    finally:
        self.precision = before


tf32_on = bf32_on


def reduced_f32_on_and_off(bf32_precision: float = 1e-2, tf32_precision: float = 1e-5) -> Callable[[Any], Any]:
    """Mark a test that runs with each kind of product: here there is one, and it runs once."""
    return lambda test: test


bf32_on_and_off = reduced_f32_on_and_off
