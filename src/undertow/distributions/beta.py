"""The beta distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import ExponentialFamily, broadcast_all, constraints, torch, validated
from undertow.distributions.dirichlet import Dirichlet

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Values in (0, 1) with density ∝ x^(concentration1 - 1) (1 - x)^(concentration0 - 1)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _batch_attributes = ("_dirichlet",)

    def __init__(
        self, concentration1: torch.Value, concentration0: torch.Value, validate_args: bool | None = None
    ) -> None:
        both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(both.shape[:-1], validate_args=validate_args)

    concentration1 = torch.formula(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = torch.formula(lambda self: self._dirichlet.concentration[..., 1])
    mean = torch.formula(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = torch.formula(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self) -> torch.Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> torch.Tensor:
        return self._dirichlet.entropy()

    _natural_params = torch.formula(lambda self: (self.concentration1, self.concentration0))

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
