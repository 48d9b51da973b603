"""Losses. `reduction` is 0 for every element, 1 for the mean, 2 for the sum, as PyTorch's nodes show it."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec

EPSILON = 9.999999960041972e-13  # 1e-12 in float32, whatever the dtype of the data

# --- distances: of `self` to `target`, symmetric but for the sign

mse_loss = op("mse_loss", lambda xp, self, target, *, reduction: reduced(xp, xp.square(self - target), reduction),
              promote="numeric", accepts="f",
              self=lambda g, self, target, reduction: (self - target) * (share(g, self, reduction) * 2),
              target=lambda g, self, target, reduction: (target - self) * (share(g, self, reduction) * 2))

smooth_l1_loss = op("smooth_l1_loss",
    lambda xp, self, target, *, reduction, beta: reduced(xp, smooth(xp, xp.abs(self - target), beta), reduction),
    promote="numeric", accepts="f",
    self=lambda xp, g, self, target, reduction, beta: smooth_slope(xp, self - target, beta) * share(g, self, reduction),
    target=lambda xp, g, self, target, reduction, beta: smooth_slope(xp, target - self, beta) * share(g, self, reduction))

huber_loss = op("huber_loss",
    lambda xp, self, target, *, reduction, delta: reduced(xp, huber(xp, xp.abs(self - target), delta), reduction),
    promote="numeric", accepts="f",
    self=lambda xp, g, self, target, reduction, delta: huber_slope(xp, self - target, delta) * share(g, self, reduction),
    target=lambda xp, g, self, target, reduction, delta: huber_slope(xp, target - self, delta) * share(g, self, reduction))

# A float64 target of float32 data: PyTorch rounds the loss, and then its backward fails.
mixed_huber_loss = op("huber_loss",
    lambda xp, self, target, *, reduction, delta: xp.astype(
        reduced(xp, huber(xp, xp.abs(self - target), delta), reduction), xp.dtype_of(self)),
    self=lambda xp, g, target_spec: not_in_one_dtype(target_spec),
    target=lambda xp, g, target_spec: not_in_one_dtype(target_spec))

# --- binary

binary_cross_entropy = op("binary_cross_entropy",
    lambda xp, self, target, weight, *, reduction: reduced(xp, weighted(
        (target - 1) * log_from_100(xp, xp.log1p(-self)) - target * log_from_100(xp, xp.log(self)), weight), reduction),
    promote="same", accepts="f",
    self=lambda xp, g, self, target, weight, reduction: weighted(
        (self - target) / xp.maximum(self * (1 - self), xp.full_like(self, EPSILON)), weight) * share(g, self, reduction),
    target=lambda xp, g, self, weight, reduction: weighted(
        xp.log1p(-self) - xp.log(self), weight) * share(g, self, reduction))

binary_cross_entropy_with_logits = op("binary_cross_entropy_with_logits",
    lambda xp, self, target, weight, pos_weight, *, reduction: reduced(xp, weighted(
        (1 - target) * self - positives(target, pos_weight) * xp.log_sigmoid(self), weight), reduction),
    promote="numeric", accepts="f",
    self=lambda xp, g, self, target, weight, pos_weight, reduction: weighted(
        logit_slope(xp, self, target, pos_weight), weight) * share(g, self, reduction),
    target=lambda xp, g, self, weight, pos_weight, reduction: weighted(
        -self if pos_weight is None else (1 - pos_weight) * xp.log_sigmoid(self) - self, weight)
        * share(g, self, reduction))

soft_margin_loss = op("soft_margin_loss",
    lambda xp, self, target, *, reduction: reduced(xp, -xp.log_sigmoid(self * target), reduction),
    promote="numeric", accepts="f",
    self=lambda xp, g, self, target, reduction: -target * xp.sigmoid(-self * target) * share(g, self, reduction))

# --- classes: axis 1 of `self`, or its only axis


def _nll_loss(name: str, node: str) -> Rule:
    """Return −weight · self[target]; `index` holds the targets, `slopes` each one's factor in the loss.

    `index` may alias `target`, which is saved so that a write to it is noticed.
    """
    return op(name, lambda xp, self, target, weight, *, reduction, ignore_index: xp.class_loss(
                  self, target, weight, ignore_index, reduction),
              node=node, promote="same", accepts="f", mask="target", hidden=("total_weight", "index", "slopes"),
              keeps=("self", "weight"), stepwise=True,
              self=lambda xp, g, self_spec, target, index, slopes, total_weight: xp.class_loss_grad(
                  g, index, slopes, self_spec.shape))


nll_loss, nll_loss2d = _nll_loss("nll_loss", "NllLossBackward0"), _nll_loss("nll_loss2d", "NllLoss2DBackward0")

multi_margin_loss = op("multi_margin_loss",
    lambda xp, self, target, weight, *, p, margin, reduction: margin_loss(xp, self, target, weight, p, margin, reduction),
    promote="same", accepts="f", mask="target", stepwise=True,
    self=lambda xp, g, self, target, weight, p, margin, reduction: margin_gradient(
        xp, g, self, target, weight, p, margin, reduction))

multilabel_margin_loss = op("multilabel_margin_loss",
    lambda xp, self, target, *, reduction: label_loss(xp, self, target, reduction),
    promote="same", accepts="f", mask="target", stepwise=True,
    self=lambda xp, g, self, target, reduction: label_gradient(xp, g, self, target, reduction))

ctc_loss = op("ctc_loss",
    lambda xp, log_probs, targets, *, input_lengths, target_lengths, blank, zero_infinity: xp.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank),
    hidden=("log_alpha",),
    log_probs=lambda xp, g, log_probs, targets, result, log_alpha, input_lengths, target_lengths, blank, zero_infinity:
        xp.ctc_loss_grad(g, log_probs, targets, result, log_alpha, input_lengths, target_lengths, blank, zero_infinity))

ctc_loss_grad = op("_ctc_loss_backward",
    lambda xp, grad, log_probs, targets, result, log_alpha, *, input_lengths, target_lengths, blank, zero_infinity:
        xp.ctc_loss_grad(grad, log_probs, targets, result, log_alpha, input_lengths, target_lengths, blank, zero_infinity),
    node="NotImplemented", grad=lambda xp, g: no_second_gradient("_ctc_loss_backward"),
    log_probs=lambda xp, g: no_second_gradient("_ctc_loss_backward"))
# fmt: on


def no_second_gradient(name: str) -> Array:
    """Return PyTorch's refusal to differentiate a backward pass."""
    raise RuntimeError(f"derivative for aten::{name} is not implemented")


