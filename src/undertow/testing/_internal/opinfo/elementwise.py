"""Operators that work element by element, and samples for them: many shapes, values, layouts and pairs of dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from undertow._src.base.modes import no_grad
from undertow._src.ops.compare import where
from undertow._src.tensor.creation import empty
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes as d
from undertow.testing._creation import make_tensor
from undertow.testing._internal.common_dtype import _floating_types
from undertow.testing._internal.opinfo.info import OpInfo
from undertow.testing._internal.opinfo.samples import ErrorInput, L, M, S, SampleInput

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


def _replace_values_in_tensor(tensor: Any, condition: Any, safe_value: Any) -> None:
    """Write a value where a condition holds, in place."""
    with no_grad():
        tensor.masked_fill_(condition(tensor), safe_value)


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


def generate_elementwise_unary_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Samples:
    """Tensors of many shapes; of bool, both values."""
    if dtype is d.bool:
        yield SampleInput(tensor([True, False], device=device), kwargs=op.sample_kwargs(device, dtype, None)[0])
        return
    for shape in ((1026,), (812,), *SHAPES):
        a = _make_unary_elementwise_tensor(
            shape, op=op, device=device, dtype=dtype, requires_grad=requires_grad, **kwargs
        )
        yield SampleInput(a, kwargs=op.sample_kwargs(device, dtype, a)[0])


def _of_values(op: Any, values: Any, device: Any, dtype: Any, requires_grad: bool) -> SampleInput:
    a = _filter_unary_elementwise_tensor(tensor(values, device=device, dtype=dtype), op=op)
    return SampleInput(a.requires_grad_(requires_grad), kwargs=op.sample_kwargs(device, dtype, a)[0])


def _small(dtype: Any) -> list[Any]:
    """Values around zero and one, and a few more."""
    if dtype is d.uint8 or not (dtype.is_floating_point or dtype.is_complex):
        return [0, 1, 2, 55, 127] if dtype is d.uint8 else [0, -1, 1, -55, 55, -127, 127, -128]
    real = [0.0, -0.0, -1e-3, 1e-3, -0.25, 0.25, -1.0, 1.0, -math.pi / 2, math.pi / 2, math.e - 0.01, math.pi]
    return [complex(a, b) for a in real for b in real] if dtype.is_complex else real


def _large(dtype: Any) -> list[Any]:
    if dtype in (d.uint8, d.int8, d.bool):
        return []
    if not (dtype.is_floating_point or dtype.is_complex):
        return [-1113, 1113, -10701, 10701]
    real = list(_LARGE.get(dtype, (-501.0, 501.0, -1001.2, 1001.2, -13437.7, 13437.7, -4988429.2, 4988429.2)))
    return [complex(a, b) for a in real for b in real] if dtype.is_complex else real


def _extremal(dtype: Any) -> list[Any]:
    if not (dtype.is_floating_point or dtype.is_complex):
        return []
    real = [math.inf, -math.inf, math.nan]
    return [complex(a, b) for a in (*real, 0.0) for b in (*real, 0.0)] if dtype.is_complex else real


def generate_elementwise_unary_small_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Values around zero and one."""
    if dtype is not d.bool:
        yield _of_values(op, _small(dtype), device, dtype, requires_grad)


def generate_elementwise_unary_large_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Large values."""
    if _large(dtype):
        yield _of_values(op, _large(dtype), device, dtype, requires_grad)


def generate_elementwise_unary_extremal_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Infinite values and nan."""
    if _extremal(dtype):
        yield _of_values(op, _extremal(dtype), device, dtype, requires_grad)


def generate_elementwise_unary_noncontiguous_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Tensors that do not lie in one piece."""
    for shape in ((5, 7), (1024,)):
        a = _make_unary_elementwise_tensor(
            shape, op=op, device=device, dtype=dtype, requires_grad=requires_grad, noncontiguous=True
        )
        yield SampleInput(a, kwargs=op.sample_kwargs(device, dtype, a)[0])
        turned = _make_unary_elementwise_tensor((*shape, 3), op=op, device=device, dtype=dtype).transpose(0, -1)
        yield SampleInput(turned.requires_grad_(requires_grad), kwargs=op.sample_kwargs(device, dtype, turned)[0])


def generate_elementwise_unary_arbitrarily_strided_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Tensors with other strides than their shape has by itself."""
    for shape, strides, offset in STRIDED:
        whole = _make_unary_elementwise_tensor((500,), op=op, device=device, dtype=dtype)
        a = whole.as_strided(shape, strides, offset).requires_grad_(requires_grad)
        yield SampleInput(a, kwargs=op.sample_kwargs(device, dtype, a)[0])


