"""Collectives as operations of a compiled step, on JAX's arrays; `collectives.py` has them on NumPy's.

`program` has the operations that connect the ranks; see `_src/compile/tracing/collective_ops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as fold
from typing import Any

import numpy as np

_ALONE = 4 << 20  # bytes of a gradient that is reduced without copying it to a bucket
_IN_ONE = ("SUM", "AVG", "MIN", "MAX")  # reductions that XLA has
_FOLDS = {"PRODUCT": "multiply", "BAND": "bitwise_and", "BOR": "bitwise_or", "BXOR": "bitwise_xor",
          "SUM": "logical_or", "MAX": "maximum", "MIN": "minimum"}  # fmt: skip


def all_reduce(program: Any, value: Any, op: str, factor: Any = None) -> Any:
    """Return the reduction of every rank's array."""
    if factor is not None:
        value, op = (value * factor).astype(value.dtype), "SUM"
    if op in _IN_ONE and value.dtype.kind != "b":
        total = program.all_reduce([value], "SUM" if op == "AVG" else op)[0]
        return total / np.asarray(program.size, value.dtype) if op == "AVG" else total
    return _folded(program, all_gather(program, value), op)


def _folded(program: Any, values: Sequence[Any], op: str) -> Any:
    """Return the reduction of arrays of one shape."""
    dtype = values[0].dtype
    adds = op in ("SUM", "AVG") and dtype.kind != "b"
    total = fold(program.numpy.add if adds else getattr(program.numpy, _FOLDS[op]), values)
    return total / np.asarray(program.size, dtype) if op == "AVG" else total


def joined(program: Any, values: Sequence[Any]) -> Any:
    """Return the elements of several arrays, one array after the other."""
    return program.numpy.concatenate([value.reshape(-1) for value in values])


def exchange(program: Any, values: Sequence[Any]) -> list[Any]:
    """Send each rank one of this rank's arrays, all of one shape, and return the arrays that the ranks sent."""
    rows = program.exchange(program.numpy.stack([program.bits(value) for value in values]))
    return [program.of_bits(row, values[0].dtype) for row in rows]


def reduce_scatter(program: Any, values: Sequence[Any], op: str, factor: Any = None) -> Any:
    """Return the reduction of the arrays that the ranks have for this one."""
    if factor is not None:
        values, op = [(value * factor).astype(value.dtype) for value in values], "SUM"
    return _folded(program, exchange(program, values), op)


def broadcast(program: Any, value: Any, is_root: bool) -> Any:
    """Return the root's array: the sum of its bits and of zeros from the others."""
    bits = program.bits(value)
    total = program.all_reduce([bits if is_root else program.numpy.zeros_like(bits)])[0]
    return program.of_bits(total, value.dtype)


def all_gather(program: Any, value: Any) -> list[Any]:
    """Return every rank's array."""
    rows = program.all_gather(program.bits(value))
    return [program.of_bits(row, value.dtype) for row in rows]


def averaged(program: Any, values: Sequence[Any], sent_as: Any = None) -> list[Any]:
    """Return the means of gradients of one dtype; they are cast to `sent_as` and back, if given.

    Large gradients are reduced one by one; small ones are copied to one array, with the flag that this rank has failed.
    """
    numpy, dtype = program.numpy, values[0].dtype
    sent = np.dtype(dtype if sent_as is None else sent_as)
    scaled = [value.reshape(-1).astype(sent) * sent.type(1 / program.size) for value in values]
    small = [place for place, value in enumerate(scaled) if value.nbytes < _ALONE]
    places = np.cumsum([0, *[scaled[place].size for place in small]])
    together = numpy.full(places[-1] + 1, program.failed).astype(sent)
    for place, start in zip(small, places, strict=False):
        together = together.at[start : start + scaled[place].size].set(scaled[place])
    large = [value for place, value in enumerate(scaled) if place not in small]
    reduced = program.all_reduce([*large, together])
    program.failed_anywhere = reduced[-1][-1] > 0
    means = {place: reduced[-1][start:end] for place, start, end in zip(small, places, places[1:], strict=False)}
    rest = iter(reduced)
    return [(means[place] if place in means else next(rest)).astype(dtype) for place in range(len(values))]
