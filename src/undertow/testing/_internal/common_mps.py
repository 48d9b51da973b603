"""What operators do on Apple's GPUs, which undertow does not use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MACOS_VERSION = 0.0


def mps_ops_modifier(ops: Iterable[Any], **options: Any) -> Iterable[Any]:
    """Return the operators, as they are."""
    return ops
