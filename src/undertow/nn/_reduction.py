"""Reductions of losses as numbers, and the two deprecated flags that came before `reduction`."""

from __future__ import annotations

from undertow._src.ops.loss import old_reduction, reduction_of


def get_enum(reduction: str) -> int:
    """Return the number that stands for a reduction."""
    return reduction_of(reduction)


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that the deprecated flags mean."""
    return old_reduction(size_average, reduce, emit_warning)


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction that the deprecated flags mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
