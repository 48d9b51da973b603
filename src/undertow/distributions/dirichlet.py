"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from undertow._src.ops.draws import _dirichlet_grad
from undertow._src.ops.masks import one_hot
from undertow.autograd.function import Function, once_differentiable
from undertow.distributions._family import ExponentialFamily, constraints, torch, validated

__all__ = ["Dirichlet"]


def _Dirichlet_backward(x: Any, concentration: Any, grad_output: Any) -> Any:
    """Return the gradient of a sample with respect to the concentrations."""
    total = concentration.sum(-1, True).expand_as(concentration)
    grad = _dirichlet_grad(x, concentration, total)
    return grad * (grad_output - (x * grad_output).sum(-1, True))


class _Dirichlet(Function):
    """A sample with an explicit gradient."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        x = torch.sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, concentration = ctx.saved_tensors
        return _Dirichlet_backward(x, concentration, grad_output)


class Dirichlet(ExponentialFamily):
    """Points of the simplex: gamma variables with the `concentration`s, divided by their sum."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _batch_attributes = ("concentration",)

    def __init__(self, concentration: torch.Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    _total = torch.formula(lambda self: self.concentration.sum(-1, True))
    mean = torch.formula(lambda self: self.concentration / self._total)

    @property
    def mode(self) -> torch.Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        return torch.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> torch.Tensor:
        total = self._total
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return torch.sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return (self.concentration - 1.0).xlogy(value).sum(-1) - self._log_normalizer(self.concentration)

    def entropy(self) -> torch.Tensor:
        a, total = self.concentration, self._total
        mean_log = a.digamma() - total.digamma()  # the expected logarithm of each component
        return self._log_normalizer(a) - ((a - 1.0) * mean_log).sum(-1)

    _natural_params = torch.formula(lambda self: (self.concentration,))

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