def not_in_one_dtype(spec: Spec) -> Array:
    raise RuntimeError("Found dtype Double but expected Float")


def reduced(xp: Namespace, loss: Array, reduction: int) -> Array:
    """Return the loss of each element, or their mean or sum."""
    return loss if reduction == 0 else xp.mean(loss) if reduction == 1 else xp.sum(loss)


def share(g: Array, like: Array, reduction: int) -> Array:
    """Return each element's part of a reduced loss's gradient."""
    return g / max(1, _size(like)) if reduction == 1 else g


def _size(x: Array) -> int:
    size = 1
    for n in x.shape:
        size *= n
    return size


def weighted(x: Array, weight: Array | None) -> Array:
    """Return x times its weight, if it has one."""
    return x if weight is None else x * weight


# --- distances


def smooth(xp: Namespace, distance: Array, beta: float) -> Array:
    """½ d² / beta for a distance below beta, d − ½ beta beyond."""
    return xp.where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)


def smooth_slope(xp: Namespace, difference: Array, beta: float) -> Array:
    """Return the derivative of `smooth` by the difference."""
    return xp.where(difference <= -beta, -1, xp.where(difference >= beta, 1, difference * (1 / beta)))


def huber(xp: Namespace, distance: Array, delta: float) -> Array:
    """½ d² for a distance up to delta, delta (d − ½ delta) beyond."""
    return xp.where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)


def huber_slope(xp: Namespace, difference: Array, delta: float) -> Array:
    """Return the derivative of `huber` by the difference."""
    return xp.where(difference <= -delta, -delta, xp.where(difference >= delta, delta, difference))


# --- binary


def log_from_100(xp: Namespace, logarithm: Array) -> Array:
    """Return a logarithm cut off at −100, so that the loss stays finite."""
    return xp.maximum(logarithm, xp.full_like(logarithm, -100))


def positives(target: Array, pos_weight: Array | None) -> Any:
    """Return the factor of −log σ(x): pos_weight for a positive target, 1 for a negative one."""
    return 1 if pos_weight is None else (pos_weight - 1) * target + 1


