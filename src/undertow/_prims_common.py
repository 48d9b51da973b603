"""The parts of `torch._prims_common` that programs import: promotion of dtypes, dims, strides, names of types."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes as d
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.layouts import channels_last, channels_last_3d, contiguous_format, strided
from undertow._src.types.sizes import Size
from undertow._src.types.symbols import SymBool, SymFloat, SymInt
from undertow._tensor import Tensor

TensorLike = Tensor
TensorLikeType = Tensor
ShapeType: TypeAlias = Size | list[int] | tuple[int, ...]
StrideType: TypeAlias = list[int] | tuple[int, ...]
DimsType: TypeAlias = int | list[int] | tuple[int, ...]
NumberType: TypeAlias = bool | int | float | complex
DeviceLikeType: TypeAlias = str | Device | int
Number = (bool, int, float, complex, SymInt, SymFloat, SymBool)
IntLike, FloatLike, BoolLike = (int, SymInt), (float, SymFloat), (bool, SymBool)

_ordered_types = (bool, int, float, complex)
_integer_dtypes = (d.uint8, d.uint16, d.uint32, d.uint64, d.int8, d.int16, d.int32, d.int64)
_low_precision_dtypes = (d.float16, d.bfloat16, d.complex32)
_complex_dtypes = (d.complex32, d.complex64, d.complex128)
_complex_to_real_dtype_map = {d.complex128: d.float64, d.complex64: d.float32, d.complex32: d.float16}
_real_to_complex_dtype_map = {
    d.float16: d.complex32, d.bfloat16: d.complex64, d.float32: d.complex64, d.float64: d.complex128,
}  # fmt: skip
_computation_dtype_map = {d.bfloat16: d.float32, d.float16: d.float32, d.complex32: d.complex64}
_ORDER = (
    (d.bool,), (d.uint8, d.int8), (d.int16,), (d.int32,), (d.int64,), (d.float16, d.bfloat16), (d.float32,), (d.float64,),
    (d.complex32,), (d.complex64,), (d.complex128,),
)  # fmt: skip


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """How an elementwise function chooses the dtypes that it computes in and returns."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


def is_boolean_dtype(dtype: Dtype) -> bool:
    """Whether it is `bool`."""
    return dtype is d.bool


def is_integer_dtype(dtype: Dtype) -> bool:
    """Whether it holds whole numbers."""
    return dtype in _integer_dtypes


def is_low_precision_dtype(dtype: Dtype) -> bool:
    """Whether it has sixteen bits, or twice that many."""
    return dtype in _low_precision_dtypes


def is_float_dtype(dtype: Dtype) -> bool:
    """Whether it holds real numbers."""
    return bool(dtype.is_floating_point)


def is_complex_dtype(dtype: Dtype) -> bool:
    """Whether it holds complex numbers."""
    return dtype in _complex_dtypes


def is_grad_dtype(dtype: Dtype) -> bool:
    """Whether a tensor of it can require a gradient."""
    return is_float_dtype(dtype) or is_complex_dtype(dtype)


def corresponding_real_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of a complex number's parts."""
    return _complex_to_real_dtype_map[dtype]


def corresponding_complex_dtype(dtype: Dtype) -> Dtype:
    """Return the complex dtype whose parts have this dtype."""
    return _real_to_complex_dtype_map[dtype]


def dtype_to_type(dtype: Dtype) -> type:
    """Python's kind of number for a dtype."""
    if not isinstance(dtype, Dtype):
        raise AssertionError(f"Expected torch.dtype, got {type(dtype)}")
    if dtype is d.bool:
        return bool
    if dtype in _integer_dtypes:
        return int
    if dtype.is_floating_point:
        return float
    if dtype in _complex_dtypes:
        return complex
    raise ValueError("Invalid dtype!")


def type_to_dtype(typ: type) -> Dtype:
    """Return the dtype for Python's kind of number."""
    if not isinstance(typ, type):
        raise AssertionError(f"Expected type, got {type(typ)}")
    default = d.get_default_dtype()
    found = {bool: d.bool, int: d.int64, float: default, complex: corresponding_complex_dtype(default)}
    kind = _KIND_OF_SYMBOL.get(typ, typ)
    if kind not in found:
        raise ValueError(f"Invalid type {typ}!")
    return found[kind]


_KIND_OF_SYMBOL: dict[type, type] = {SymInt: int, SymFloat: float, SymBool: bool}


def number_type(x: Any) -> type:
    """Python's kind of a number."""
    return _KIND_OF_SYMBOL.get(type(x), type(x))


def get_dtype(x: Any) -> Dtype:
    """Return the dtype of a tensor, or for a number."""
    return x.dtype if isinstance(x, TensorCore) else type_to_dtype(type(x))


