"""How a loss is reduced, and the two flags that said so before `reduction` did."""

from __future__ import annotations

from undertow.sites import warn

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction."""
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the old flags mean."""
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    if emit_warning:
        warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of the reduction that the old flags mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
