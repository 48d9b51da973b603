"""Convolution functions, and images unfolded into the windows that a convolution sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, invalid_combination, is_int, must_be, no_kernel, wrap_dim
from undertow._src.ops.arrange import constant_pad_nd
from undertow._src.ops.broadcasting import squeeze, unsqueeze
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.public import overloaded, public
from undertow._src.rules import conv as rules
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, bfloat16

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

Sizes = tuple[int, ...]


def expanded(value: object, rank: int, name: str, function: str, given: tuple[Any, ...] = ()) -> Sizes:
    """Return an option of a convolution: one int for every spatial dim, or one for each."""
    if type(value) is int:
        return (value,) * rank
    if is_int(value):
        return (as_int(value, function, name),) * rank
    if not isinstance(value, (tuple, list)) or not all(is_int(each) for each in value):
        if function.startswith("conv_t"):
            raise must_be("tuple of ints", value, function, name)
        raise invalid_combination(function, given, {name: value})
    if len(value) not in (1, rank):
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
            f"dimensions, but got {name}={list(value)}"
        )
    values = tuple([as_int(each, function, name) for each in value])
    return values * rank if len(values) == 1 else values


def _check_input(input: Tensor, weight: object, bias: object, rank: int, name: str) -> bool:
    """Whether the input has a batch dim."""
    given = (input, weight) if bias is None else (input, weight, bias)
    if not all(isinstance(each, TensorCore) for each in given):
        raise invalid_combination(name, given)
    ndim = input._array.ndim
    if ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input._array.shape)}"
        )
    return ndim == rank + 2


def _check_options(
    stride: Sizes, padding: Sizes, dilation: Sizes, output_padding: Sizes, groups: int, early: bool
) -> None:
    """Refuse what PyTorch refuses. `early`: dilations are checked too, as for bfloat16; other dtypes' are checked later."""
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if early and min(dilation) <= 0:
        raise RuntimeError("non-positive dilation is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _check_weight(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool) -> None:
    shape, size = input._array.shape, list(weight._array.shape)
    if len(size) < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if len(size) > len(shape):
        raise RuntimeError(
            f"Expected {len(size)}-dimensional input for {len(size)}-dimensional weight {size}, but got "
            f"{len(shape)}-dimensional input of size {list(shape)} instead"
        )
    if len(size) != len(shape):
        raise RuntimeError(
            f"expected stride to be a single integer value or a list of {len(size) - 2} values to match the convolution "
            f"dimensions, but got stride={[1] * (len(shape) - 2)}"
        )
    if size[0] % groups or size[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be {'at least' if size[0] < groups else 'divisible by'} {groups} "
            f"at dimension 0, but got weight of size {size} instead"
        )
    channels = size[0] if transposed else size[1] * groups
    opening = "Given transposed=1" if transposed else f"Given groups={groups}"
    if shape[1] != channels:
        raise RuntimeError(
            f"{opening}, weight of size {size}, expected input{list(shape)} to have {channels} channels, but got "
            f"{shape[1]} channels instead"
        )
    outputs = size[1] * groups if transposed else size[0]
    if bias is not None and bias._array.shape != (outputs,):
        opening = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{opening} of size {size}, expected bias to be 1-dimensional with {outputs} elements, but got bias of size "
            f"{list(bias._array.shape)} instead"
        )


