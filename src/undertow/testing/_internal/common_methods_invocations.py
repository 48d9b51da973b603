"""Helpers that tests take from this module; PyTorch's tables of operators (`op_db`) are not shipped with undertow."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow._src.types.dtypes import uint8
from undertow.random import randint, randn
from undertow.testing._creation import make_tensor as make_tensor
from undertow.testing._internal.opinfo.core import DecorateInfo as DecorateInfo
from undertow.testing._utils import wrapper_set_seed as wrapper_set_seed


def mask_not_all_zeros(shape: Any) -> Any:
    """Return a random mask with at least one True."""
    if not len(shape):
        raise AssertionError("a mask of one element cannot be random")
    while True:
        mask = randn(shape).gt(0)
        if mask.any():
            return mask


def index_variable(shape: Any, max_indices: int, device: Any = "cpu") -> Any:
    """Return random indices."""
    return randint(max_indices, (shape,) if isinstance(shape, int) else tuple(shape), device=device)


def gather_variable(shape: Any, index_dim: int, max_indices: int, duplicate: bool = False, device: Any = "cpu") -> Any:
    """Return random indices for `gather`, distinct along the dim unless `duplicate`."""
    if duplicate:
        return index_variable(shape, max_indices, device)
    rows, columns = shape
    lines, length = (rows, columns) if index_dim else (columns, rows)
    made = randn(lines, max_indices, device=device).argsort(1)[:, :length]
    return made if index_dim else made.T.contiguous()


def bernoulli_scalar() -> Any:
    """Return a random 0 or 1."""
    return randn(()).gt(0).to(uint8)


def __getattr__(name: str) -> NoReturn:
    if name.endswith(("_db", "_ufuncs", "_ops", "_funcs", "Info")) or name == "ops_and_refs":
        raise ImportError(  # `from … import op_db` would replace the message of an AttributeError
            f"{name} is not shipped with undertow: its table of operators is in its tests "
            "(tests/operator_tables); tests that run over PyTorch's operators must supply their own list"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
