"""Operators that work element by element, and samples for them: many shapes, values, layouts and pairs of dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.operator_tables.op_info import ErrorInput, L, M, OpInfo, S, SampleInput
from undertow._src.base.modes import no_grad
from undertow._src.ops.compare import where
from undertow._src.tensor.creation import empty
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes as d
from undertow.testing._creation import make_tensor
from undertow.testing._internal.common_dtype import _floating_types

Samples = Iterator[SampleInput]
SHAPES = ((), (S,), (M, S), (1, S, 1), (0,), (2, 0, 3))
PAIRS_OF_SHAPES = (
    ((), ()),
    ((S,), ()),
    ((S,), (S,)),
    ((S, 1), (S,)),
    ((), (M, S)),
    ((M, S), (1, S)),
    ((0, 1, 3), (3,)),
)
# Where memory and shape go apart: shape, strides, offset.
STRIDED = (((5, 6, 2), (1, 1, 7), 2), ((5, 5, 2), (1, 1, 7), 3), ((5, 5, 4), (1, 1, 7), 2), ((2, 2), (0, 1), 1))
_LARGE = {d.float16: (-501, 501, -1001.2, 1001.2), d.bfloat16: (-501, 501, -1001.2, 1001.2)}


class NumericsFilter(NamedTuple):
    """Values that an operator is not compared at, and what to put in their place."""

    condition: Any
    safe_val: Any


def _shaped(shape: Any, op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Any:
    low, high = getattr(op, "domain", (None, None))
    if dtype is d.bool or not (dtype.is_floating_point or dtype.is_complex):
        low, high = (None if low is None else math.ceil(low)), (None if high is None else math.floor(high))
        if low is not None and high is not None and low >= high:
            low, high = min(low, high), min(low, high) + 1
    return make_tensor(shape, device=device, dtype=dtype, low=low, high=high, requires_grad=requires_grad, **kwargs)


def _make_unary_elementwise_tensor(shape: Any, *, op: Any, dtype: Any, **kwargs: Any) -> Any:
    """Return a tensor of values that an operator takes."""
    made = _shaped(shape, op, kwargs.pop("device", "cpu"), dtype, kwargs.pop("requires_grad", False), **kwargs)
    return _filter_unary_elementwise_tensor(made, op=op)


def _filter_unary_elementwise_tensor(a: Any, *, op: Any) -> Any:
    """Return a tensor without the values that an operator is not compared at."""
    given = getattr(op, "reference_numerics_filter", None)
    if given is not None:
        with no_grad():
            return where(given.condition(a), tensor(given.safe_val).to(a.dtype), a).requires_grad_(a.requires_grad)
    return a


# --- one tensor


def sample_inputs_elementwise_unary(
    op_info: Any, device: Any, dtype: Any, requires_grad: bool, op_kwargs: Any = None, **kwargs: Any
) -> Samples:
    """Return a tensor of one dim and one of none."""
    for shape in ((L,), (), (S, 2)):
        a = _make_unary_elementwise_tensor(shape, op=op_info, device=device, dtype=dtype, requires_grad=requires_grad)
        yield SampleInput(a, kwargs=op_kwargs or op_info.sample_kwargs(device, dtype, a)[0])


class UnaryUfuncInfo(OpInfo):
    """An operator of one tensor, element by element; `domain` is where it is defined."""

    def __init__(
        self, name: str, *, dtypes: Any = _floating_types, domain: Any = (None, None),
        handles_complex_extremal_values: bool = True, handles_large_floats: bool = True,
        supports_complex_to_float: bool = False, sample_inputs_func: Any = sample_inputs_elementwise_unary,
        sample_kwargs: Any = lambda device, dtype, input: ({}, {}), reference_numerics_filter: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            name, dtypes=dtypes, sample_inputs_func=sample_inputs_func, **kwargs,
        )  # fmt: skip
        self.domain, self.sample_kwargs, self.reference_numerics_filter = (
            domain,
            sample_kwargs,
            reference_numerics_filter,
        )
        self.handles_complex_extremal_values, self.handles_large_floats = (
            handles_complex_extremal_values, handles_large_floats,
        )  # fmt: skip
        self.supports_complex_to_float = supports_complex_to_float


# --- two tensors


def _pair(op: Any, shapes: Any, device: Any, dtype: Any, requires_grad: bool, zero: bool, **kwargs: Any) -> SampleInput:
    sides = []
    for shape, own in zip(shapes, (op.lhs_make_tensor_kwargs, op.rhs_make_tensor_kwargs), strict=True):
        options = {"exclude_zero": zero, **kwargs, **own}
        sides.append(make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad, **options))
    wider = len(shapes[0]) < len(shapes[1]) or any(a != b for a, b in zip(shapes[0][::-1], shapes[1][::-1]) if a == 1)
    return SampleInput(
        sides[0], args=(sides[1],), kwargs=op.sample_kwargs(device, dtype, sides[0])[0], broadcasts_input=wider
    )


def sample_inputs_elementwise_binary(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    """Pairs of shapes that fit each other."""
    for shapes in (*PAIRS_OF_SHAPES, ((L, S), (L, S))):
        yield _pair(op, shapes, device, dtype, requires_grad, kwargs.get("exclude_zero", False))


def make_error_inputs_elementwise_binary(error_inputs_func: Any) -> Callable[..., Iterator[ErrorInput]]:
    """Error inputs that end with those which every operator of two tensors has: shapes that do not fit."""

    def errors(op: Any, device: Any, **kwargs: Any) -> Iterator[ErrorInput]:
        if error_inputs_func is not None:
            yield from error_inputs_func(op, device, **kwargs)
        sample = SampleInput(empty((2, 3), device=device).fill_(1), args=(empty((2, 4), device=device).fill_(1),))
        yield ErrorInput(sample, error_regex="The size of tensor a .* must match the size of tensor b")

    return errors


class BinaryUfuncInfo(OpInfo):
    """An operator of two tensors, element by element."""

    def __init__(
        self, name: str, *, sample_inputs_func: Any = sample_inputs_elementwise_binary,
        sample_kwargs: Any = lambda device, dtype, input: ({}, {}), error_inputs_func: Any = None,
        lhs_make_tensor_kwargs: Any = None, rhs_make_tensor_kwargs: Any = None, always_returns_bool: bool = False,
        supports_rhs_python_scalar: bool = True, supports_one_python_scalar: bool = False,
        supports_two_python_scalars: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            name, sample_inputs_func=sample_inputs_func,
            error_inputs_func=make_error_inputs_elementwise_binary(error_inputs_func), **kwargs,
        )  # fmt: skip
        self.sample_kwargs, self.always_returns_bool = sample_kwargs, always_returns_bool
        self.lhs_make_tensor_kwargs = lhs_make_tensor_kwargs or {}
        self.rhs_make_tensor_kwargs = rhs_make_tensor_kwargs or {}
        self.supports_rhs_python_scalar = supports_rhs_python_scalar
        self.supports_one_python_scalar = supports_one_python_scalar or supports_two_python_scalars
        self.supports_two_python_scalars = supports_two_python_scalars
