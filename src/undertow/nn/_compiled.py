"""Losses with the signatures of PyTorch's compiled code (`torch._C._nn`): the reduction is an integer."""

from __future__ import annotations

from undertow._tensor import Tensor
from undertow.nn import functional as F

__all__ = [
    "binary_cross_entropy", "cross_entropy_loss", "huber_loss", "l1_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "nll_loss2d",
    "nll_loss_nd", "smooth_l1_loss", "soft_margin_loss",
]  # fmt: skip

_REDUCTIONS = ("none", "mean", "sum")


def l1_loss(input: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """Return the loss |input - target|."""
    return F.l1_loss(input, target, reduction=_REDUCTIONS[reduction])


def mse_loss(input: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """Return the loss (input - target)²."""
    return F.mse_loss(input, target, reduction=_REDUCTIONS[reduction])


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    """Return a loss that is quadratic for differences below beta and linear beyond."""
    return F.smooth_l1_loss(input, target, reduction=_REDUCTIONS[reduction], beta=beta)


def huber_loss(input: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """Return a loss that is quadratic for differences below delta and linear with slope delta beyond."""
    return F.huber_loss(input, target, reduction=_REDUCTIONS[reduction], delta=delta)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """Return the loss log(1 + exp(-target * input))."""
    return F.soft_margin_loss(input, target, reduction=_REDUCTIONS[reduction])


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Tensor:
    """Return the binary cross entropy of probabilities."""
    return F.binary_cross_entropy(input, target, weight, reduction=_REDUCTIONS[reduction])


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    """Return minus the input at the target's class."""
    return F.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])


nll_loss_nd = nll_loss2d = nll_loss


def cross_entropy_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return the cross entropy of logits."""
    how = _REDUCTIONS[reduction]
    return F.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=how, label_smoothing=label_smoothing
    )


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """Return a hinge loss between the target's class and each other class."""
    return F.multi_margin_loss(input, target, p, margin, weight, reduction=_REDUCTIONS[reduction])


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """Return a hinge loss between each target class and each other class."""
    return F.multilabel_margin_loss(input, target, reduction=_REDUCTIONS[reduction])
