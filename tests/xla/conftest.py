"""For tests that compile steps."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """Each compile collects garbage: what earlier files left in JAX's caches and undertow's need not be looked at again."""
    gc.collect()
    gc.freeze()
