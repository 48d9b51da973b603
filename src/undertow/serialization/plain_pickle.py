"""Storages in files written by plain `pickle`: each is embedded as the bytes of a PyTorch file."""

from __future__ import annotations

import io
from typing import Any

from undertow.serialization import load


def _load_from_bytes(b: bytes) -> Any:
    return load(io.BytesIO(b), weights_only=False)
