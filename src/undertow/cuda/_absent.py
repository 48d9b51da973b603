"""The error that every use of a CUDA feature raises."""

from __future__ import annotations

from typing import Any, NoReturn


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise the error of a PyTorch build without CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")
