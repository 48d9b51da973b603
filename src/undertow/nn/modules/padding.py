"""Padding layers: constant, zero, reflected, replicated and circular, over one, two and three dimensions."""

from __future__ import annotations

from undertow._src.types.aliases import _size
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.module import Module
from undertow.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_SPREAD = {1: _pair, 2: _quadruple, 3: _ntuple(6)}


class _Pad(Module):
    """Pads by a mode of `F.pad`; subclasses set the mode and the number of dimensions."""

    __constants__ = ["padding"]
    padding: tuple[int, ...]
    _dimensions = 1
    _mode = "constant"

    def __init__(self, padding: int | _size) -> None:
        super().__init__()
        self.padding = _SPREAD[self._dimensions](padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | _size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with one value."""

    _dimensions = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with one value."""

    _dimensions = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with one value."""

    _dimensions = 3


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    def __init__(self, padding: int | _size) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    def __init__(self, padding: int | _size) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    def __init__(self, padding: int | _size) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its reflection, the edge not repeated."""

    _dimensions = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their reflection, the edges not repeated."""

    _dimensions = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their reflection, the edges not repeated."""

    _dimensions = 3


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension by repeating its edge."""

    _dimensions = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions by repeating their edges."""

    _dimensions = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions by repeating their edges."""

    _dimensions = 3


class _CircularPadNd(_Pad):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        least = self._dimensions + 1
        if input.dim() not in (least, least + 1):
            raise ValueError(f"expected {least}D or {least + 1}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension by wrapping around."""

    _dimensions = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions by wrapping around."""

    _dimensions = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions by wrapping around."""

    _dimensions = 3
