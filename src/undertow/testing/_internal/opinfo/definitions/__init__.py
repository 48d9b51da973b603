"""The operators of one family each: `linalg.op_db`, `fft.op_db`, `special.op_db`, rows of the one table of operators."""

from __future__ import annotations

from typing import Any

from undertow.testing._internal.common_methods_invocations import _all


def family(prefix: str) -> list[Any]:
    """Return the operators whose names begin so."""
    return [op for op in _all() if op.name.startswith(prefix)]
