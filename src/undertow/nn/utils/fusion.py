"""Folding a batch norm in evaluation mode into the linear layer or convolution before it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from undertow._src.tensor.creation import ones_like, zeros_like
from undertow._tensor import Tensor
from undertow.nn.parameter import Parameter

if TYPE_CHECKING:
    from undertow.nn.modules.module import Module, ModuleT

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: ModuleT, bn: Module, transpose: bool = False) -> ModuleT:
    """Return a convolution equivalent to conv followed by bn in evaluation mode."""
    fused = _copy_in_eval(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Return the weight and bias of a convolution followed by a batch norm."""
    shape = [1, -1, *[1] * (conv_w.dim() - 2)] if transpose else [-1, *[1] * (conv_w.dim() - 1)]
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: ModuleT, bn: Module) -> ModuleT:
    """Return a linear layer equivalent to linear followed by bn in evaluation mode."""
    fused = _copy_in_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"{fused.out_features} and {bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a linear layer followed by a batch norm."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _copy_in_eval(layer: ModuleT, bn: Module) -> ModuleT:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return copy.deepcopy(layer)


def _folded(
    weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, eps: float, scale: Tensor | None,
    shift: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (variance + eps).rsqrt()
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(new_weight.detach(), weight.requires_grad), Parameter(new_bias.detach(), bias.requires_grad)
