"""Losses that compare numbers: distances, binary labels, pairs and triplets. Those over classes are in loss_class.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import broadcast_two, check_constant, check_tensor, must_be, no_kernel
from undertow._src.ops.activation import logsigmoid
from undertow._src.ops.broadcasting import broadcast_tensors
from undertow._src.ops.clamp import clamp_min, xlogy
from undertow._src.ops.compare import where
from undertow._src.ops.distance import pairwise_distance
from undertow._src.ops.elementwise import exp, log, minimum
from undertow._src.ops.numbers import as_number, is_number, lifted
from undertow._src.ops.public import public
from undertow._src.rules import loss as rules
from undertow._src.rules import scalars
from undertow._src.rules.refusals import refusal
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, get_default_dtype

if TYPE_CHECKING:
    from undertow._tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2
_REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """Return the number of a reduction; the legacy arguments, if given, decide."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    if reduction not in _REDUCTIONS:
        if reduction == "elementwise_mean":
            warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
            return MEAN
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def old_reduction(size_average: bool | None, reduce: bool | None, warns: bool = True) -> str:
    """Return the reduction that the legacy flags mean."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if warns:
        warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


def reduced(loss: Tensor, reduction: int) -> Tensor:
    """Return the loss of each element, their mean or their sum."""
    return loss if reduction == NONE else loss.mean() if reduction == MEAN else loss.sum()


def _same_shapes(input: Tensor, target: Tensor) -> tuple[Any, Any]:
    """Broadcast input and target to one shape, with a warning if they differ."""
    if target.size() == input.size():
        return input, target
    warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}): they are "
        "broadcast, which compares each number with several others. Please ensure they have the same size."
    )
    return broadcast_tensors(input, target)


def _check_kernel(input: Tensor, target: Tensor, kernel: str) -> None:
    if not DTYPE_OF[input._array.dtype].is_inexact and not DTYPE_OF[target._array.dtype].is_inexact:
        raise no_kernel(kernel, input)


def _check_weights(input: Any, weight: Any) -> None:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")


def _weighted(loss: Any, weight: Any, reduction: int) -> Any:
    loss = loss * weight
    if reduction == MEAN:
        return loss.sum() / weight.sum()
    return loss.sum() if reduction == SUM else loss


# --- distances


@public
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(input − target)²."""
    if target.size() != input.size() or size_average is not None or reduce is not None:
        stretched = _same_shapes(input, target)
        how = reduction_of(reduction, size_average, reduce)
    else:
        stretched, how = (input, target), reduction_of(reduction)
    if weight is not None:
        _check_weights(input, weight)
        return _weighted((stretched[0] - stretched[1]) ** 2, weight, how)
    _check_kernel(*stretched, "mse_cpu")
    return apply(rules.mse_loss, *stretched, reduction=how)


@public
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|input − target|."""
    stretched = _same_shapes(input, target)
    how = reduction_of(reduction, size_average, reduce)
    distance = (stretched[0] - stretched[1]).abs()
    if weight is not None:
        _check_weights(input, weight)
        return _weighted(distance, weight, how)
    return reduced(distance, how)


@public
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Half the squared distance over beta below beta, the distance less beta/2 above."""
    stretched = _same_shapes(input, target)
    how = reduction_of(reduction, size_average, reduce)
    beta = as_number(beta)
    if not is_number(beta):
        raise must_be("float", beta, "smooth_l1_loss", "beta", 4)
    if beta == 0:
        return reduced((stretched[0] - stretched[1]).abs(), how)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _check_kernel(*stretched, "smooth_l1_cpu")
    return apply(rules.smooth_l1_loss, *stretched, reduction=how, beta=beta)


