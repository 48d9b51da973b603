"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.tensor.creation import empty
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn import init
from undertow.nn.modules.lazy import OneSizeLazy, Shapes, lazy_parameter
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """y = x @ weight.T + bias, over the last dimension.

    >>> torch.nn.Linear(3, 2)
    Linear(in_features=3, out_features=2, bias=True)
    """

    __constants__ = ["in_features", "out_features"]
    weight: Parameter
    bias: Parameter

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(in_features), 1/sqrt(in_features))."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = init._bias_bound(self.weight)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        held = self._parameters  # read directly, which is faster than through __getattr__
        try:
            return F.linear(input, held["weight"], held["bias"])
        except KeyError:
            if "weight" in held and "bias" in held:
                raise
        return F.linear(input, self.weight, self.bias)  # parametrized, or a plain attribute

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that quantization tools leave alone; attention's output projection is one."""


class Bilinear(Module):
    """y = x1 @ weight @ x2 + bias, for each output feature."""

    __constants__ = ["in1_features", "in2_features", "out_features"]
    weight: Parameter
    bias: Parameter

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Device = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features!r})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(in1_features), 1/sqrt(in1_features))."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(OneSizeLazy, Linear):
    """A Linear that takes its in_features from the first input."""

    cls_to_become = Linear
    _size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: dtype | None = None) -> None:
        super().__init__(0, 0, False)
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = lazy_parameter(True, options)
        self.out_features = out_features
        self.bias = lazy_parameter(bias, options)

    def _size_from(self, input: Tensor) -> int:
        return input.shape[-1]

    def _shapes(self) -> Shapes:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}

    def initialize_parameters(self, input: Tensor) -> None:
        super().initialize_parameters(input)
        if self.in_features != 0:
            return
        self.in_features = self.weight.shape[-1]  # the shapes came from a checkpoint
        found = self._size_from(input)
        if found != self.in_features:
            raise AssertionError(
                f"The in_features inferred from input: {found} is not that of the weight, which a checkpoint "
                f"has given {self.in_features} columns"
            )
