"""Reference implementations of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.ops.compare import where
from undertow._src.ops.join import stack
from undertow._src.types.dtypes import bool as boolean
from undertow.nn import functional as F

__all__ = [
    "cosineembeddingloss_reference", "cross_entropy_loss_reference", "hingeembeddingloss_reference", "huberloss_reference",
    "kldivloss_reference", "loss_reference_fns", "marginrankingloss_reference", "multilabelmarginloss_reference",
    "multimarginloss_reference", "nllloss_reference", "smoothl1loss_reference", "softmarginloss_reference",
    "tripletmarginloss_reference",
]  # fmt: skip


def _reduced(values: Any, reduction: str) -> Any:
    return values.mean() if reduction == "mean" else values.sum() if reduction == "sum" else values


def kldivloss_reference(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """Return target (log target - input)."""
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = where(target > 0, target * (target.clamp(min=1e-300).log() - input), target.new_zeros(()))
    if reduction == "batchmean":
        return values.sum() / values.size(0)
    return _reduced(values, reduction)


def nllloss_reference(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """Return minus the input at the target's class, times the weight of the class."""
    kept = target != ignore_index
    classes = where(kept, target, target.new_zeros(()))
    weights = input.new_ones(input.size(1)) if weight is None else weight
    weights = weights[classes] * kept.to(input.dtype)
    values = -input.gather(1, classes.unsqueeze(1)).squeeze(1) * weights
    return values.sum() / weights.sum() if reduction == "mean" else _reduced(values, reduction)


nlllossNd_reference = nllloss_reference


def cross_entropy_loss_reference(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Return the cross entropy; the target holds class indices or class probabilities."""
    logs = input.log_softmax(1)
    if target.is_floating_point():
        spread = target * (1 - label_smoothing) + label_smoothing / input.size(1)
        shape = [1, -1, *[1] * (input.dim() - 2)]
        values = -(logs * spread * (1 if weight is None else weight.view(shape))).sum(1)
        return values.sum() / (values.numel()) if reduction == "mean" else _reduced(values, reduction)
    sharp = nllloss_reference(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return sharp
    kept = target != ignore_index
    classes = where(kept, target, target.new_zeros(()))
    weights = input.new_ones(input.size(1)) if weight is None else weight
    shape = [1, -1, *[1] * (input.dim() - 2)]
    smooth = -(logs * weights.view(shape)).sum(1) * kept.to(input.dtype)
    if reduction == "mean":
        smooth = smooth.sum() / (weights[classes] * kept.to(input.dtype)).sum()
    else:
        smooth = _reduced(smooth, reduction)
    return (1 - label_smoothing) * sharp + label_smoothing / input.size(1) * smooth


def smoothl1loss_reference(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Return a loss that is quadratic for differences below beta, and linear above."""
    apart = (input - target).abs()
    if beta == 0:
        return _reduced(apart, reduction)
    return _reduced(where(apart < beta, 0.5 * apart**2 / beta, apart - 0.5 * beta), reduction)


def huberloss_reference(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Return a loss that is quadratic for differences below delta, and linear above."""
    apart = (input - target).abs()
    return _reduced(where(apart < delta, 0.5 * apart**2, delta * (apart - 0.5 * delta)), reduction)


def hingeembeddingloss_reference(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return the input where the target is 1, and max(0, margin - input) where it is -1."""
    return _reduced(where(target == 1, input, (margin - input).clamp(min=0)), reduction)


def softmarginloss_reference(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return log(1 + exp(-target input))."""
    return _reduced((1 + (-input * target).exp()).log(), reduction)


def cosineembeddingloss_reference(
    input1: Any, input2: Any, target: Any, margin: float = 0, reduction: str = "mean"
) -> Any:
    """Return 1 - cos where the target is 1, and max(0, cos - margin) where it is -1."""
    eps = 1e-12
    lengths = ((input1**2).sum(-1) + eps).sqrt() * ((input2**2).sum(-1) + eps).sqrt()
    cosine = (input1 * input2).sum(-1) / lengths
    return _reduced(where(target == 1, 1 - cosine, (cosine - margin).clamp(min=0)), reduction)


def tripletmarginloss_reference(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: int = 2, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, distance to the positive - distance to the negative + margin)."""

    def distance(a: Any, b: Any) -> Any:
        return ((a - b + eps).abs() ** p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced((margin + distance(anchor, positive) - far).clamp(min=0), reduction)


def marginrankingloss_reference(
    input1: Any, input2: Any, target: Any, margin: float = 0, reduction: str = "mean"
) -> Any:
    """Return max(0, -target (input1 - input2) + margin)."""
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def multimarginloss_reference(
    input: Any, target: Any, p: int = 1, margin: float = 1, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Return the sum over other classes of the margin violations, divided by the number of classes."""
    rows, classes = (input.unsqueeze(0), target.view(1)) if input.dim() == 1 else (input, target)
    own = rows.gather(1, classes.unsqueeze(1))
    values = (margin - own + rows).clamp(min=0) ** p
    values = values if weight is None else values * weight[classes].unsqueeze(1)
    others = F.one_hot(classes, rows.size(1)).to(boolean).logical_not().to(values.dtype)
    found = (values * others).sum(1) / rows.size(1)
    return _reduced(found.squeeze(0) if input.dim() == 1 and reduction == "none" else found, reduction)


def multilabelmarginloss_reference(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the margin violations between target classes and the others; targets end at the first -1."""
    rows, classes = (input.unsqueeze(0), target.unsqueeze(0)) if input.dim() == 1 else (input, target)
    found = []
    for row, wanted in zip(rows, classes, strict=True):
        own = []
        for label in wanted.tolist():
            if label < 0:
                break
            own.append(label)
        total = row.new_zeros(())
        for label in own:
            for other in range(row.numel()):
                if other not in own:
                    total = total + (1 - row[label] + row[other]).clamp(min=0)
        found.append(total / row.numel())
    values = found[0] if input.dim() == 1 else stack(found)
    return _reduced(values, reduction)


loss_reference_fns: dict[str, Callable[..., Any]] = {
    "KLDivLoss": kldivloss_reference, "NLLLoss": nllloss_reference, "SmoothL1Loss": smoothl1loss_reference,
    "HuberLoss": huberloss_reference, "HingeEmbeddingLoss": hingeembeddingloss_reference,
    "SoftMarginLoss": softmarginloss_reference, "CosineEmbeddingLoss": cosineembeddingloss_reference,
    "TripletMarginLoss": tripletmarginloss_reference, "MarginRankingLoss": marginrankingloss_reference,
    "MultiMarginLoss": multimarginloss_reference, "MultiLabelMarginLoss": multilabelmarginloss_reference,
    "CrossEntropyLoss": cross_entropy_loss_reference,
}  # fmt: skip
