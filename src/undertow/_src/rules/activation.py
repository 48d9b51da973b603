"""Activations and softmax. At a kink the gradient is that of the side PyTorch chooses: for relu at 0 it is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.elementwise import NOT_IMPLEMENTED, not_differentiated
from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

SIXTH = 0.1666666716337204  # PyTorch uses a float32 constant in every dtype

# --- piecewise linear

relu = op("relu", lambda xp, self: xp.maximum(self, 0), promote="numeric", accepts="if", stepwise=True,
          self=lambda xp, g, result: xp.where(result <= 0, 0, g),
          recorded={"self": lambda g, result: threshold_backward.run(g, result, threshold=0)})  # fmt: skip

leaky_relu = op("leaky_relu", lambda xp, self, *, negative_slope: leaky(xp, self, negative_slope),
                promote="numeric", accepts="f", stepwise=True,
                self=lambda xp, g, self, negative_slope: xp.where(self > 0, g, g * negative_slope),
                recorded={"self": lambda g, self, negative_slope: leaky_relu_backward.run(
                    g, self, negative_slope=negative_slope)})  # fmt: skip

leaky_relu_ = op("leaky_relu", lambda xp, self, *, negative_slope: leaky(xp, self, negative_slope),
                 promote="numeric", accepts="f", node="LeakyReluBackward1", stepwise=True,
                 self=lambda xp, g, result, negative_slope: xp.where(
                     result > 0, g, g * one_to_one(negative_slope, "leakyReLu")),
                 recorded={"self": lambda g, result, negative_slope: leaky_relu_backward.run(
                     g, result, negative_slope=one_to_one(negative_slope, "leakyReLu"))})  # fmt: skip

prelu = op("prelu", lambda xp, self, weight: xp.where(self > 0, self, self * weight), promote="numeric", accepts="f",
           node="PreluKernelBackward0",
           self=lambda xp, g, self, weight: xp.where(self > 0, g, g * weight),
           weight=lambda xp, g, self: xp.where(self > 0, 0, g * self))  # fmt: skip

hardtanh = op("hardtanh", lambda xp, self, *, min_val, max_val: xp.minimum(xp.maximum(self, min_val), max_val),
              promote="numeric", accepts="if", stepwise=True,
              self=lambda xp, g, self, min_val, max_val: xp.where(
                  xp.logical_or(self <= min_val, self >= max_val), 0, g))  # fmt: skip

threshold = op("threshold", lambda xp, self, *, threshold, value: xp.where(self <= threshold, value, self),
               promote="numeric", accepts="if", stepwise=True,
               self=lambda xp, g, self, threshold: xp.where(self <= threshold, 0, g),
               recorded={"self": lambda g, self, threshold: threshold_backward.run(
                   g, self, threshold=threshold)})  # fmt: skip

threshold_ = op("threshold", lambda xp, self, *, threshold, value: xp.where(self <= threshold, value, self),
                promote="numeric", accepts="if", node="ThresholdBackward1", stepwise=True,
                self=lambda xp, g, self, threshold: xp.where(self <= threshold, 0, g),
                recorded={"self": lambda g, self, threshold: threshold_backward.run(
                    g, self, threshold=threshold)})  # fmt: skip

hardshrink = op("hardshrink", lambda xp, self, *, lambd: xp.where(within(xp, self, lambd), 0, self), promote="numeric",
                accepts="f", stepwise=True,
                self=lambda xp, g, self, lambd: xp.where(within(xp, self, lambd), 0, g))  # fmt: skip

softshrink = op("softshrink", lambda xp, self, *, lambd: self - xp.minimum(xp.maximum(self, -lambd), lambd),
                promote="numeric", accepts="f", stepwise=True,
                self=lambda xp, g, self, lambd: xp.where(within(xp, self, lambd), 0, g))  # fmt: skip

hardsigmoid = op("hardsigmoid", lambda xp, self: xp.minimum(xp.maximum(self + 3, 0), 6) / 6, promote="numeric",
                 accepts="f", stepwise=True,
                 self=lambda xp, g, self: xp.where(xp.logical_and(self > -3, self < 3), g * SIXTH, 0))  # fmt: skip

# Gradients as ops of their own, in recorded passes: what they are piecewise constant in gets a gradient of zeros.
threshold_backward: Rule = op(
    "threshold_backward", lambda xp, grad_output, self, *, threshold: xp.where(self <= threshold, 0, grad_output),
    promote="numeric", accepts="if",
    grad_output=lambda xp, g, self, threshold: xp.where(self <= threshold, 0, g),
    self=lambda xp, g: xp.zeros_like(g),
    recorded={"grad_output": lambda g, self, threshold: threshold_backward.run(g, self, threshold=threshold)},
)  # fmt: skip

leaky_relu_backward: Rule = op(
    "leaky_relu_backward", lambda xp, grad_output, self, *, negative_slope: xp.where(
        self > 0, grad_output, grad_output * negative_slope),
    promote="numeric", accepts="f",
    grad_output=lambda xp, g, self, negative_slope: xp.where(self > 0, g, g * negative_slope),
    self=lambda xp, g: xp.zeros_like(g),
    recorded={"grad_output": lambda g, self, negative_slope: leaky_relu_backward.run(
        g, self, negative_slope=negative_slope)},
)  # fmt: skip

# In a recorded pass: make a gradient part of the graph of a value on which it depends only piecewise.
tied = op("threshold_backward", lambda xp, self, to: self, self=lambda g: g,
          to=lambda xp, to_spec: xp.zeros(to_spec.shape, to_spec.dtype))  # fmt: skip

hardswish = op("hardswish", lambda xp, self: self * xp.minimum(xp.maximum(self + 3, 0), 6) / 6, promote="numeric",
               accepts="f",
               self=lambda xp, g, self: xp.where(
                   self <= -3, 0, xp.where(self < 3, g * (self / 3 + 0.5), g)))  # fmt: skip


def leaky(xp: Namespace, x: Array, slope: float) -> Array:
    """x above 0, x times the slope below."""
    return xp.maximum(x, x * slope) if 0 < slope <= 1 else xp.where(x > 0, x, x * slope)


def one_to_one(slope: float, name: str) -> float:
    """Return the slope below 0; if it is negative, the result does not show the sign of the input."""
    if slope < 0:
        raise RuntimeError(
            f"In-place {name} backward calculation is triggered with a negative slope which is not supported. The result "
            "does not tell the sign of the input: please call out-of-place version instead."
        )
    return slope


def within(xp: Namespace, x: Array, bound: float) -> Array:
    """Whether |x| ≤ bound."""
    return xp.logical_and(x >= -bound, x <= bound)


# --- exponential on one side


def bent(xp: Namespace, x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """scale · x from 0 on, scale · alpha (e^(input_scale · x) − 1) below."""
    return xp.where(x < 0, xp.expm1(xp.minimum(x, 0) * input_scale) * (alpha * scale), x * scale)


def below(xp: Namespace, x: Array) -> Array:
    """Return x below 0, else 0, with slope 0 at 0, as PyTorch's second derivatives have it."""
    return xp.where(x < 0, x, 0)