def _check_not_empty(input: Tensor, weight: Tensor, transposed: bool) -> None:
    """Refuse sizes of zero, except for the batch or the channels of the input."""
    shape, size = input._array.shape, list(weight._array.shape)
    if 0 in shape[:2]:
        return
    if 0 in shape:
        given = [*shape[:2], 1, *shape[2:]] if len(shape) == 3 else list(shape)
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {given}")
    if 0 in size[2:]:
        sides = ["depth", "height", "width"][-max(2, len(size) - 2) :]
        kernel = size[2:] if len(size) > 3 else [1, *size[2:]]
        given_kernel = " ".join(f"kernel_{side}: {n}" for side, n in zip(sides, kernel, strict=True))
        raise RuntimeError(f"kernel size should be greater than zero, but got {given_kernel}")
    if transposed and 0 in size:
        raise RuntimeError(
            f"non-empty 2D or 4D weight tensor expected, but got: {size}, which makes no channel of output"
        )


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> None:
    kind, other = DTYPE_OF[input._array.dtype], DTYPE_OF[weight._array.dtype]
    first = transposed or bias is None or bias.dtype is kind
    # PyTorch's fast kernels, for these two dtypes, name the classes of the tensors.
    if kind is not other and first and kind.scalar_name in ("Float", "BFloat16") and input._array.shape[0] != 1:
        raise RuntimeError(
            f"Input type ({_class_name(kind)}) and weight type ({_class_name(other)}) should be the same. Convert one of "
            "them with .to(dtype)."
        )
    if kind is not other:
        raise RuntimeError(f"expected scalar type {kind.scalar_name} but found {other.scalar_name}")
    _check_bias(input, bias)
    if kind.category == 0:
        raise no_kernel("slow_conv2d_cpu", input)


def _check_bias(input: Tensor, bias: Tensor | None) -> None:
    if bias is not None and bias._array.dtype != input._array.dtype:
        kinds = [DTYPE_OF[given._array.dtype].c_name for given in (input, bias)]
        raise RuntimeError(f"Input type ({kinds[0]}) and bias type ({kinds[1]}) should be the same")


def _class_name(kind: Any) -> str:
    old = kind.scalar_name in ("Float", "Double", "Int", "Long", "Short", "Char", "Byte", "Half")
    return f"torch.{kind.scalar_name}Tensor" if old else f"CPU{kind.scalar_name}Type"


def convolved(
    input: Tensor, weight: Tensor, bias: Tensor | None, batched: bool, stride: Sizes, padding: Sizes, dilation: Sizes,
    groups: int, transposed: bool = False, output_padding: Sizes = (),
) -> Tensor:  # fmt: skip
    """Return a convolution, or its transpose, with one number per dim in every option."""
    rank = len(stride)
    output_padding = output_padding or (0,) * rank
    _check_options(stride, padding, dilation, output_padding, groups, input.dtype is bfloat16)
    if not batched:
        input = unsqueeze(input, 0)
    _check_weight(input, weight, bias, groups, transposed)
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if not transposed:
        _check_kernel_fits(input._array.shape[2:], weight._array.shape[2:], padding, dilation)
    elif 0 not in input._array.shape:
        _check_output_padding(output_padding, stride, dilation)
        _check_transposed_size(
            input._array.shape[2:], weight._array.shape[2:], stride, padding, dilation, output_padding
        )
    _check_not_empty(input, weight, transposed)
    _check_dtypes(input, weight, bias, transposed)
    options = {
        "stride": stride, "padding": padding, "dilation": dilation, "transposed": transposed,
        "output_padding": output_padding, "groups": groups,
    }  # fmt: skip
    if input._array.dtype.kind == "c":
        result = _complex_product(input, weight, bias, options)
    else:
        result = apply(rules.convolution, input, weight, bias, **options)
    if batched:
        return ordered_like(result, input, weight)
    if type(result._array) is np.ndarray:  # a single image has no memory order to pass on
        result._array = np.ascontiguousarray(result._array)
    return squeeze(result, 0)


