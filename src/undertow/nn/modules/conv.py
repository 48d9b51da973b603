"""Convolutions and transposed convolutions over one, two and three dimensions, and their lazy variants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.tensor.creation import empty
from undertow._src.types.aliases import Device, _size
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn import init
from undertow.nn.modules.lazy import OneSizeLazy, Shapes, lazy_parameter
from undertow.nn.modules.module import Module
from undertow.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from undertow.nn.parameter import Parameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PADDINGS = ("valid", "same")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_SPREAD = {1: _single, 2: _pair, 3: _triple}


class _ConvNd(Module):
    """What all convolutions share: size checks, parameters and their initialization, and repr."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]  # fmt: skip
    weight: Parameter
    bias: Parameter
    _dimensions = 0
    _function: str  # a name in nn.functional, looked up at each call because tools patch functions there

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...], padding: Any,
        dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {set(_PADDINGS)}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation, self.transposed = stride, padding, dilation, transposed
        self.output_padding, self.groups, self.padding_mode = output_padding, groups, padding_mode
        self._reversed_padding_repeated_twice = self._padding_on_both_sides()
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_on_both_sides(self) -> tuple[int, ...] | list[int]:
        """Return the padding in the form of `F.pad`, for the modes other than zeros."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for place, (step, size) in enumerate(zip(self.dilation, self.kernel_size, strict=True)):
                total = step * (size - 1)
                last = 2 * (len(self.kernel_size) - 1 - place)
                sides[last], sides[last + 1] = total // 2, total - total // 2
        return sides

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = init._bias_bound(self.weight)
            if bound:
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """A convolution; subclasses set the number of dimensions."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | _size, stride: int | _size = 1,
        padding: str | int | Sequence[int] = 0, dilation: int | _size = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        spread = _SPREAD[self._dimensions]
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            padding if isinstance(padding, str) else spread(padding),
            spread(dilation),
            False,
            spread(0),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = getattr(F, self._function)
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return convolve(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of (batch, channels, length)."""

    _dimensions = 1
    _function = "conv1d"


class Conv2d(_Conv):
    """Convolution of (batch, channels, height, width)."""

    _dimensions = 2
    _function = "conv2d"


class Conv3d(_Conv):
    """Convolution of (batch, channels, depth, height, width)."""

    _dimensions = 3
    _function = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution as a layer; subclasses set the number of dimensions."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | _size, stride: int | _size = 1,
        padding: int | _size = 0, output_padding: int | _size = 0, groups: int = 1, bias: bool = True,
        dilation: int | _size = 1, padding_mode: str = "zeros", device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        spread = _SPREAD[self._dimensions]
        super().__init__(
            in_channels, out_channels, spread(kernel_size), spread(stride), spread(padding), spread(dilation), True,
            spread(output_padding), groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size: Sequence[int] | None, stride: Sequence[int], padding: Sequence[int],
        kernel_size: Sequence[int], num_spatial_dims: int, dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:  # fmt: skip
        """Return what to add to one side of the output so that it has the given size."""
        if output_size is None:
            return self.output_padding
        batched = input.dim() == num_spatial_dims + 2
        others = 2 if batched else 1
        if len(output_size) == others + num_spatial_dims:
            output_size = output_size[others:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have {num_spatial_dims} or "
                f"{others + num_spatial_dims} elements (got {len(output_size)})"
            )
        dilation = dilation or (1,) * num_spatial_dims
        least = [
            (input.size(place + others) - 1) * stride[place] - 2 * padding[place]
            + dilation[place] * (kernel_size[place] - 1) + 1
            for place in range(num_spatial_dims)
        ]  # fmt: skip
        most = [size + step - 1 for size, step in zip(least, stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, output_size, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} with inputs "
                f"of {input.size()[2:]}"
            )
        return [size - low for size, low in zip(output_size, least, strict=True)]

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._dimensions, self.dilation
        )
        return getattr(F, self._function)(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class _ConvTransposeMixin(_ConvTransposeNd):
    """A deprecated class that packages use in `isinstance` checks; no layer is an instance."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        message = "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public APIs."
        warn(message, FutureWarning)
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (batch, channels, length)."""

    _dimensions = 1
    _function = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (batch, channels, height, width)."""

    _dimensions = 2
    _function = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (batch, channels, depth, height, width)."""

    _dimensions = 3
    _function = "conv_transpose3d"


# --- lazy


class _LazyConvXdMixin(OneSizeLazy):
    """A convolution that takes its in_channels from the first input."""

    _size = "in_channels"
    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    weight: Parameter
    bias: Parameter
    _dimensions: int

    def _wait_for_input(self, out_channels: int, bias: bool, device: Device, dtype: dtype | None) -> None:
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = lazy_parameter(True, options)
        self.out_channels = out_channels
        self.bias = lazy_parameter(bias, options)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        super().initialize_parameters(input)

    def _size_from(self, input: Tensor) -> int:
        return self._get_in_channels(input)

    def _shapes(self) -> Shapes:
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        else:
            channels = (self.out_channels, self.in_channels // self.groups)
        return {"weight": (*channels, *self.kernel_size), "bias": (self.out_channels,)}

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = self._get_num_spatial_dims() + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[0 if input.dim() == unbatched else 1]

    def _get_num_spatial_dims(self) -> int:
        return self._dimensions


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: int | _size, stride: int | _size = 1, padding: int | _size = 0,
        dilation: int | _size = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._wait_for_input(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: int | _size, stride: int | _size = 1, padding: int | _size = 0,
        output_padding: int | _size = 0, groups: int = 1, bias: bool = True, dilation: int | _size = 1,
        padding_mode: str = "zeros", device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._wait_for_input(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes its in_channels from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes its in_channels from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes its in_channels from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes its in_channels from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes its in_channels from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes its in_channels from the first input."""

    cls_to_become = ConvTranspose3d
