"""Questions about shapes, strides, dims and dtypes, as functions over tensors are written with."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

from undertow._prims_common.kinds import *  # noqa: F403
from undertow._prims_common.kinds import _complex_to_real_dtype_map as _complex_to_real_dtype_map
from undertow._prims_common.kinds import _computation_dtype_map as _computation_dtype_map
from undertow._prims_common.kinds import _integer_dtypes as _integer_dtypes
from undertow._prims_common.kinds import _low_precision_dtypes as _low_precision_dtypes
from undertow._prims_common.kinds import _ordered_types as _ordered_types
from undertow._prims_common.kinds import _real_to_complex_dtype_map as _real_to_complex_dtype_map
from undertow._src.ops.compare import where
from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes
from undertow._src.types.devices import device as Device
from undertow._src.types.layouts import channels_last, channels_last_3d, contiguous_format, strided
from undertow._src.types.sizes import Size
from undertow._src.types.symbols import SymBool, SymFloat, SymInt
from undertow._subclasses.fake_tensor import MetadataMismatchError
from undertow._tensor import Tensor

TensorLike = Tensor
TensorLikeType = Tensor
ShapeType: TypeAlias = Size | list[int] | tuple[int, ...]
StrideType: TypeAlias = list[int] | tuple[int, ...]
DimsType: TypeAlias = int | list[int] | tuple[int, ...]
DimsSequenceType: TypeAlias = list[int] | tuple[int, ...]
NumberType: TypeAlias = bool | int | float | complex
RealNumberType: TypeAlias = bool | int | float
DeviceLikeType: TypeAlias = str | Device | int
TensorSequenceType: TypeAlias = list[Tensor] | tuple[Tensor, ...]
TensorOrNumberLikeType: TypeAlias = Tensor | bool | int | float | complex
Number = (bool, int, float, complex, SymInt, SymFloat, SymBool)
IntLike, FloatLike, BoolLike = (int, SymInt), (float, SymFloat), (bool, SymBool)
IntWithoutSymInt, FloatWithoutSymFloat = int, float


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """Raise unless a condition holds; the message is made when needed."""
    if not b:
        raise exc_type(s())


def prod(xs: Sequence[Any]) -> Any:
    """Return the product of numbers."""
    return reduce(operator.mul, xs, 1)


# --- shapes


def same_shape(a: ShapeType, b: ShapeType, *, allow_rhs_unbacked: bool = False) -> bool:
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


def is_cpu_scalar_tensor(a: Any) -> bool:
    """Whether it is a tensor of one number without dims, in the computer's own memory."""
    return isinstance(a, TensorCore) and a._array.ndim == 0 and str(a.device) == "cpu"


def extract_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> Any:
    """Return the one shape of the tensors among the arguments; None if they differ or there are none."""
    shapes, lone = list[Any](), None
    for each in args:
        if not isinstance(each, TensorCore):
            continue
        if allow_cpu_scalar_tensors and is_cpu_scalar_tensor(each):
            lone = each.shape
        else:
            shapes.append(each.shape)
    if any(shape != shapes[0] for shape in shapes):
        return None
    return shapes[0] if shapes else lone


def check_same_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """Refuse tensors of different shapes."""
    shape = None
    for each in args:
        if not isinstance(each, TensorCore) or (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(each)):
            continue
        shape = each.shape if shape is None else shape
        if each.shape != shape:
            raise RuntimeError(f"Shape {each.shape} is not the expected shape {shape}!")


def check_same_dtype(*args: Any) -> None:
    """Refuse tensors of different dtypes."""
    found = [each.dtype for each in args if isinstance(each, TensorCore)]
    for dtype in found:
        if dtype is not found[0]:
            raise RuntimeError(f"Tensor with dtype {dtype} is not the expected dtype of {found[0]}!")


def check_same_device(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """Refuse tensors on different devices."""
    found = [
        each.device for each in args
        if isinstance(each, TensorCore) and not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(each))
    ]  # fmt: skip
    for device in found:
        if device != found[0]:
            raise RuntimeError(f"Tensor on device {device} is not on the expected device {found[0]}!")


def validate_shape(shape: ShapeType) -> None:
    """Refuse sizes below 0."""
    for each in shape:
        validate_dim_length(each)


def validate_dim_length(length: int) -> None:
    if length < 0:
        raise AssertionError(f"Expected length >= 0, got {length}")


def extract_shape_from_varargs(shape: Any, validate: bool = True) -> tuple[int, ...]:
    """Return the sizes of `f(2, 3)` and `f((2, 3))`."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    if validate:
        validate_shape(shape)
    return tuple(shape)


extract_dims_from_varargs: Callable[[Any], Any] = lambda dims: (
    dims[0] if dims and isinstance(dims[0], Sequence) else dims
)


def infer_size(shape: ShapeType, numel: int) -> tuple[int, ...]:
    """Return a shape with the size in place of -1."""
    known = math.prod(size for size in shape if size != -1)
    unknown = [place for place, size in enumerate(shape) if size == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for size in shape:
        check(size >= -1, lambda size=size: f"invalid shape dimension {size}")  # type: ignore[misc]
    fits = numel == known if not unknown else known > 0 and numel % known == 0
    check(fits, lambda: f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple([numel // known if size == -1 else size for size in shape])


def is_expandable_to(shape: ShapeType, desired: ShapeType) -> bool:
    """Whether a shape can be broadcast to another."""
    if len(shape) > len(desired):
        return False
    return all(size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(desired), strict=False))


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


def reduction_dims(shape: ShapeType, dims: Sequence[int] | None) -> tuple[int, ...]:
    """Return the dims that a reduction goes over; none given means all."""
    if dims is None:
        return tuple(range(len(shape)))
    found = tuple([canonicalize_dim(len(shape), each) for each in dims])
    if len(found) != len(set(found)):
        raise RuntimeError("duplicate value in the list of dims")
    return found


def compute_reduction_output_shape(shape: ShapeType, dimensions: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without the dims that are reduced."""
    return tuple([size for dim, size in enumerate(shape) if dim not in dimensions])


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    if len(dims) != len(set(dims)):
        raise RuntimeError("duplicate value in the list of dims")