elu = op("elu", lambda xp, self, *, alpha, scale, input_scale: bent(xp, self, alpha, scale, input_scale),
         promote="numeric", accepts="f",
         self=lambda xp, g, self, alpha, scale, input_scale: xp.where(
             self <= 0, g * (input_scale * alpha * scale * xp.exp(below(xp, self) * input_scale)),
             g * scale))  # fmt: skip

elu_ = op("elu", lambda xp, self, *, alpha, scale, input_scale: bent(xp, self, alpha, scale, input_scale),
          promote="numeric", accepts="f", node="EluBackward1",
          self=lambda xp, g, result, alpha, scale, input_scale: xp.where(
              result <= 0, g * (input_scale * (below(xp, result) + one_to_one(alpha, "elu") * scale)),
              g * scale))  # fmt: skip

celu = op("celu", lambda xp, self, *, alpha: bent(xp, self, alpha, 1, 1 / alpha), promote="numeric", accepts="f",
          self=lambda xp, g, self, alpha: xp.where(self <= 0, g * xp.exp(below(xp, self) * (1 / alpha)), g))  # fmt: skip

celu_ = op("celu", lambda xp, self, *, alpha: bent(xp, self, alpha, 1, 1 / alpha), promote="numeric", accepts="f",
           node="CeluBackward1",
           self=lambda xp, g, result, alpha: xp.where(
               result <= 0, g * (below(xp, result) + one_to_one(alpha, "elu")) / alpha, g))  # fmt: skip

softplus = op("softplus", lambda xp, self, *, beta, threshold: xp.where(
                  self * beta > threshold, self, xp.softplus(self * beta) / beta),
              promote="numeric", accepts="f",
              self=lambda xp, g, self, beta, threshold: xp.where(
                  self * beta > threshold, g, g * xp.sigmoid(self * beta)),
              recorded={"self": lambda g, self, beta, threshold: softplus_backward.run(
                  g, self, beta=beta, threshold=threshold)})  # fmt: skip

softplus_backward: Rule = op(
    "softplus_backward", lambda xp, grad_output, self, *, beta, threshold: xp.where(
        self * beta > threshold, grad_output, grad_output * xp.sigmoid(self * beta)),
    promote="numeric", accepts="f",
    grad_output=lambda xp, g, self, beta, threshold: xp.where(
        self * beta > threshold, g, g * xp.sigmoid(self * beta)),
    self=lambda xp, g, grad_output, self, beta, threshold: bend(xp, g * grad_output, self, beta, threshold),
    recorded={"grad_output": lambda g, self, beta, threshold: softplus_backward.run(
        g, self, beta=beta, threshold=threshold)},
)  # fmt: skip


