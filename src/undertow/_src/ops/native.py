"""The functions below nn.functional: their options are numbers instead of names, and few have defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy.embedding import bag_max
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, as_ints, check_constant, check_tensor, no_kernel
from undertow._src.ops import conv, loss, loss_class, sampling
from undertow._src.ops.clamp import clamp_min
from undertow._src.ops.embedding import bag_sizes, reduced_bags, sorted_into_bags
from undertow._src.ops.named import into_all
from undertow._src.ops.norm import normalized_batch
from undertow._src.ops.numbers import lifted
from undertow._src.ops.public import public
from undertow._src.rules import loss as loss_rules
from undertow._src.rules import native as rules
from undertow._src.rules import sampling as sampling_rules
from undertow._src.rules import scalars
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

# --- convolutions


@public
def convolution(
    input: Any, weight: Any, bias: Any, stride: int | _size, padding: int | _size, dilation: int | _size,
    transposed: bool, output_padding: int | _size, groups: int,
) -> Tensor:  # fmt: skip
    """Return a convolution of a batch, or with `transposed` its transpose, of as many dims as the weight has."""
    check_tensor(input, "convolution")
    check_tensor(weight, "convolution", "weight", 2)
    options: list[Any] = []
    rank = weight._array.ndim - 2
    given = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    for argument, value in given.items():
        place = 8 if argument == "output_padding" else 4 + len(options)
        sizes = as_ints(value, "convolution", argument, place)
        options.append(sizes * rank if len(sizes) == 1 else sizes)
    if input._array.ndim != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional input for {rank + 2}-dimensional weight {list(weight._array.shape)}, but got "
            f"{input._array.ndim}-dimensional input of size {list(input._array.shape)} instead"
        )
    strides, paddings, dilations, more = options
    if not transposed:
        return conv.convolved(input, weight, bias, True, strides, paddings, dilations, groups)
    return conv.convolved(input, weight, bias, True, strides, paddings, dilations, groups, True, more)


@public
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolve sequences laid out as (time, batch, channel); the weight is (kernel, channel in, channel out)."""
    for place, (argument, value) in enumerate({"input": input, "weight": weight, "bias": bias}.items(), 1):
        check_tensor(value, "conv_tbc", argument, place)
    a, w, b = input._array.shape, weight._array.shape, bias._array.shape
    if len(a) != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if len(w) != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if len(b) != 1:
        raise RuntimeError("Bias must be 1-D")
    if a[2] != w[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if w[2] != b[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    return apply(rules.conv_tbc, input, weight, bias, pad=as_int(pad, "conv_tbc", "pad", 4))


# --- norms that return their statistics


@public
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float, *, out: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """batch_norm with the mean and 1/√(var + eps) of each channel; empty ones where running statistics were used."""
    check_tensor(input, "native_batch_norm")

    def compute() -> tuple[Any, Any, Any]:
        result, mean, rstd = normalized_batch(input, weight, bias, running_mean, running_var, training, momentum, eps)
        if not training:
            mean, rstd = np.empty(0, mean.dtype), np.empty(0, rstd.dtype)
        return result, wrap(mean), wrap(rstd)

    return compute() if out is None else into_all(tuple, "native_batch_norm", out, compute, (input, weight, bias))


@public
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """group_norm with the mean and 1/√(var + eps) of each group."""
    check_tensor(input, "native_group_norm")
    shape = input._array.shape
    if group <= 0 or shape[1] % group:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but the shape is "
            f"{list(shape)}, num_groups={group}"
        )
    if not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("GroupNormKernelImpl", input)
    return apply(rules.native_group_norm, input, weight, bias, N=N, C=C, HxW=HxW, group=group, eps=eps)


# --- bags of rows

_BAG_MODES = ("sum", "mean", "max")


@public
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Sum (0), means (1) or maxima (2) of rows; each index's bag, the bags' sizes, the rows of the maxima."""
    for place, (argument, value) in enumerate({"weight": weight, "indices": indices, "offsets": offsets}.items(), 1):
        check_tensor(value, "embedding_bag", argument, place)
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    how = _BAG_MODES[mode]
    if per_sample_weights is not None and how != "sum":
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    padding = -1 if padding_idx is None else padding_idx % weight._array.shape[0]
    count, bags, scale = sorted_into_bags(indices, weight, offsets._array, include_last_offset, padding, how)
    out = reduced_bags(
        indices, weight, how, scale_grad_by_freq, per_sample_weights, count, bags, scale, sparse, padding
    )
    sizes = bag_sizes(bags, scale, count).astype(np.int64) if how != "sum" else np.zeros(len(offsets._array), np.int64)
    chosen = sizes.copy()
    if how == "max":
        chosen = bag_max(weight._array, indices._array, bags, scale, count)[1]
    return out, wrap(bags), wrap(sizes), wrap(np.maximum(chosen, 0))


# --- images


def _sample(
    name: str, input: Tensor, grid: Tensor, interpolation_mode: object, padding_mode: object, align_corners: bool
) -> Any:
    check_tensor(input, name)
    check_tensor(grid, name, "grid", 2)
    mode = as_int(interpolation_mode, name, "interpolation_mode", 3)
    padding = as_int(padding_mode, name, "padding_mode", 4)
    words = sampling.MODES[mode] if 0 <= mode < 3 else "nearest"
    sampling.check_grid(input, grid, words)
    return apply(
        sampling_rules.grid_sampler[input._array.ndim - 2], input, grid, interpolation_mode=words,
        padding_mode=sampling.PADDINGS[padding] if 0 <= padding < 3 else "zeros", align_corners=bool(align_corners),
    )  # fmt: skip


@public
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Images, or volumes, read at the places of a grid: bilinear (0), nearest (1) or bicubic (2)."""
    return _sample("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners)


@public
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Images read at the places of a grid."""
    return _sample("grid_sampler_2d", input, grid, interpolation_mode, padding_mode, align_corners)


@public
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Volumes read at the places of a grid."""
    return _sample("grid_sampler_3d", input, grid, interpolation_mode, padding_mode, align_corners)


@public
def affine_grid_generator(theta: Tensor, size: _size, align_corners: bool) -> Tensor:
    """Return the places that images of a size read from under affine maps."""
    check_tensor(theta, "affine_grid_generator", "theta")
    sizes = as_ints(size, "affine_grid_generator", "size", 2)
    if len(sizes) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    rank = len(sizes) - 2
    shape = theta._array.shape
    if shape[0] != sizes[0] or shape[2] != rank + 1:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{sizes[0]}, {rank + 1}] but got: "
            f"[{shape[0]}, {shape[2]}]."
        )
    return sampling.affine_places(theta, sizes, bool(align_corners))


