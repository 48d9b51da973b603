"""The functions that compute an operator which no mode or class overrides, in a call that undertow itself did not start.

Most operators are public functions of undertow, under the same name. Backward operators are the gradients of these:
`vjp` runs the function again, recorded, and sends the gradient through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._ops import OpOverload
from undertow._src.base.modes import enable_grad
from undertow._src.engine.differentiate import grad
from undertow._src.overrides.dispatch.forward_kernels import FORWARD, REDUCTIONS, functional, torch
from undertow._src.tensor.core import TensorCore


def kernel_of(func: OpOverload) -> Callable[..., Any]:
    """Return the function that computes an operator."""
    packet = func._packet
    if packet.namespace == "aten" and packet.__name__ in KERNELS:
        return KERNELS[packet.__name__]
    operator = packet.operators.get(func._overload)
    if operator is not None:
        return operator._kernel()
    if packet._call is None:
        raise NotImplementedError(
            f"undertow has no torch.ops.{func}: its arguments are not those that it was offered with"
        )
    return packet._call


def vjp(
    function: Callable[..., Any], inputs: Sequence[Any], g: Any, mask: Sequence[bool] | None = None
) -> tuple[Any, ...]:
    """Return the gradients of a function with respect to the inputs that require them."""
    wanted = [True] * len(inputs) if mask is None else list(mask)
    given: list[Any] = []
    for each, want in zip(inputs, wanted, strict=True):
        requires = want and isinstance(each, TensorCore)
        given.append(each.detach()._with_requires_grad(True) if requires else each)
    leaves = [each for each, want in zip(given, wanted, strict=True) if want and isinstance(each, TensorCore)]
    with enable_grad():
        output = function(*given)
        output = output[0] if isinstance(output, (tuple, list)) else output
        found = iter(grad(output, leaves, g, allow_unused=True))
    return tuple(
        [
            next(found) if want and isinstance(each, TensorCore) else None
            for each, want in zip(given, wanted, strict=True)
        ]
    )


def _of(name: str, *options: str) -> Callable[..., Any]:
    """Return the backward operator of a function in `nn.functional`: gradient, input, then the function's options."""

    def backward(g: Any, self: Any, *given: Any, **more: Any) -> Any:
        chosen = dict(zip(options, given, strict=False)) | more
        return vjp(lambda x: functional(name)(x, **chosen), (self,), g)[0]

    return backward


def _of_loss(name: str, *options: str) -> Callable[..., Any]:
    def backward(g: Any, self: Any, target: Any, reduction: int = 1, *given: Any) -> Any:
        chosen = dict(zip(options, given, strict=False)) | {"reduction": REDUCTIONS[reduction]}
        return vjp(lambda x: functional(name)(x, target, **chosen), (self,), g)[0]

    return backward


def _elu_backward(g: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self: Any) -> Any:
    if is_result:
        slope = (self + alpha * scale) * input_scale
        return g * torch("where")(self <= 0, slope, torch("full_like")(self, scale))
    inside = torch("where")(self <= 0, (self * input_scale).exp() * (alpha * input_scale * scale), 1.0 * scale)
    return g * inside