def logit_slope(xp: Namespace, self: Array, target: Array, pos_weight: Array | None) -> Any:
    """Return the derivative of the cross-entropy by the logit: σ(x) − target, positives weighted."""
    if pos_weight is None:
        return xp.sigmoid(self) - target
    wanted = pos_weight * target
    return (wanted + 1 - target) * xp.sigmoid(self) - wanted


# --- classes


def margin_excess(xp: Namespace, self: Array, target: Array, weight: Array, margin: float) -> tuple[Any, Any, Any]:
    """Return how far each wrong class is within the margin of the target's score; the targets' index and weight."""
    index, unit = xp.class_weights(target, weight, -100, xp.dtype_of(self))
    axis = self.ndim - 1
    excess = margin - xp.gather(self, axis, index) + self
    others = 1 - xp.put_along(xp.ones(index.shape, xp.dtype_of(self)), axis, index, self.shape)
    return xp.maximum(excess, xp.zeros_like(excess)) * others, index, xp.expand_dims(unit, axis)


def margin_loss(
    xp: Namespace, self: Array, target: Array, weight: Array, p: int, margin: float, reduction: int
) -> Array:
    """Σ over the other classes of max(0, margin − self[target] + self)ᵖ, over the number of classes."""
    excess, _, unit = margin_excess(xp, self, target, weight, margin)
    axis = self.ndim - 1
    loss = xp.sum((excess * excess if p == 2 else excess) * unit, axis=(axis,)) / self.shape[axis]
    return reduced(xp, loss, reduction)


def margin_gradient(
    xp: Namespace, g: Array, self: Array, target: Array, weight: Array, p: int, margin: float, reduction: int
) -> Array:
    """Return the gradient: positive for every class within the margin, and minus their sum for the target."""
    excess, index, unit = margin_excess(xp, self, target, weight, margin)
    axis = self.ndim - 1
    slope = (excess * 2 if p == 2 else xp.where(excess > 0, xp.ones_like(excess), xp.zeros_like(excess))) * unit
    rows = self.shape[0] if self.ndim > 1 else 1
    each = g / (self.shape[axis] * rows) if reduction == 1 else g / self.shape[axis]
    if reduction == 0 and self.ndim > 1:
        each = xp.expand_dims(each, axis)
    slope = slope * each
    return slope - xp.put_along(xp.sum(slope, axis=(axis,), keepdims=True), axis, index, self.shape)


def label_parts(xp: Namespace, self: Array, target: Array) -> tuple[Any, Any, Any]:
    """1 − x[label] + x[other] for every label and other class, where positive; and which classes are labels."""
    index, listed, labelled = xp.labels(target, xp.dtype_of(self))
    axis = self.ndim - 1
    excess = 1 - xp.expand_dims(xp.gather(self, axis, index), axis + 1) + xp.expand_dims(self, axis)
    counted = xp.expand_dims(listed, axis + 1) * xp.expand_dims(1 - labelled, axis)
    return xp.where(excess > 0, counted, xp.zeros_like(excess)), excess, index


def label_loss(xp: Namespace, self: Array, target: Array, reduction: int) -> Array:
    """Σ over labels and other classes of max(0, 1 − x[label] + x[other]), over the number of classes."""
    counted, excess, _ = label_parts(xp, self, target)
    axis = self.ndim - 1
    return reduced(xp, xp.sum(excess * counted, axis=(axis, axis + 1)) / self.shape[axis], reduction)


def label_gradient(xp: Namespace, g: Array, self: Array, target: Array, reduction: int) -> Array:
    """Return the gradient: negative for every label that a wrong class comes close to, positive for those classes."""
    counted, _, index = label_parts(xp, self, target)
    axis = self.ndim - 1
    rows = self.shape[0] if self.ndim > 1 else 1
    each = g / (self.shape[axis] * rows) if reduction == 1 else g / self.shape[axis]
    if reduction == 0 and self.ndim > 1:
        each = xp.expand_dims(each, axis)
    missed = xp.scatter_add(xp.zeros(self.shape, xp.dtype_of(self)), axis, index, xp.sum(counted, axis=(axis + 1,)))
    return (xp.sum(counted, axis=(axis,)) - missed) * each