def sample_inputs_elementwise_unary(
    op_info: Any, device: Any, dtype: Any, requires_grad: bool, op_kwargs: Any = None, **kwargs: Any
) -> Samples:
    """Return a tensor of one dim and one of none."""
    for shape in ((L,), (), (S, 2)):
        a = _make_unary_elementwise_tensor(shape, op=op_info, device=device, dtype=dtype, requires_grad=requires_grad)
        yield SampleInput(a, kwargs=op_kwargs or op_info.sample_kwargs(device, dtype, a)[0])


def reference_inputs_elementwise_unary(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    """All of the above."""
    yield from op.sample_inputs_func(op, device, dtype, requires_grad, **kwargs)
    options: Any = {"device": device, "dtype": dtype, "requires_grad": requires_grad}
    yield from generate_elementwise_unary_tensors(op, **options)
    if dtype is not d.bool:
        yield from generate_elementwise_unary_small_value_tensors(op, **options)
    if op.handles_large_floats or not (dtype.is_floating_point or dtype.is_complex):
        yield from generate_elementwise_unary_large_value_tensors(op, **options)
    if dtype.is_floating_point or (dtype.is_complex and op.handles_complex_extremal_values):
        yield from generate_elementwise_unary_extremal_value_tensors(op, **options)
    yield from generate_elementwise_unary_noncontiguous_tensors(op, **options)
    yield from generate_elementwise_unary_arbitrarily_strided_tensors(op, **options)


class UnaryUfuncInfo(OpInfo):
    """An operator of one tensor, element by element; `domain` is where it is defined."""

    def __init__(
        self, name: str, *, dtypes: Any = _floating_types, domain: Any = (None, None),
        handles_complex_extremal_values: bool = True, handles_large_floats: bool = True,
        supports_complex_to_float: bool = False, sample_inputs_func: Any = sample_inputs_elementwise_unary,
        reference_inputs_func: Any = reference_inputs_elementwise_unary,
        sample_kwargs: Any = lambda device, dtype, input: ({}, {}), reference_numerics_filter: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            name, dtypes=dtypes, sample_inputs_func=sample_inputs_func,
            reference_inputs_func=reference_inputs_func, **kwargs,
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


def generate_elementwise_binary_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Samples:
    """Two tensors of the same shape, of many shapes."""
    for shape in SHAPES:
        yield _pair(op, (shape, shape), device, dtype, requires_grad, exclude_zero)


def generate_elementwise_binary_broadcasting_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Samples:
    """Two tensors of which one, or both, are stretched."""
    for shapes in PAIRS_OF_SHAPES:
        yield _pair(op, shapes, device, dtype, requires_grad, exclude_zero)


def generate_elementwise_binary_noncontiguous_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Samples:
    """Two tensors that do not lie in one piece."""
    yield _pair(op, ((5, 7), (5, 7)), device, dtype, requires_grad, exclude_zero, noncontiguous=True)
    yield _pair(op, ((1024,), (1024,)), device, dtype, requires_grad, exclude_zero, noncontiguous=True)


def generate_elementwise_binary_arbitrarily_strided_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Samples:
    """Two tensors of which one has other strides than its shape has by itself."""
    for shape, strides, offset in STRIDED:
        sample = _pair(op, ((500,), shape), device, dtype, False, exclude_zero)
        sample.input = sample.input.as_strided(shape, strides, offset).requires_grad_(requires_grad)
        sample.args[0].requires_grad_(requires_grad)
        yield sample


def _all_pairs(op: Any, values: Any, device: Any, dtype: Any, requires_grad: bool) -> SampleInput:
    left = tensor([a for a in values for _ in values], device=device, dtype=dtype).requires_grad_(requires_grad)
    right = tensor([b for _ in values for b in values], device=device, dtype=dtype).requires_grad_(requires_grad)
    return SampleInput(left, args=(right,), kwargs=op.sample_kwargs(device, dtype, left)[0])


def generate_elementwise_binary_small_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool | None = None
) -> Samples:
    """All pairs of values around zero and one."""
    without = op.rhs_make_tensor_kwargs.get("exclude_zero", False) if exclude_zero is None else exclude_zero
    values = [value for value in _small(dtype)[:13] if value or not without]
    if dtype is not d.bool:
        yield _all_pairs(op, values, device, dtype, requires_grad)


def generate_elementwise_binary_large_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """All pairs of large values."""
    if _large(dtype):
        yield _all_pairs(op, _large(dtype)[:8], device, dtype, requires_grad)


def generate_elementwise_binary_extremal_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """All pairs of infinite values and nan."""
    if _extremal(dtype):
        yield _all_pairs(op, [*_extremal(dtype)[:6], 1.0], device, dtype, requires_grad)


def generate_elementwise_binary_with_scalar_samples(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Return a tensor and a number."""
    for shape in ((), (S,), (M, S)):
        sample = _pair(op, (shape, ()), device, dtype, requires_grad, False)
        if op.supports_rhs_python_scalar:
            yield SampleInput(sample.input, args=(sample.args[0].item(),), kwargs=sample.kwargs)
        if op.supports_one_python_scalar:
            yield SampleInput(sample.args[0].item(), args=(sample.input,), kwargs=sample.kwargs)
    if op.supports_two_python_scalars:
        yield SampleInput(sample.input.flatten()[0].item(), args=(sample.args[0].item(),), kwargs=sample.kwargs)


def generate_elementwise_binary_with_scalar_and_type_promotion_samples(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Samples:
    """Return a tensor and a number of another kind."""
    if op.name in ("eq", "ne", "gt", "ge", "lt", "le", "logical_and", "logical_or", "logical_xor"):
        for scalar in (math.nan, math.inf, -math.inf):
            sample = _pair(op, ((M, S), ()), device, dtype, requires_grad, False)
            yield SampleInput(sample.input, args=(scalar,), kwargs=sample.kwargs)


def sample_inputs_elementwise_binary(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    """Pairs of shapes that fit each other."""
    for shapes in (*PAIRS_OF_SHAPES, ((L, S), (L, S))):
        yield _pair(op, shapes, device, dtype, requires_grad, kwargs.get("exclude_zero", False))


def reference_inputs_elementwise_binary(
    op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Samples:
    """All of the above."""
    options: Any = {"device": device, "dtype": dtype, "requires_grad": requires_grad}
    yield from op.sample_inputs_func(op, device, dtype, requires_grad, **kwargs)
    yield from generate_elementwise_binary_tensors(op, **options)
    if dtype is not d.bool:
        yield from generate_elementwise_binary_small_value_tensors(op, **options)
    yield from generate_elementwise_binary_large_value_tensors(op, **options)
    yield from generate_elementwise_binary_extremal_value_tensors(op, **options)
    yield from generate_elementwise_binary_broadcasting_tensors(op, **options)
    yield from generate_elementwise_binary_noncontiguous_tensors(op, **options)
    yield from generate_elementwise_binary_arbitrarily_strided_tensors(op, **options)
    if op.supports_rhs_python_scalar or op.supports_one_python_scalar:
        yield from generate_elementwise_binary_with_scalar_samples(op, **options)


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
        reference_inputs_func: Any = reference_inputs_elementwise_binary,
        sample_kwargs: Any = lambda device, dtype, input: ({}, {}), error_inputs_func: Any = None,
        lhs_make_tensor_kwargs: Any = None, rhs_make_tensor_kwargs: Any = None, always_returns_bool: bool = False,
        supports_rhs_python_scalar: bool = True, supports_one_python_scalar: bool = False,
        supports_two_python_scalars: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            name, sample_inputs_func=sample_inputs_func, reference_inputs_func=reference_inputs_func,
            error_inputs_func=make_error_inputs_elementwise_binary(error_inputs_func), **kwargs,
        )  # fmt: skip
        self.sample_kwargs, self.always_returns_bool = sample_kwargs, always_returns_bool
        self.lhs_make_tensor_kwargs = lhs_make_tensor_kwargs or {}
        self.rhs_make_tensor_kwargs = rhs_make_tensor_kwargs or {}
        self.supports_rhs_python_scalar = supports_rhs_python_scalar
        self.supports_one_python_scalar = supports_one_python_scalar or supports_two_python_scalars
        self.supports_two_python_scalars = supports_two_python_scalars