def _complex_product(input: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """Return a convolution of complex numbers as three real ones."""
    real = apply(rules.convolution, input.real, weight.real, None if bias is None else bias.real, **options)
    imaginary = apply(rules.convolution, input.imag, weight.imag, None, **options)
    both = None if bias is None else bias.real + bias.imag
    mixed = apply(rules.convolution, input.real + input.imag, weight.real + weight.imag, both, **options)
    return real - imaginary + 1j * (mixed - real - imaginary)


def _check_kernel_fits(size: Sizes, kernel: Sizes, padding: Sizes, dilation: Sizes) -> None:
    padded = [n + 2 * p for n, p in zip(size, padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n < k for n, k in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size"
        )


def _check_output_padding(output_padding: Sizes, stride: Sizes, dilation: Sizes) -> None:
    if all(o < s or o < d for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        return
    names = ["depth", "height", "width"][-max(2, len(stride)) :]
    given = []
    for what, values in (("output_padding", output_padding), ("stride", stride), ("dilation", dilation)):
        values = values if len(values) > 1 else ((0 if what == "output_padding" else 1), *values)
        given += [f"{what}_{name}: {value}" for name, value in zip(names, values, strict=True)]
    raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {' '.join(given)}")


def _check_transposed_size(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, output_padding: Sizes
) -> None:
    out = tuple(
        [
            (n - 1) * s - 2 * p + d * (k - 1) + more + 1
            for n, k, s, p, d, more in zip(size, kernel, stride, padding, dilation, output_padding, strict=True)
        ]
    )
    if min(out) < 1:
        given, made = (" x ".join(map(str, sizes if len(sizes) > 1 else (1, *sizes))) for sizes in (size, out))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: ({made}). Output size is too "
            "small"
        )


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: int | _size,
    padding: str | int | _size, dilation: int | _size, groups: Any,
) -> Tensor:  # fmt: skip
    name = f"conv{rank}d"
    batched = _check_input(input, weight, bias, rank, name)
    given = (input, weight)
    strides, dilations = (
        expanded(stride, rank, "stride", name, given),
        expanded(dilation, rank, "dilation", name, given),
    )
    if isinstance(padding, str):
        _check_weight(input if batched else unsqueeze(input, 0), weight, bias, as_int(groups, name, "groups"), False)
        input, paddings = _named_padding(input, weight, padding, strides, dilations)
    else:
        paddings = expanded(padding, rank, "padding", name, given)
        _check_bias(input, bias)
    return convolved(input, weight, bias, batched, strides, paddings, dilations, as_int(groups, name, "groups"))


def _named_padding(input: Tensor, weight: Tensor, padding: str, stride: Sizes, dilation: Sizes) -> tuple[Any, Sizes]:
    """Return the padding of 'valid' or 'same'; an odd total puts the extra element on the right."""
    rank = len(stride)
    if padding == "valid":
        return input, (0,) * rank
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(weight._array.shape[2:], dilation, strict=True)]
    if any(n % 2 for n in total):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may need a padded copy of the input first"
        )
        widths = [side for n in reversed(total) for side in (0, n % 2)]
        input = constant_pad_nd(input, widths, 0)
    return input, tuple([n // 2 for n in total])


@overloaded
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: str | int | _size = 0,
    dilation: int | _size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a convolution over sequences (batch, channel, length)."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@overloaded
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: str | int | _size = 0,
    dilation: int | _size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a convolution over images (batch, channel, height, width)."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@overloaded
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: str | int | _size = 0,
    dilation: int | _size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a convolution over volumes (batch, channel, depth, height, width)."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: int | _size, padding: int | _size,
    output_padding: int | _size, groups: Any, dilation: int | _size,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{rank}d"
    batched = _check_input(input, weight, bias, rank, name)
    strides, paddings, more, dilations = (
        expanded(value, rank, option, name)
        for option, value in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation),
        )
    )  # fmt: skip
    groups = as_int(groups, name, "groups")
    return convolved(input, weight, bias, batched, strides, paddings, dilations, groups, True, more)