def is_valid_permutation(rank: int, perm: Any) -> bool:
    """Whether each dim occurs once."""
    return isinstance(perm, Sequence) and sorted(perm) == list(range(rank))


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    """Values in another order."""
    return [inp[place] for place in perm]


def invert_perm(perm: Sequence[int]) -> list[int]:
    """Return the order that undoes another."""
    return [perm.index(place) for place in range(len(perm))]


def set_correction(unbiased: bool | None = None, correction: Any = None) -> float:
    """How much less than the number of elements a variance is divided by."""
    if correction is not None and unbiased is not None:
        raise RuntimeError("cannot specify both correction and unbiased arguments")
    found = 1.0 if correction is None and unbiased in (None, True) else 0.0 if correction is None else correction
    if not isinstance(found, (int, float)):
        raise ValueError("correction argument should be integer or float")
    return float(found)


# --- memory


def make_contiguous_strides_for(shape: ShapeType, row_major: bool = True) -> tuple[int, ...]:
    """Return the strides of elements that lie one after the other; with row_major=False the last two dims are exchanged."""
    validate_shape(shape)
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


make_channels_last_1d_strides_for = make_channels_last_strides_for
make_channels_last_2d_strides_for = make_channels_last_3d_strides_for = make_channels_last_strides_for


def is_contiguous(a: Any, false_if_dde: bool = False) -> bool:
    """Whether the elements lie one after the other."""
    return bool(a.is_contiguous())


is_contiguous_or_false = is_contiguous


def is_channels_last_contiguous(a: Any) -> bool:
    """Whether an image's channels lie together."""
    return any(
        a.ndim == dims and a.is_contiguous(memory_format=form)
        for dims, form in ((4, channels_last), (5, channels_last_3d))
    )


is_channels_last_contiguous_or_false = is_channels_last_contiguous


def is_contiguous_for_memory_format(a: Any, *, memory_format: Any, false_if_dde: bool = False) -> bool:
    """Whether the elements lie in the order of a format."""
    return bool(a.is_contiguous(memory_format=memory_format))


def suggest_memory_format(x: Any) -> Any:
    """Return the memory format of a tensor."""
    if x.layout is strided and is_channels_last_contiguous(x) and not x.is_contiguous():
        return channels_last if x.ndim == 4 else channels_last_3d
    return contiguous_format


def is_non_overlapping_and_dense_or_false(a: Any) -> bool:
    """Whether no two elements share a location, and there are no gaps between them."""
    pairs = sorted((stride, size) for stride, size in zip(a.stride(), a.shape, strict=True) if size != 1)
    step = 1
    for stride, size in pairs:
        if stride != step:
            return a.numel() == 0
        step *= size
    return True


def compute_elementwise_output_strides(*tensors: Any) -> tuple[int, ...]:
    """Return the strides of what an elementwise function of tensors of one shape returns."""
    if not tensors:
        raise ValueError("Can't compute elementwise output strides for zero tensors!")
    check_same_shape(*tensors, allow_cpu_scalar_tensors=True)
    given = [each for each in tensors if isinstance(each, TensorCore) and not is_cpu_scalar_tensor(each)]
    if not given:
        return ()
    made: Any = 0
    for each in given:
        made = each.detach().float() + made
    strides: tuple[int, ...] = made.stride()
    return strides


def compute_required_storage_length(shape: ShapeType, strides: StrideType, storage_offset: int) -> int:
    """How many elements a storage must have for a view of it."""
    if 0 in shape:
        return 0
    return 1 + storage_offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def clone_preserve_strides(x: Any) -> Any:
    """Return a copy with the same strides, also where elements share a place."""
    needed = compute_required_storage_length(x.size(), x.stride(), x.storage_offset())
    return x.as_strided((needed,), (1,), 0).clone().as_strided(x.size(), x.stride(), x.storage_offset())


def mask_tensor(mask: Any, t: Any) -> Any:
    """Return a tensor with zeros where a mask is not set."""
    return t.logical_and(mask) if t.dtype is dtypes.bool else where(mask, t, 0)


def compare_tensor_meta(
    a: Any, b: Any, check_sizes: bool = True, check_strides: bool = False, *, allow_rhs_unbacked: bool = False,
    check_conj: bool = True,
) -> None:  # fmt: skip
    """Refuse two tensors that differ in shape, dtype, device, or on request in strides."""
    if check_sizes and a.shape != b.shape:
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype is not b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides and a.stride() != b.stride():
        raise RuntimeError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()}")


def device_or_default(device: Any) -> Any:
    """Return a device, or the computer's own memory."""
    return device if device is not None else Device("cpu")


def layout_or_default(layout: Any) -> Any:
    """Return a layout, or the plain one."""
    return layout if layout is not None else strided


def canonicalize_device(device: Any) -> Any:
    """Return a device, by itself or by its name."""
    return device if isinstance(device, Device) else Device(device)
