"""Jacobians for `gradcheck`: by finite differences, by backward passes and by forward mode.

A Jacobian of one output with respect to one input is an array with a row per element of the input and a column per
element of the output. `Function` is the user's function as seen by a check: of complex outputs only the real or the
imaginary part, so that a backward pass always starts from a real output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.quiet import quietly
from undertow._src.engine.differentiate import grad
from undertow._src.ops.complex import imag, real
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.lazy_conj import sync
from undertow._src.types.dtypes import DTYPE_OF
from undertow.autograd import forward_ad

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Array = np.ndarray[Any, Any]


def is_inexact(value: object) -> bool:
    """Whether a value is a tensor of floating or complex numbers."""
    return isinstance(value, TensorCore) and DTYPE_OF[value._array.dtype].is_inexact


def as_tuple(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def of_values(call: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of sparse tensors as a function of their values, which are all that is differentiated."""
    sparse = {place: value for place, value in enumerate(given) if isinstance(value, TensorCore) and value.is_sparse}
    if not sparse:
        return call, given

    def with_values(*values: object) -> Tensor:
        return call(*[sparse[place]._with_values(v) if place in sparse else v for place, v in enumerate(values)])

    return with_values, tuple(
        [
            value._values().detach().requires_grad_(value.requires_grad) if place in sparse else value
            for place, value in enumerate(given)
        ]
    )


class Function:
    """What a check examines: the function, its arguments, and the positions of the differentiated ones."""

    def __init__(self, call: Callable[..., Any], given: tuple[Any, ...], part: str = "") -> None:
        self.call, self.given, self.part = call, given, part  # part: "real" or "imag", of complex outputs
        self.places = [place for place, value in enumerate(given) if is_inexact(value) and value.requires_grad]

    @property
    def inputs(self) -> list[Any]:
        return [self.given[place] for place in self.places]

    def outputs(self, given: Sequence[Any] | None = None) -> list[Any]:
        """Return the outputs that can have a derivative."""
        every = as_tuple(self.call(*(given or self.given)))
        if any(isinstance(output, TensorCore) and output.is_sparse for output in every):
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Let the function return its to_dense(masked_grad=...)."
            )
        return [output for output in every if is_inexact(output)]

    def differentiable(self) -> list[Any]:
        """Return the recorded outputs, as the check sees them."""
        every = as_tuple(self.call(*self.given))
        found = [output for output in every if output.requires_grad]
        return [self.shown(output) for output in found]

    def shown(self, output: TensorCore) -> TensorCore:
        if not self.part or output._array.dtype.kind != "c":
            return output
        return (imag if self.part == "imag" else real)(output)

    def values(self, given: Sequence[Any] | None = None) -> list[Array]:
        """Return the values of all outputs, as the check sees them."""
        values = [output._array.reshape(-1).copy() for output in self.outputs(given)]
        if self.part:
            values = [getattr(value, self.part) if value.dtype.kind == "c" else value for value in values]
        return values

    def recorded_places(self) -> list[int]:
        """Return which of the outputs that can have a derivative are recorded."""
        return [nr for nr, output in enumerate(self.outputs()) if output.requires_grad]


# --- finite differences


def difference(function: Function, place: int, direction: Array, eps: float) -> list[Array]:
    """Return the change of each output per unit step of an input along a direction."""
    array = function.given[place]._array
    before = array.copy()
    try:
        _write(array, before + direction * eps)
        above = function.values()
        _write(array, before - direction * eps)
        below = function.values()
    finally:
        _write(array, before)
    return [quietly(np.divide, a - b, 2 * eps) for a, b in zip(above, below, strict=True)]


def _write(array: Array, values: Array) -> None:
    array[...] = values
    sync(array)  # an input may be a conjugate view


def numerical_jacobian(function: Function, place: int, eps: float) -> list[Array]:
    """Return one Jacobian per output; for a complex input, of real steps plus i times that of imaginary steps."""
    array = function.given[place]._array
    columns: list[list[Array]] = []
    for index in np.ndindex(array.shape):
        direction = np.zeros(array.shape, array.dtype)
        direction[index] = 1
        changes = difference(function, place, direction, eps)
        if array.dtype.kind == "c":
            along = difference(function, place, direction * 1j, eps)
            changes = [a + 1j * b for a, b in zip(changes, along, strict=True)]
        columns.append(changes)
    if not columns:
        return [np.zeros((0, value.size), array.dtype) for value in function.values()]
    return [np.array(rows) for rows in zip(*columns, strict=True)]


# --- backward passes


def analytical_jacobian(output: TensorCore, inputs: Sequence[Any]) -> list[Array]:
    """Return one Jacobian per input, by a backward pass for each element of the output."""
    columns: list[list[Array]] = [[] for _ in inputs]
    flat = output._array.reshape(-1)
    for index in range(flat.size):
        seed = np.zeros_like(flat)
        seed[index] = 1
        for column, row in zip(columns, pulled_back(output, inputs, seed), strict=True):
            column.append(row)
    return [
        np.array(column).T if column else np.zeros((given._array.size, 0), given._array.dtype)
        for column, given in zip(columns, inputs, strict=True)
    ]


def pulled_back(output: TensorCore, inputs: Sequence[Any], seed: Array) -> list[Array]:
    """Return the gradient of each input for a gradient of the output; zeros where undefined."""
    start = wrap(seed.reshape(output._array.shape))
    found = grad(output, list(inputs), start, retain_graph=True, allow_unused=True)
    return [
        np.zeros(given._array.size, given._array.dtype) if row is None else row._array.reshape(-1)
        for given, row in zip(inputs, found, strict=True)
    ]


# --- forward mode


def pushed_forward(function: Function, place: int, direction: Array) -> list[Array]:
    """Return the derivative of each output along a direction of one input, by forward mode."""
    given = list(function.given)
    with forward_ad.dual_level():
        tangent = wrap(direction.reshape(given[place]._array.shape))
        given[place] = forward_ad.make_dual(given[place], tangent)
        pairs = [forward_ad.unpack_dual(output) for output in function.outputs(given)]
    return [
        np.zeros(pair.primal._array.size, pair.primal._array.dtype) if pair.tangent is None
        else pair.tangent._array.reshape(-1)
        for pair in pairs
    ]  # fmt: skip


def forward_jacobian(function: Function, place: int, unit: complex = 1) -> list[Array]:
    """Return one Jacobian per output, of steps of `unit` along each element of an input."""
    array = function.given[place]._array
    rows: list[list[Array]] = []
    for index in np.ndindex(array.shape):
        direction = np.zeros(array.shape, array.dtype)
        direction[index] = unit
        rows.append(pushed_forward(function, place, direction))
    return [np.array(parts) for parts in zip(*rows, strict=True)]


def stepped_jacobian(function: Function, place: int, eps: float, unit: complex = 1) -> list[Array]:
    """Return the same Jacobians by finite differences."""
    array = function.given[place]._array
    rows = []
    for index in np.ndindex(array.shape):
        direction = np.zeros(array.shape, array.dtype)
        direction[index] = unit
        rows.append(difference(function, place, direction, eps))
    return [np.array(parts) for parts in zip(*rows, strict=True)]
