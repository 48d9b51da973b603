"""What every use of a GPU comes to."""

from __future__ import annotations

from typing import Any, NoReturn


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse in the words of a PyTorch without CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")