def bend(xp: Namespace, g: Array, x: Array, beta: float, threshold: float) -> Array:
    """g times the second derivative of softplus."""
    s = xp.sigmoid(x * beta)
    return xp.where(x * beta < threshold, g * ((1 - s) * s * beta), 0)


# --- smooth

log_sigmoid = op("log_sigmoid", lambda xp, self: xp.in_rows(xp.log_sigmoid(self)), promote="numeric", accepts="f",
                 rows=True,
                 self=lambda xp, g, self: g * xp.sigmoid(-self))  # fmt: skip

silu = op("silu", lambda xp, self: xp.silu(self), promote="numeric", accepts="fc",
          self=lambda xp, g, self: xp.silu_grad(g, self))  # fmt: skip

mish = op("mish", lambda xp, self: self * xp.tanh(xp.softplus(self)), promote="numeric", accepts="f",
          self=lambda xp, g, self: g * mish_slope(self, xp.tanh(xp.softplus(self)), xp.sigmoid(self)))  # fmt: skip

gelu = op("gelu", lambda xp, self, *, approximate: (
              xp.gelu(self) if approximate == "none" else xp.gelu_tanh(self)),
          promote="numeric", accepts="f",
          self=lambda xp, g, self, approximate: (
              xp.gelu_grad(g, self) if approximate == "none" else xp.gelu_tanh_grad(g, self)))  # fmt: skip


def mish_slope(x: Array, t: Array, s: Array) -> Array:
    """d/dx of x tanh(softplus(x)), t being that tanh and s = σ(x)."""
    return t + x * s * (1 - t * t)


# --- along a dim

softmax = op("softmax", lambda xp, self, *, dim: xp.softmax(self, dim), promote="same", accepts="f",
             self=lambda xp, g, result, dim: xp.softmax_grad(g, result, dim))  # fmt: skip

log_softmax = op("log_softmax", lambda xp, self, *, dim: xp.log_softmax(self, dim), promote="same", accepts="f",
                 self=lambda xp, g, result, dim: xp.log_softmax_grad(g, result, dim))  # fmt: skip

# Their gradients as separate rules, for a backward pass that is recorded.
softmax_backward_data = op(
    "softmax_backward_data", lambda xp, grad_output, output, *, dim: xp.softmax_grad(grad_output, output, dim),
    promote="same", accepts="f",
    grad_output=lambda xp, g, output, dim: xp.softmax_grad(g, output, dim),
    output=lambda xp, g, grad_output, output, dim: (
        g * (grad_output - xp.sum(grad_output * output, dim, True)) - grad_output * xp.sum(g * output, dim, True)
    ),
)  # fmt: skip

log_softmax_backward_data = op(
    "log_softmax_backward_data", lambda xp, grad_output, output, *, dim: xp.log_softmax_grad(grad_output, output, dim),
    promote="same", accepts="f",
    grad_output=lambda xp, g, output, dim: g - xp.sum(g * xp.exp(output), dim, True),
    output=lambda xp, g, grad_output, output, dim: -g * xp.exp(output) * xp.sum(grad_output, dim, True),
)  # fmt: skip

# With `out=` PyTorch records a history that can't be differentiated.
softmax_out = op("softmax", lambda xp, self, *, dim: xp.softmax(self, dim), promote="same", accepts="f",
                 node=NOT_IMPLEMENTED, self=not_differentiated("softmax"))  # fmt: skip

log_softmax_out = op("log_softmax", lambda xp, self, *, dim: xp.log_softmax(self, dim), promote="same", accepts="f",
                     node=NOT_IMPLEMENTED, self=not_differentiated("log_softmax"))  # fmt: skip

glu = op("glu", lambda xp, self, *, dim: gated(xp, *halves(self, dim)), promote="same", accepts="f",
         self=lambda xp, g, self, dim: gated_slopes(xp, g, *halves(self, dim), dim))  # fmt: skip


def halves(x: Array, dim: int) -> tuple[Any, Any]:
    """Return the two halves along a dim."""
    size, lead = x.shape[dim] // 2, (slice(None),) * dim
    return x[(*lead, slice(0, size))], x[(*lead, slice(size, None))]


def gated(xp: Namespace, x: Array, gate: Array) -> Array:
    """Return one half gated by the other."""
    return x * xp.sigmoid(gate)


def gated_slopes(xp: Namespace, g: Array, x: Array, gate: Array, dim: int) -> Array:
    """Return the gradients of both halves, concatenated."""
    s = xp.sigmoid(gate)
    return xp.concatenate([g * s, g * x * ((1 - s) * s)], dim)
