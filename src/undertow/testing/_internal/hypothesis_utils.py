"""Hypothesis strategies that draw arrays for tensors. Hypothesis is imported on first use."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from typing import Any

import numpy as np

from undertow._src.types import dtypes

_ALL_QINT_TYPES = (dtypes.quint8, dtypes.qint8, dtypes.qint32)
_ENFORCED_ZERO_POINT: dict[Any, int | None] = defaultdict(lambda: None, {dtypes.qint32: 0})
_LIMITS = {dtypes.quint8: (0, 255), dtypes.qint8: (-128, 127), dtypes.qint32: (-(2**31), 2**31 - 1)}


def _strategies() -> Any:
    return import_module("hypothesis.strategies")


def floats(*args: Any, **kwargs: Any) -> Any:
    """Return a strategy for float32 numbers, by default without nan and infinity."""
    options = {"width": 32, "allow_nan": False, "allow_infinity": False, **kwargs}
    if len(args) == 2 and args[0] is not None and args[1] is not None:
        args = tuple(float(np.float32(limit)) for limit in args)
    return _strategies().floats(*args, **options)


_floats_wrapper = floats


def array_shapes(
    min_dims: int = 1, max_dims: int | None = None, min_side: int = 1, max_side: int | None = None,
    max_numel: int | None = None,
) -> Any:  # fmt: skip
    """Return a strategy for shapes of arrays with a maximum number of elements."""
    max_dims = min(min_dims + 2, 32) if max_dims is None else max_dims
    sides = _strategies().integers(min_side, min_side + 5 if max_side is None else max_side)
    shapes = _strategies().lists(sides, min_size=min_dims, max_size=max_dims)
    return shapes.filter(lambda shape: max_numel is None or int(np.prod(shape)) <= max_numel)


def qparams(
    dtypes: Any = None, scale_min: float | None = None, scale_max: float | None = None, zero_point_min: int | None = None,
    zero_point_max: int | None = None,
) -> Any:  # fmt: skip
    """Return a strategy for quantization parameters: (scale, zero point, dtype)."""
    strategies = _strategies()

    @strategies.composite
    def draw_one(draw: Any) -> tuple[float, int, Any]:
        kind = draw(strategies.sampled_from(dtypes or _ALL_QINT_TYPES))
        low, high = _LIMITS[kind]
        zero = _ENFORCED_ZERO_POINT[kind]
        if zero is None:
            least = low if zero_point_min is None else zero_point_min
            zero = draw(strategies.integers(least, high if zero_point_max is None else zero_point_max))
        step = draw(floats(scale_min or float(np.finfo(np.float32).eps), scale_max or float(np.finfo(np.float32).max)))
        return step, zero, kind

    return draw_one()


def _get_valid_min_max(qparams: tuple[float, int, Any]) -> tuple[float, float]:
    """Return the smallest and the largest number that quantization parameters can represent."""
    step, zero, kind = qparams
    low, high = _LIMITS[kind]
    largest = float(np.finfo(np.float32).max)
    return max((low - zero) * step, -largest), min((high - zero) * step, largest)


def tensor(shapes: Any = None, elements: Any = None, qparams: Any = None, dtype: Any = np.float32) -> Any:
    """Return a strategy for arrays; with `qparams`, for arrays with quantization parameters."""
    strategies = _strategies()
    arrays = import_module("hypothesis.extra.numpy").arrays

    @strategies.composite
    def draw_one(draw: Any) -> Any:
        shape = draw(shapes if shapes is not None else array_shapes())
        shape = tuple(shape) if isinstance(shape, list) else shape
        if qparams is None:
            values = elements if elements is not None else floats(-1e6, 1e6)
            return draw(arrays(dtype=dtype, shape=shape, elements=values))
        way = draw(qparams)
        low, high = _get_valid_min_max(way)
        values = elements if elements is not None else floats(low, high)
        return draw(arrays(dtype=np.float32, shape=shape, elements=values)), way

    return draw_one()


def assume_not_overflowing(tensor: Any, qparams: tuple[float, int, Any]) -> bool:
    """Tell Hypothesis to discard arrays that quantization parameters cannot represent."""
    low, high = _get_valid_min_max(qparams)
    return import_module("hypothesis").assume(bool((tensor >= low).all() and (tensor <= high).all()))


def assert_deadline_disabled() -> None:
    """Check that Hypothesis has no deadline for tests."""
    if import_module("hypothesis").settings().deadline is not None:
        raise AssertionError("these tests may exceed a deadline: set hypothesis.settings(deadline=None)")