def _layer_norm_backward(
    g: Any, input: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> tuple[Any, ...]:
    # eps is contained in rstd: subtract the variance to recover it
    axes = list(range(-len(shape), 0))
    hat = (input - mean) * rstd
    weighted = g if weight is None else g * weight
    inner = weighted.mean(axes, keepdim=True) + hat * (weighted * hat).mean(axes, keepdim=True)
    over = list(range(input.ndim - len(shape)))
    into_input = (weighted - inner) * rstd if mask[0] else None
    into_weight = _summed(g * hat, over) if mask[1] and weight is not None else None
    return into_input, into_weight, _summed(g, over) if mask[2] and bias is not None else None


def _summed(value: Any, axes: list[int]) -> Any:
    return value.sum(axes) if axes else value


def _group_norm_backward(
    g: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int, group: int, mask: Any
) -> tuple[Any, ...]:
    rows = input.reshape(N, group, -1)
    hat = ((rows - mean.reshape(N, group, 1)) * rstd.reshape(N, group, 1)).reshape(N, C, HxW)
    flat = g.reshape(N, C, HxW)
    weighted = flat if weight is None else flat * weight.reshape(1, C, 1)
    wide, hats = weighted.reshape(N, group, -1), hat.reshape(N, group, -1)
    inner = wide.mean(-1, keepdim=True) + hats * (wide * hats).mean(-1, keepdim=True)
    into_input = ((wide - inner) * rstd.reshape(N, group, 1)).reshape(input.shape) if mask[0] else None
    into_weight = (flat * hat).sum([0, 2]) if mask[1] and weight is not None else None
    return into_input, into_weight, flat.sum([0, 2]) if mask[2] else None


def _batch_norm_backward(
    g: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, invstd: Any, train: bool, eps: float,
    mask: Any,
) -> tuple[Any, ...]:  # fmt: skip
    shape = [1, -1] + [1] * (input.ndim - 2)
    axes = [axis for axis in range(input.ndim) if axis != 1]
    if not train:
        mean, invstd = running_mean, (running_var + eps).rsqrt()
    hat = (input - mean.reshape(shape)) * invstd.reshape(shape)
    weighted = g if weight is None else g * weight.reshape(shape)
    if train:
        weighted = weighted - weighted.mean(axes, keepdim=True) - hat * (weighted * hat).mean(axes, keepdim=True)
    into_weight = (g * hat).sum(axes) if mask[1] and weight is not None else None
    return weighted * invstd.reshape(shape) if mask[0] else None, into_weight, g.sum(axes) if mask[2] else None


def _convolution_backward(
    g: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, mask: Any,
) -> tuple[Any, ...]:  # fmt: skip
    def again(input: Any, weight: Any) -> Any:
        return torch("convolution")(input, weight, None, stride, padding, dilation, transposed, output_padding, groups)

    found = vjp(again, (input, weight), g, mask[:2])
    return (*found, g.sum([axis for axis in range(g.ndim) if axis != 1]) if mask[2] else None)


def _attention_backward(
    g: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    options = {"scale": scale, "enable_gqa": query.shape[1] != key.shape[1]}
    again = functional("scaled_dot_product_attention")
    return vjp(lambda q, k, v: again(q, k, v, attn_mask, 0.0, is_causal, **options), (query, key, value), g)


def _nll_loss_backward(
    g: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any
) -> Any:
    options = {"ignore_index": ignore_index, "reduction": REDUCTIONS[reduction]}
    return vjp(lambda x: functional("nll_loss")(x, target, weight, **options), (self,), g)[0]


def _binary_cross_entropy_backward(g: Any, self: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    options = {"weight": weight, "reduction": REDUCTIONS[reduction]}
    return vjp(lambda x: functional("binary_cross_entropy")(x, target, **options), (self,), g)[0]


def _pool_backward(name: str) -> Callable[..., Any]:
    def max_pool(
        g: Any, self: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Any
    ) -> Any:
        return vjp(lambda x: functional(name)(x, kernel, stride, padding, dilation, ceil), (self,), g)[0]

    def avg_pool(g: Any, self: Any, kernel: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        return vjp(lambda x: functional(name)(x, kernel, stride, padding, *rest), (self,), g)[0]

    return max_pool if name.startswith("max") else avg_pool


def _adaptive_backward(name: str) -> Callable[..., Any]:
    rank = int(name[-2])
    return lambda g, self, *indices: vjp(lambda x: functional(name)(x, tuple(g.shape[-rank:])), (self,), g)[0]


def _prelu_backward(g: Any, self: Any, weight: Any) -> tuple[Any, ...]:
    positive = self > 0
    return torch("where")(positive, g, weight * g), torch("where")(positive, 0.0, self * g)


def _select_backward(g: Any, sizes: Any, dim: int, index: int) -> Any:
    return torch("select_scatter")(g.new_zeros(sizes), g, dim, index)


def _slice_backward(g: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    return torch("slice_scatter")(g.new_zeros(sizes), g, dim, start, end, step)


def _unfold_backward(g: Any, sizes: Any, dim: int, size: int, step: int) -> Any:
    return vjp(lambda x: x.unfold(dim, size, step), (g.new_zeros(sizes),), g)[0]


def _diagonal_backward(g: Any, sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    return torch("diagonal_scatter")(g.new_zeros(sizes), g, offset, dim1, dim2)


def _embedding_backward(g: Any, indices: Any, count: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    weight = g.new_zeros(count, g.shape[-1])
    options = {"padding_idx": padding_idx if padding_idx >= 0 else None, "scale_grad_by_freq": scale_grad_by_freq}
    return vjp(lambda table: functional("embedding")(indices, table, **options), (weight,), g)[0]


def _softmax_backward(g: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    weighted = g * output
    return weighted - output * weighted.sum(dim, keepdim=True)


def _log_softmax_backward(g: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    return g - output.exp() * g.sum(dim, keepdim=True)


KERNELS: dict[str, Callable[..., Any]] = {
    **FORWARD,
    "_prelu_kernel_backward": _prelu_backward,
    "sigmoid_backward": lambda g, output: g * ((1 - output) * output),
    "tanh_backward": lambda g, output: g * (1 - output * output),
    "threshold_backward": lambda g, self, threshold: torch("where")(self <= threshold, 0.0, g),
    "logit_backward": lambda g, self, eps=None: vjp(lambda x: x.logit(eps), (self,), g)[0],
    "hardtanh_backward": _of("hardtanh", "min_val", "max_val"),
    "elu_backward": _elu_backward,
    "gelu_backward": _of("gelu"),
    "silu_backward": _of("silu"),
    "mish_backward": _of("mish"),
    "softplus_backward": _of("softplus", "beta", "threshold"),
    "hardswish_backward": _of("hardswish"),
    "hardsigmoid_backward": _of("hardsigmoid"),
    "leaky_relu_backward": lambda g, self, negative_slope, is_result: torch("where")(self > 0, g, g * negative_slope),
    "log_sigmoid_backward": lambda g, self, buffer: vjp(lambda x: functional("logsigmoid")(x), (self,), g)[0],
    "softshrink_backward": _of("softshrink", "lambd"),
    "hardshrink_backward": _of("hardshrink", "lambd"),
    "glu_backward": _of("glu", "dim"),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm_backward": _group_norm_backward,
    "native_batch_norm_backward": _batch_norm_backward,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mse_loss_backward": _of_loss("mse_loss"),
    "smooth_l1_loss_backward": _of_loss("smooth_l1_loss", "beta"),
    "huber_loss_backward": _of_loss("huber_loss", "delta"),
    "soft_margin_loss_backward": _of_loss("soft_margin_loss"),
    "nll_loss_backward": _nll_loss_backward,
    "nll_loss2d_backward": _nll_loss_backward,
    "binary_cross_entropy_backward": _binary_cross_entropy_backward,
    "max_pool2d_with_indices_backward": _pool_backward("max_pool2d"),
    "max_pool3d_with_indices_backward": _pool_backward("max_pool3d"),
    "avg_pool2d_backward": _pool_backward("avg_pool2d"),
    "avg_pool3d_backward": _pool_backward("avg_pool3d"),
    "_adaptive_avg_pool2d_backward": _adaptive_backward("adaptive_avg_pool2d"),
    "_adaptive_avg_pool3d_backward": _adaptive_backward("adaptive_avg_pool3d"),
    "adaptive_max_pool2d_backward": _adaptive_backward("adaptive_max_pool2d"),
    "select_backward": _select_backward,
    "slice_backward": _slice_backward,
    "diagonal_backward": _diagonal_backward,
    "unfold_backward": _unfold_backward,
    "embedding_dense_backward": _embedding_backward,
}