@public
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared distance up to delta, a straight line from there."""
    stretched = _same_shapes(input, target)
    how = reduction_of(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _check_kernel(*stretched, "huber_cpu")
    kinds = [DTYPE_OF[given._array.dtype] for given in stretched]
    if kinds[1].is_inexact and not kinds[0].is_inexact:
        raise RuntimeError(
            f"result type {kinds[1].scalar_name} can't be cast to the desired output type {kinds[0].scalar_name}"
        )
    if weight is None and [x._array.dtype for x in stretched] == [np.float32, np.float64]:
        return apply(rules.mixed_huber_loss, *stretched, reduction=how, delta=delta)
    if weight is None:
        return _as(input, apply(rules.huber_loss, *stretched, reduction=how, delta=delta))
    _check_weights(input, weight)
    return reduced(apply(rules.huber_loss, *stretched, reduction=NONE, delta=delta) * weight, how)


def _as(given: Tensor, loss: Tensor) -> Tensor:
    """Return a loss in the dtype of the argument that PyTorch makes the result of."""
    return loss if loss._array.dtype == given._array.dtype else loss.to(given.dtype)


# --- binary


@public
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """−target · log input − (1 − target) · log(1 − input), logarithms no lower than −100."""
    how = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}): they are "
            "not broadcast here. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(input.size())
        check_constant(weight, "binary_cross_entropy", "weight")
    kinds = [DTYPE_OF[given._array.dtype] for given in (input, target)]
    if kinds[0] is not kinds[1]:
        raise RuntimeError(f"Found dtype {kinds[1].scalar_name} but expected {kinds[0].scalar_name}")
    if not kinds[0].is_floating_point:
        raise no_kernel("binary_cross_entropy", input)
    for name, values in (("input", input._array), ("target", target._array)):
        if (
            values_known(values) and values.size and not (values.min() >= 0 and values.max() <= 1)
        ):  # a NaN is not either
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    return apply(rules.binary_cross_entropy, input, target, weight, reduction=how)


@public
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """binary_cross_entropy of sigmoid(input), exact also where that is 0 or 1; positives count pos_weight times."""
    how = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    check_constant(weight, "binary_cross_entropy_with_logits", "weight")
    check_constant(pos_weight, "binary_cross_entropy_with_logits", "pos_weight")
    if not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("log_sigmoid_cpu", input)
    if target._array.dtype == bool:
        raise refusal("rsub", DTYPE_OF[target._array.dtype])
    if not DTYPE_OF[target._array.dtype].is_inexact:
        wide, narrow = (DTYPE_OF[given._array.dtype].scalar_name for given in (input, target))
        raise RuntimeError(f"result type {wide} can't be cast to the desired output type {narrow}")
    _refuse_growth(input, pos_weight, weight)
    return _as(target, apply(rules.binary_cross_entropy_with_logits, input, target, weight, pos_weight, reduction=how))


@public
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target · (log target − input), the input being log-probabilities."""
    if size_average is not None or reduce is not None:
        how = reduction_of(reduction, size_average, reduce)
        reduction = ""
    else:
        if reduction == "mean":
            warn(
                "reduction: 'mean' divides the total loss by both the batch size and the rest. 'batchmean' divides "
                "by the batch size alone, as the divergence is defined."
            )
        how = SUM if reduction == "batchmean" else reduction_of(reduction)
    check_tensor(target, "kl_div", "target", 2)
    for kind in (DTYPE_OF[given._array.dtype] for given in (input, target)):
        if kind.is_complex:
            raise RuntimeError("kl_div: Complex inputs not supported.")
    if not all(DTYPE_OF[given._array.dtype].is_floating_point for given in (input, target)):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = exp(target) * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    loss = reduced(loss, how)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