# --- losses: reductions are 0 (none), 1 (mean) or 2 (sum)


def _reduced(values: Any, reduction: object, name: str) -> Any:
    how = as_int(reduction, name, "reduction")
    return loss.reduced(values, how if how in (loss.MEAN, loss.SUM) else loss.NONE)


@public
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = loss.NONE,
) -> Tensor:  # fmt: skip
    """−target · log σ(input) − (1 − target) · log(1 − σ(input))."""
    name = "binary_cross_entropy_with_logits"
    how = as_int(reduction, name, "reduction")
    check_constant(weight, name, "weight")
    check_constant(pos_weight, name, "pos_weight")
    a, b = input._array.shape, target._array.shape
    if np.broadcast_shapes(a, b) != b:
        raise RuntimeError(
            f"output with shape {list(b)} doesn't match the broadcast shape {list(np.broadcast_shapes(a, b))}"
        )
    return apply(
        loss_rules.binary_cross_entropy_with_logits, input, target, weight, pos_weight,
        reduction=how if how in (loss.MEAN, loss.SUM) else loss.NONE,
    )  # fmt: skip


@public
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = loss.NONE
) -> Tensor:
    """1 − cos for pairs that belong together (target 1), max(0, cos − margin) for pairs that do not (−1)."""
    values = loss.cosine_embedding_loss(input1, input2, target, margin, reduction="none")
    return _reduced(values, reduction, "cosine_embedding_loss")


@public
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: _size | Tensor, target_lengths: _size | Tensor, blank: int = 0,
    reduction: int = loss.NONE, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log of the probability of each target over all its alignments with a sequence of log_probs."""
    how = {loss.MEAN: "mean", loss.SUM: "sum"}.get(as_int(reduction, "ctc_loss", "reduction"), "none")
    return loss_class.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


@public
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = loss.NONE) -> Tensor:
    """Return the input where the target is 1, max(0, margin − input) where it is −1."""
    values = loss.hinge_embedding_loss(input, target, margin, reduction="none")
    return _reduced(values, reduction, "hinge_embedding_loss")


@public
def kl_div(input: Tensor, target: Tensor, reduction: int = loss.NONE, *, log_target: bool = False) -> Tensor:
    """target · (log target − input), the input being log-probabilities."""
    return _reduced(loss.kl_div(input, target, reduction="none", log_target=log_target), reduction, "kl_div")


@public
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = loss.NONE
) -> Tensor:
    """max(0, −target · (input1 − input2) + margin)."""
    values = clamp_min(apply(scalars.plus, lifted(-target * (input1 - input2), margin), other=margin), 0)
    return _reduced(values, reduction, "margin_ranking_loss")


@public
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """−log of a Poisson probability of the target, up to a constant."""
    values = loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction="none")
    return _reduced(values, reduction, "poisson_nll_loss")


@public
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06,
    swap: bool = False, reduction: int = loss.NONE,
) -> Tensor:  # fmt: skip
    """max(0, |anchor − positive| − |anchor − negative| + margin)."""
    values = loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction="none")
    return _reduced(values, reduction, "triplet_margin_loss")