def get_higher_type(a: type, b: type) -> type:
    """Return the higher of two kinds of numbers."""
    for kind in (a, b):
        if kind not in _ordered_types:
            raise RuntimeError(f"Expected builtin numeric types, found {a}, {b}")
    return max(a, b, key=_ordered_types.index)


def get_higher_dtype(a: Any, b: Any) -> Dtype | None:
    """Return the lowest dtype that holds the values of both: of tensors, dtypes or numbers."""
    one, two = (each if each is None or isinstance(each, Dtype) else get_dtype(each) for each in (a, b))
    if one is two or two is None:
        return one
    if one is None:
        return two
    first, second = (next(rank for rank, kinds in enumerate(_ORDER) if each in kinds) for each in (one, two))
    if first == second:  # uint8 with int8, float16 with bfloat16: the next holds both
        return _ORDER[first + 1][0]
    return one if first > second else two


def get_computation_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype that functions of a dtype compute in."""
    return _computation_dtype_map.get(dtype, dtype)


def elementwise_dtypes(*_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> tuple[Dtype, Dtype]:
    """Return the dtype that an elementwise function of these tensors and numbers computes in, and the one that it returns.

    A tensor with dims decides before one without, and that before a number, unless the later one is of a higher kind.
    """
    args = [each for each in _args if each is not None]
    if not args:
        raise AssertionError("elementwise_dtypes(): Expected at least one argument")
    highest: type = bool
    for each in args:
        if not isinstance(each, (TensorCore, bool, int, float, complex)):
            raise ValueError(f"Unexpected type {type(each)} when computing elementwise type promotion!")
        highest = get_higher_type(
            highest, dtype_to_type(each.dtype) if isinstance(each, TensorCore) else number_type(each)
        )
    result: Dtype | None = None
    for wanted in (lambda x: x.ndim > 0, lambda x: x.ndim == 0):
        for each in args:
            if isinstance(each, TensorCore) and wanted(each) and dtype_to_type(each.dtype) is highest:
                result = get_higher_dtype(result, each.dtype)
        if result is not None:
            break
    if result is None:
        result = _for_numbers(highest, args)
    return _promoted(result, type_promotion_kind)


def _for_numbers(highest: type, args: list[Any]) -> Dtype:
    """Return the dtype when the highest kind comes from a number: a float beside tensors of floats has theirs."""
    if highest is complex:
        floats = [each.dtype for each in args if isinstance(each, TensorCore) and each.dtype.is_floating_point]
        real: Dtype | None = None
        for each in floats:
            real = get_higher_dtype(real, each)
        return corresponding_complex_dtype(real or d.get_default_dtype())
    return {float: d.get_default_dtype(), int: d.int64, bool: d.bool}[highest]


def _promoted(result: Dtype, kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> tuple[Dtype, Dtype]:
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    if kind is kinds.NO_OPMATH:
        return result, result
    if kind is kinds.INT_TO_FLOAT and not is_grad_dtype(result):
        result = d.get_default_dtype()
    if kind is kinds.BOOL_TO_LONG and result is d.bool:
        return d.int64, d.int64
    if kind is kinds.ALWAYS_BOOL:
        return get_computation_dtype(result), d.bool
    if kind is kinds.COMPLEX_TO_FLOAT and is_complex_dtype(result):
        return get_computation_dtype(result), corresponding_real_dtype(result)
    return get_computation_dtype(result), result


# --- dims


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """Return a dim counted from the front."""
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx % rank


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """Dims counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple([canonicalize_dim(rank, each, wrap_scalar) for each in indices])


# --- memory


def make_contiguous_strides_for(shape: ShapeType, row_major: bool = True) -> tuple[int, ...]:
    """Return the strides of elements that lie one after the other; with row_major=False the last two dims are exchanged."""
    for size in shape:
        if size < 0:
            raise AssertionError(f"Expected length >= 0, got {size}")
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    found = tuple(reversed(strides))
    return found if row_major or len(shape) < 2 else (*found[:-2], 1, max(shape[-2], 1))


def make_channels_last_strides_for(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of images whose channels lie together."""
    if len(shape) not in (3, 4, 5):
        raise RuntimeError(f"no channels last format strides exist in {len(shape)} dimensions")
    strides, step = [0] * len(shape), 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def is_contiguous(a: Any, false_if_dde: bool = False) -> bool:
    """Whether the elements lie one after the other."""
    return bool(a.is_contiguous())


def is_channels_last_contiguous(a: Any) -> bool:
    """Whether an image's channels lie together."""
    return any(
        a.ndim == dims and a.is_contiguous(memory_format=form)
        for dims, form in ((4, channels_last), (5, channels_last_3d))
    )


def suggest_memory_format(x: Any) -> Any:
    """Return the memory format of a tensor."""
    if x.layout is strided and is_channels_last_contiguous(x) and not x.is_contiguous():
        return channels_last if x.ndim == 4 else channels_last_3d
    return contiguous_format