@public
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + e^(−target · input)), targets ±1."""
    how = reduction_of(reduction, size_average, reduce)
    check_tensor(target, "soft_margin_loss", "target", 2)
    check_constant(target, "soft_margin_loss", "target")
    kinds = [DTYPE_OF[given._array.dtype] for given in (input, target)]
    if target._array.dtype == bool and (input._array.dtype == bool or input.requires_grad):
        raise refusal("neg", kinds[1])
    if not kinds[0].is_inexact:
        wide = kinds[1] if kinds[1].is_inexact else get_default_dtype()
        raise RuntimeError(
            f"result type {wide.scalar_name} can't be cast to the desired output type {kinds[0].scalar_name}"
        )
    _refuse_growth(input, target)
    return _as(input, apply(rules.soft_margin_loss, input, target, reduction=how))


def _refuse_growth(input: Tensor, *others: Any) -> None:
    """Refuse tensors with which the input would broadcast to a larger shape."""
    shape = input._array.shape
    for other in others:
        try:
            full = shape if other is None else broadcast_two(shape, other._array.shape)
        except RuntimeError:  # left to the op, which packs what it saves before it fails
            continue
        if full != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(full)}")


@public
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return the mean over classes of a binary loss for each."""
    how = reduction_of(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.dim() - 1
    return reduced(loss.sum(dim=dim) / input.size(dim), how)


# --- distributions


@public
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-08, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """−log of a Poisson probability of the target, up to a constant; `full` adds Stirling's approximation of it."""
    how = reduction_of(reduction, size_average, reduce)
    check_tensor(target, "poisson_nll_loss", "target", 2)
    if log_input:
        loss = exp(input) - target * input
    else:
        loss = input - target * log(apply(scalars.plus, lifted(input, eps), other=eps))
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * math.pi * target)
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, how)


@public
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-06, reduction: str = "mean"
) -> Tensor:
    """−log of a normal density of the target around the input, up to a constant unless `full`."""
    if not isinstance(var, TensorCore):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full(input.size(), var)
    elif values_known(var._array) and (var._array < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif var.dim() != input.dim() or [v for n, v in zip(input.size(), var.size()) if v != n] != [1]:
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    floor = var.detach().clamp(min=eps)
    if not var.is_floating_point():
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {DTYPE_OF[var._array.dtype].c_name}: var must be "
            "floating point."
        )
    var = _with_value(var.clone(), floor)
    loss = 0.5 * (log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, _REDUCTIONS[reduction])


def _with_value(tensor: Tensor, value: Tensor) -> Tensor:
    """Return a tensor with a different value at the same position in the graph, as an unrecorded write leaves it."""
    np.copyto(tensor._array, value._array)
    return tensor


# --- pairs and triplets


@public
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 − cos for pairs that belong together (target 1), max(0, cos − margin) for pairs that do not (−1)."""
    how = reduction_of(reduction, size_average, reduce)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.size())} and {list(input2.size())}."
        )
    dim = target.dim()
    product = (input1 * input2).sum(dim)
    lengths = ((input1 * input1).sum(dim) + 1e-12) * ((input2 * input2).sum(dim) + 1e-12)
    cosine = product / lengths.sqrt()
    zeros = cosine.new_zeros(cosine.size())
    together = where(target == 1, cosine.new_ones(()) - cosine, zeros)
    apart = where(target == -1, clamp_min(apply(scalars.minus, cosine, other=margin), 0), zeros)
    return reduced(together + apart, how)


@public
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, −target · (input1 − input2) + margin)."""
    how = reduction_of(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced(clamp_min(apply(scalars.plus, lifted(-target * (input1 - input2), margin), other=margin), 0), how)


@public
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return the input where the target is 1, max(0, margin − input) where it is −1."""
    how = reduction_of(reduction, size_average, reduce)
    zeros = input.new_zeros(())
    apart = where(target != 1, clamp_min(input.new_full((), margin) - input, 0), zeros)
    return reduced(apart + where(target != -1, input, zeros), how)


def _check_triplet(anchor: Tensor, positive: Tensor, negative: Tensor) -> None:
    dims = anchor.dim(), positive.dim(), negative.dim()
    if len(set(dims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dims; these have "
            f"{dims[0]}, {dims[1]} and {dims[2]}"
        )


@public
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + distance(anchor, positive) − distance(anchor, negative))."""
    how = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(clamp_min(apply(scalars.plus, near, other=margin) - far, 0), how)


@public
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """triplet_margin_loss under any distance."""
    distance = pairwise_distance if distance_function is None else distance_function
    how = reduction_of(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(margin + near - far, 0), how)
