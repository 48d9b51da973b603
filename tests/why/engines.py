"""Both engines, for tests that ask the same of each."""

from __future__ import annotations

import inspect

import pytest
import torch as real_torch

import undertow

both = pytest.mark.parametrize("torch", [undertow, real_torch], ids=["undertow", "torch"])


def line_here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno
