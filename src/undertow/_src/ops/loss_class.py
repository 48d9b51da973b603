"""Losses over classes: likelihoods, cross entropy, margins, and CTC."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from undertow._src.arrays.device.array import checked, is_known, values_known
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_constant, check_tensor, invalid_combination, no_kernel, wrap_dim
from undertow._src.ops.compare import where
from undertow._src.ops.loss import MEAN, NONE, SUM, reduced, reduction_of
from undertow._src.ops.public import public
from undertow._src.ops.scatter import all_below
from undertow._src.rules import activation, scalars
from undertow._src.rules import loss as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor


_INT64 = np.dtype(np.int64)


def _check_targets(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, classes: int) -> None:
    labels = target._array
    if labels.dtype is not _INT64 and labels.dtype != np.int64 and labels.dtype != np.uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {DTYPE_OF[labels.dtype].scalar_name}")
    if weight is not None:
        check_constant(weight, "nll_loss_forward", "weight")
        if weight._array.shape != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes; this one is of "
                f"shape: {list(weight._array.shape)}"
            )
        kinds = [DTYPE_OF[given._array.dtype] for given in (input, weight)]
        if kinds[0] is not kinds[1]:
            raise RuntimeError(f"expected scalar type {kinds[0].scalar_name} but found {kinds[1].scalar_name}")

    if type(labels) is np.ndarray and labels.size and all_below(labels, classes):
        return

    def check(labels: np.ndarray) -> None:
        if labels.size and not all_below(labels, classes):
            wrong = ((labels < 0) | (labels >= classes)) & (labels != ignore_index)
            if wrong.any():
                raise IndexError(f"Target {int(labels[wrong][0])} is out of bounds.")

    checked(check, labels)


def _nll(input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Tensor:
    check_tensor(input, "nll_loss_nd")
    check_tensor(target, "nll_loss_nd", "target", 2)
    shape, labels = input._array.shape, target._array.shape
    if not shape:
        raise ValueError(f"Expected 1 or more dimensions (got {len(shape)})")
    if len(shape) > 1 and (not labels or shape[0] != labels[0]):
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({labels[0] if labels else 0})."
        )
    statics = {"reduction": reduction, "ignore_index": ignore_index}
    if len(shape) <= 2:
        if len(labels) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if len(shape) == 1 and labels:
            if labels != (1,):
                raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {labels[0]}")
            target = target.reshape(())
        _check_targets(input, target, weight, ignore_index, shape[-1])
        if shape[-1] == 0:  # all targets are ignored: there is no class
            return input.sum(-1) if reduction == NONE else input.sum() if reduction == SUM else input.mean()
        return rules.nll_loss.run(input, target, weight, **statics)
    wanted = (shape[0], *shape[2:])
    if labels != wanted:
        if len(shape) == 4 and len(labels) != 3:
            raise RuntimeError(
                f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {len(labels)}"
            )
        if len(shape) == 4:
            raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(labels)}")
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(labels)}")
    if 0 in shape[1:] and len(shape) != 4 and math.prod(labels):
        raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(labels)}")
    _check_targets(input, target, weight, ignore_index, shape[1])
    if len(shape) == 4:
        return apply(rules.nll_loss2d, input, target, weight, **statics)
    places = math.prod(shape[2:])
    images = input.contiguous().view(shape[0], shape[1], 1, places)
    loss = apply(rules.nll_loss2d, images, target.contiguous().view(shape[0], 1, places), weight, **statics)
    return loss.view(wanted) if reduction == NONE else loss


@public
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probability that `input` gives to the target class, times that class's weight."""
    return _nll(input, target, weight, reduction_of(reduction, size_average, reduce), ignore_index)


@public
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """nll_loss of log_softmax(input) for target classes, or the mean of it under target probabilities."""
    how = reduction_of(reduction, size_average, reduce)
    check_tensor(input, "cross_entropy_loss")
    check_tensor(target, "cross_entropy_loss", "target", 2)
    if target._array.shape == input._array.shape:
        kind = DTYPE_OF[target._array.dtype]
        if not kind.is_inexact:
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {kind.scalar_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _probability_loss(input, target, weight, how, label_smoothing)
    wrap_dim(1 if input._array.ndim != 1 else 0, input._array.ndim)
    scores = _class_scores(input)
    if label_smoothing <= 0:
        return _nll(scores, target, weight, how, ignore_index)
    return _smoothed_loss(scores, target, weight, how, ignore_index, label_smoothing)


def _class_scores(input: Tensor) -> Tensor:
    if input._array.dtype.kind != "f" and not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("log_softmax_lastdim_kernel_impl", input)
    return activation.log_softmax.run(input, dim=1 if input._array.ndim > 1 else 0)


def _check_smoothing(label_smoothing: float) -> None:
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")


def _per_class(weight: Tensor, ndim: int) -> Tensor:
    return weight.view((1, -1) + (1,) * (ndim - 2)) if ndim > 1 else weight


def _probability_loss(input: Tensor, target: Tensor, weight: Tensor | None, how: int, smoothing: float) -> Tensor:
    ndim = input._array.ndim
    axis = 1 if ndim > 1 else 0
    classes = input._array.shape[axis]
    if smoothing > 0:
        _check_smoothing(smoothing)
        target = target * (1 - smoothing) + smoothing / max(1, classes)
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes; this "
            f"one is of shape {list(weight._array.shape)}"
        )
    loss = _class_scores(input) * target
    if weight is not None:
        loss = loss * _per_class(weight, ndim)
    if how == NONE:
        return -loss.sum(axis)
    if how == SUM:
        return -loss.sum()
    count = input._array.size // classes if classes else 0
    return apply(scalars.over, -loss.sum(), other=count or math.nan)


def _smoothed_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None, how: int, ignore_index: int, smoothing: float
) -> Tensor:
    """Return a mixture of the target's loss and that of all classes alike."""
    _check_smoothing(smoothing)
    ndim = scores._array.ndim
    axis = 1 if ndim > 1 else 0
    classes = scores._array.shape[axis]
    exact = _nll(scores, target, weight, how, ignore_index)
    spread = scores if weight is None else scores * _per_class(weight, ndim)
    ignored = target == ignore_index
    alike = (-spread.sum(axis)).masked_fill(ignored, 0)
    if how == SUM:
        alike = alike.sum()
    elif how == MEAN:
        if weight is None:
            alike = alike.sum() / (~ignored).sum().to(scores.dtype)
        else:
            # Ignored targets need not be classes; the weight of class 0 is looked up for them, then dropped.
            counted = weight.gather(0, target.masked_fill(ignored, 0).reshape(-1)).masked_fill(ignored.reshape(-1), 0)
            alike = alike.sum() / counted.sum()
    share = smoothing / classes if classes else math.nan
    return apply(scalars.times, exact, other=1 - smoothing) + apply(scalars.times, alike, other=share)


# --- margins


@public
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Σ over the other classes of max(0, margin − input[target] + input)ᵖ, over the number of classes."""
    how = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if not input._array.ndim:
        input = input.reshape(1)
    shape, labels = input._array.shape, target._array
    if len(shape) > 2 or shape[-1] == 0:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    rows = shape[0] if len(shape) == 2 else 1
    if labels.ndim > 1 or labels.size != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to that of the batch: "
            f"[{rows}], not {list(labels.shape)}, for an input of {list(shape)}."
        )
    if labels.dtype != np.int64:
        raise RuntimeError(f"expected scalar type Long but found {DTYPE_OF[labels.dtype].scalar_name}")
    if weight is not None and weight._array.shape[0] != shape[-1]:
        raise RuntimeError(f"inconsistent weight size, expected {shape[-1]} but got {list(weight._array.shape)}")
    if values_known(labels) and ((labels < 0) | (labels >= shape[-1])).any():
        raise RuntimeError("target out of range")
    if not _has_margins(input):
        raise no_kernel("multi_margin_loss_cpu_kernel", input)
    check_constant(weight, "multi_margin_loss", "weight")
    if len(shape) == 2 and labels.ndim == 0:
        input, shape = input.reshape(-1), shape[1:]
    single = len(shape) == 1 and labels.ndim == 1
    loss = apply(
        rules.multi_margin_loss, input, target.reshape(()) if single else target, weight, p=p, margin=margin,
        reduction=how,
    )  # fmt: skip
    return loss.reshape(1) if single and how == NONE else loss


@public
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Σ max(0, 1 − input[label] + input[other]) over labels and other classes; labels are listed up to the first −1."""
    how = reduction_of(reduction, size_average, reduce)
    if not input._array.ndim:
        input, target = input.reshape(1), target.reshape(1)
    shape, labels = input._array.shape, target._array
    if len(shape) > 2 or shape[-1] == 0:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if labels.shape != shape:
        raise RuntimeError(f"inconsistent target size: {list(labels.shape)} for input of size: {list(shape)}")
    if values_known(labels) and labels.size and (labels.min() < -1 or labels.max() >= shape[-1]):
        raise RuntimeError("argument #2 'target' is out of range")
    if labels.dtype != np.int64:
        raise RuntimeError(f"expected scalar type Long but found {DTYPE_OF[labels.dtype].scalar_name}")
    if not _has_margins(input):
        raise no_kernel("multilabel_margin_loss_forward_out_frame", input)
    return apply(rules.multilabel_margin_loss, input, target, reduction=how)


def _has_margins(input: Tensor) -> bool:
    """Refuse dtypes other than single and double precision, as PyTorch does for these losses."""
    kind = DTYPE_OF[input._array.dtype]
    return kind.is_floating_point and kind.itemsize > 2


# --- alignments


def _lengths(given: object, name: str, batch: int) -> tuple[int, ...]:
    """Return lengths as Python numbers, or as an array during a trace."""
    if isinstance(given, TensorCore):
        if given._array.dtype.kind not in "iu":
            raise RuntimeError(f"{name} must be integral")
        array = given._array.reshape(-1)
        if not values_known(array) and not is_known(array) and len(array) == batch:
            return array
        values = array.tolist()
    else:
        values = [int(value) for value in (given if isinstance(given, (tuple, list)) else (given,))]
    if len(values) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    return tuple(values)


@public
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: _size | Tensor, target_lengths: _size | Tensor, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log of the probability of each target over all its alignments with a sequence of log_probs."""
    how = reduction_of(reduction)
    check_tensor(log_probs, "ctc_loss", "log_probs")
    check_tensor(targets, "ctc_loss", "targets", 2)
    if isinstance(input_lengths, TensorCore) != isinstance(target_lengths, TensorCore):
        given = (log_probs, targets, input_lengths, target_lengths, blank, how, bool(zero_infinity))
        raise invalid_combination("ctc_loss", given)
    batched = log_probs._array.ndim == 3
    probabilities = log_probs if batched else log_probs.unsqueeze(1)
    labels = targets if batched or targets._array.ndim != 1 else targets.unsqueeze(0)
    if probabilities._array.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {probabilities._array.ndim}-dimensional tensor for argument #1 "
            "'log_probs' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    if probabilities._array.dtype.kind != "f" or probabilities._array.dtype.itemsize < 4:
        raise no_kernel("ctc_loss_cpu", probabilities)
    if not probabilities._array.size:
        raise RuntimeError("log_probs tensor must not be empty")
    time, batch, symbols = probabilities._array.shape
    times, sizes = _lengths(input_lengths, "input_lengths", batch), _lengths(target_lengths, "target_lengths", batch)
    if not 0 <= blank < symbols:
        raise RuntimeError("blank must be in label range")
    if type(times) is type(sizes) is tuple:
        _check_alignment(labels._array, times, sizes, time)
    labels = labels if labels._array.dtype == np.int64 else labels.long()
    loss = apply(
        rules.ctc_loss, probabilities, labels, input_lengths=times, target_lengths=sizes, blank=blank,
        zero_infinity=bool(zero_infinity),
    )  # fmt: skip
    if zero_infinity:
        loss = where(loss == float("inf"), loss.new_zeros(()), loss)
    if how == MEAN:
        return (loss / wrap(np.maximum(sizes, 1).astype(loss._array.dtype))).mean()
    return reduced(loss, how) if batched or how == SUM else loss.squeeze(0)


def _check_alignment(labels: np.ndarray, times: tuple[int, ...], sizes: tuple[int, ...], time: int) -> None:
    where_from = "(while checking arguments for ctc_loss_allocate_outputs)"
    for value in times:
        if value < 0:
            raise RuntimeError(f"Expected input_lengths to have value at least 0, but got value {value} {where_from}")
        if value > time:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {time}, but got value {value} {where_from}"
            )
    for value in sizes:
        if value < 0:
            raise RuntimeError(f"Expected target_lengths to have value at least 0, but got value {value} {where_from}")
    if labels.ndim == 1 and labels.shape[0] != sum(sizes):
        raise RuntimeError(
            f"Expected tensor to have size {sum(sizes)} at dimension 0, but got size {labels.shape[0]} for argument #2 "
            f"'targets' {where_from}"
        )
    if labels.ndim == 2 and labels.shape[0] != len(sizes):
        raise RuntimeError(
            f"Expected tensor to have size {len(sizes)} at dimension 0, but got size {labels.shape[0]} for argument #2 "
            f"'targets' {where_from}"
        )
    if labels.ndim == 2 and labels.shape[1] < max(sizes, default=0):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(sizes)} at dimension 1, but got size {labels.shape[1]} for "
            f"argument #2 'targets' {where_from}"
        )
