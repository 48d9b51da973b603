"""On which CPUs torch's last bits are others.

Its kernels for CPUs without AVX2 have no fused multiply-add: they round once more, the kernels of `uniform_` and `normal_`
too. There torch's random numbers differ in their last bits from those that it draws everywhere else, which are undertow's,
and so does all that is computed from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

FUSED = torch.backends.cpu.get_cpu_capability() != "DEFAULT"
ROUNDED_TWICE = {"float16": 2e-3, "bfloat16": 1.6e-2}
LAST_BITS = 2e-5  # in float64, too, if float32 was drawn


def last_bits(rtol: float, atol: float, dtype: str, expected: Any) -> tuple[float, float]:
    """Tolerances as they are meant for most CPUs, or at least what torch's own numbers vary by on this one."""
    if FUSED:
        return rtol, atol
    least = ROUNDED_TWICE.get(dtype, LAST_BITS)
    return max(rtol, least), max(atol, least * np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected)))


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    """Every bit of floats is the same, that of the sign of zero too; of integers, every number."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if FUSED:
        np.testing.assert_array_equal(_bits(actual), _bits(expected))
    else:
        wide: Any = complex if actual.dtype.kind == "c" else float
        rtol, atol = last_bits(0, 0, actual.dtype.name, expected.astype(wide))
        step = 1 if actual.dtype.kind in "iu" else 0  # integers are cut from floats
        np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol, atol + step)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, -1) if array.size else array
