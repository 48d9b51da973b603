"""The stand-in for x[mask] in a trace: as many rows as the mask has elements, and which of them it selects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import tree
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.data_dependent_branches import Line
from undertow._src.compile.tracing.unbacked_scalars import asked
from undertow._src.ops.compare import where
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import wrap
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor

Handler = Callable[[Any, Any, Any], Any]


class Selection:
    """Which rows a mask selects: the order of rows, selected ones first, and how many those are."""

    def __init__(self, mask: Any) -> None:
        flat = mask.reshape(-1) != 0
        self.size = flat.size
        self.count = jnp.sum(flat, dtype=np.int64)
        found = jnp.nonzero(flat, size=self.size, fill_value=0)[0]
        is_selected = jnp.arange(self.size) < self.count
        self.places = wrap(DeviceArray(jnp.where(is_selected, found, found[0]).astype(np.int64)))
        self.is_selected = wrap(DeviceArray(is_selected))

    def beside(self, rows: Any) -> Any:
        """Return for each row whether it is selected, in a shape that broadcasts to the rows'."""
        return self.is_selected.reshape(-1, *[1] * (rows.dim() - 1))

    def counting(self, rows: Any) -> Any:
        """Return rows with gradients for the selected ones only."""
        if not rows.requires_grad:
            return rows
        return where(self.beside(rows), rows, rows.detach())


class MaskedRows(Tensor):
    """The stand-in for x[mask] in a trace, and for what is computed from it row by row."""

    _rows: Any
    _selection: Selection
    _lines: set[Line]


def masked_rows(rows: Any, selection: Selection, lines: set[Any]) -> MaskedRows:
    """Return rows as a tensor that stands for the selected rows in the step."""
    made = object.__new__(MaskedRows)
    made.__dict__.update(_rows=rows, _selection=selection, _lines=lines)
    return made


HANDLERS: dict[Any, Handler] = {}  # by public function: the handler for rows; `selections` fills it


def among(values: Any) -> Iterator[MaskedRows]:
    """Return the masked rows in nested containers."""
    return (leaf for leaf in tree.leaves(values) if type(leaf) is MaskedRows)


def _materialize(self: Any, *value: Any) -> Any:
    """Raise Retrace, to trace with exact rows on the lines that selected them."""
    running_trace().placer.plan.selected.update(self._lines)
    raise Retrace


def _shape(self: Any) -> Size:
    running_trace().selections.counted |= self._lines
    return tuple.__new__(Size, (asked(DeviceArray(self._selection.count)), *self._rows.shape[1:]))


def _size(self: Any, dim: int | None = None) -> Any:
    shape = _shape(self)
    return shape if dim is None else shape[dim]


def _numel(self: Any) -> Any:
    count, *others = _shape(self)
    per_row = math.prod(others)
    return count if per_row == 1 else count * per_row


def _take_over(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    kwargs = kwargs or {}
    handler = HANDLERS.get(func)
    if handler is not None:
        result = handler(func, args, kwargs)
        if result is not NotImplemented:
            return result
    return _materialize(next(among((args, kwargs))))


for _name in ("_array", "_edge", "_requires_grad", "_storage", "_view", "_meta"):
    setattr(MaskedRows, _name, property(_materialize, _materialize))
for _name in ("dtype", "device", "ndim", "requires_grad", "layout", "is_sparse", "is_cuda"):
    setattr(MaskedRows, _name, property(attrgetter(f"_rows.{_name}"), _materialize))
for _name in ("dim", "is_floating_point", "is_complex"):
    setattr(MaskedRows, _name, property(attrgetter(f"_rows.{_name}")))
for _name, _answer in (("numel", _numel), ("nelement", _numel), ("size", _size), ("shape", property(_shape))):
    setattr(MaskedRows, _name, _answer)
# Set when the class is used: a handler from the start would slow down the properties of all tensors.
MaskedRows.__torch_function__ = classmethod(_take_over)  # type: ignore[assignment,method-assign]
torch_function.PLAIN.discard(MaskedRows)
torch_function.QUIET.discard(MaskedRows)
