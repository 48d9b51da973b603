"""Storages in files that were written by `pickle` itself: each is a file of PyTorch's in the bytes of the other."""

from __future__ import annotations

import io
from typing import Any

from undertow.serialization import load


def _load_from_bytes(b: bytes) -> Any:
    return load(io.BytesIO(b), weights_only=False)