@public
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: int | _size = 0,
    output_padding: int | _size = 0, groups: int = 1, dilation: int | _size = 1,
) -> Tensor:  # fmt: skip
    """Return the transpose of conv1d: spreads each element over a window."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: int | _size = 0,
    output_padding: int | _size = 0, groups: int = 1, dilation: int | _size = 1,
) -> Tensor:  # fmt: skip
    """Return the transpose of conv2d: spreads each pixel over a window."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | _size = 1, padding: int | _size = 0,
    output_padding: int | _size = 0, groups: int = 1, dilation: int | _size = 1,
) -> Tensor:  # fmt: skip
    """Return the transpose of conv3d: spreads each cell over a window."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# --- windows as columns


def _pair(value: Any, name: str) -> Sizes:
    if is_int(value):
        return (as_int(value, name, name),) * 2
    if len(value) == 1:
        return (int(value[0]),) * 2
    if len(value) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    return int(value[0]), int(value[1])


def _tuple(values: Sizes) -> str:
    return f"({', '.join(map(str, values))})"


def _check_positive(what: str, values: Sizes, names: str) -> None:
    if min(values) <= 0:
        given = " ".join(f"{names}_{side}: {value}" for side, value in zip(("height", "width"), values, strict=True))
        raise RuntimeError(f"{what} should be greater than zero, but got {given}")


def _check_padding(padding: Sizes) -> None:
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}")


def _block_counts(size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Sizes:
    return tuple(
        [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
        ]
    )


@public
def unfold(
    input: Tensor, kernel_size: int | _size, dilation: int | _size = 1, padding: int | _size = 0,
    stride: int | _size = 1,
) -> Tensor:  # fmt: skip
    """Return every window of an image as a column: (batch, channel · kernel, windows)."""
    kernel, dilations = _pair(kernel_size, "kernel_size"), _pair(dilation, "dilation")
    paddings, strides = _pair(padding, "padding"), _pair(stride, "stride")
    _check_positive("kernel size", kernel, "kernel")
    _check_positive("dilation", dilations, "dilation")
    _check_positive("stride", strides, "stride")
    _check_padding(paddings)
    shape = input._array.shape
    wrap_dim(2, len(shape))
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and no other size of 0, "
            f"but got: {list(shape)}"
        )
    counts = _block_counts(shape[-2:], kernel, dilations, paddings, strides)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {_tuple(shape[-2:])}, kernel_size={_tuple(kernel)}, "
            f"dilation={_tuple(dilations)}, padding={_tuple(paddings)}, calculated shape of the array of sliding blocks "
            f"as {_tuple(counts)}, but its components must be at least one."
        )
    if input._array.dtype.kind in "iu":
        raise no_kernel("im2col_out_cpu", input)
    return apply(rules.im2col, input, kernel_size=kernel, dilation=dilations, padding=paddings, stride=strides)


@public
def fold(
    input: Tensor, output_size: int | _size, kernel_size: int | _size, dilation: int | _size = 1,
    padding: int | _size = 0, stride: int | _size = 1,
) -> Tensor:  # fmt: skip
    """Add columns back into an image of `output_size`: the adjoint of unfold."""
    size, kernel = _pair(output_size, "output_size"), _pair(kernel_size, "kernel_size")
    dilations, paddings, strides = _pair(dilation, "dilation"), _pair(padding, "padding"), _pair(stride, "stride")
    _check_positive("kernel size", kernel, "kernel")
    _check_positive("dilation", dilations, "dilation")
    _check_positive("stride", strides, "stride")
    _check_padding(paddings)
    shape = input._array.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with no size of 0 but the batch's, not {list(shape)}"
        )
    if shape[-2] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by kernel_size's product; they are "
            f"{shape[-2]} and {_tuple(kernel)}."
        )
    counts = _block_counts(size, kernel, dilations, paddings, strides)
    given = (
        f"Given output_size={_tuple(size)}, kernel_size={_tuple(kernel)}, dilation={_tuple(dilations)}, "
        f"padding={_tuple(paddings)}, stride={_tuple(strides)}, "
    )
    if min(counts) < 1:
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as {_tuple(counts)}, which is too small (non-positive)"
        )
    if counts[0] * counts[1] != shape[-1]:
        raise RuntimeError(
            f"{given}expected size of input's dimension 2 to match the calculated number of sliding blocks {counts[0]} * "
            f"{counts[1]} = {counts[0] * counts[1]}, but got input.size(2)={shape[-1]}."
        )
    if input._array.dtype.kind in "iu":
        raise no_kernel("col2im_out_cpu", input)
    return apply(
        rules.col2im, input, output_size=size, kernel_size=kernel, dilation=dilations, padding=paddings, stride=strides
    )
