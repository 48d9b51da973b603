"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import Distribution, constraints, lazy_property, torch, validated
from undertow.special import i0e, i1e

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles around `loc`, closer to it the higher the `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _batch_attributes = ("loc", "concentration")

    def __init__(self, loc: torch.Value, concentration: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(loc, concentration), validate_args=validate_args)

    def expand(self, batch_shape: torch.Shape, _instance: Any = None) -> Any:
        """Return the distribution for a larger batch, made by the class's constructor."""
        loc, concentration = self.loc.expand(batch_shape), self.concentration.expand(batch_shape)
        return type(self)(loc, concentration, validate_args=vars(self).get("_validate_args"))

    mean = mode = torch.alias("loc")

    @lazy_property
    def variance(self) -> torch.Tensor:
        """Return the circular variance, 1 - I1/I0."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        log_prob = self.concentration * (value - self.loc).cos()
        return log_prob - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration)

    # Draws are made in double precision: the rounding of single precision shows for low concentrations.

    @lazy_property
    def _loc(self) -> torch.Tensor:
        return self.loc.to(torch.float64)

    @lazy_property
    def _concentration(self) -> torch.Tensor:
        return self.concentration.to(torch.float64)

    @lazy_property
    def _proposal_r(self) -> torch.Tensor:
        """Return the parameter of the wrapped Cauchy distribution that proposes draws (Best and Fisher 1979)."""
        twice = 2 * self._concentration
        return (1 + (1 + twice**2).sqrt()) / twice

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            blank = self._loc.new_empty(self._extended_shape(sample_shape))
            return _rejection_sample(self._loc, self._concentration, self._proposal_r, blank).to(self.loc.dtype)


def _log_modified_bessel_fn(x: torch.Tensor, order: int = 0) -> torch.Tensor:
    """Return the logarithm of the modified Bessel function of order 0 or 1, without overflow."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    return (i1e if order else i0e)(x).log() + x


def _propose(concentration: torch.Tensor, r: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return proposed angles around 0, and which of them to accept."""
    turn, height, side = torch.rand_as(like, (3, *like.shape)).unbind()
    z = (math.pi * turn).cos()
    cosine = (1 + r * z) / (r + z)
    c = concentration * (r - cosine)
    accepted = (c * (2 - c) > height) | ((c / height).log() + 1 >= c)
    return (side - 0.5).sign() * cosine.acos(), accepted


def _rejection_sample(
    loc: torch.Tensor, concentration: torch.Tensor, proposal_r: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Fill x with angles, proposing again for all elements until each has accepted one."""
    missing = torch.ones_like(x, dtype=torch.bool_dtype)
    while missing.any():
        angles, accepted = _propose(concentration, proposal_r, x)
        x, missing = torch.where(accepted, angles, x), missing & ~accepted
    return (x + math.pi + loc) % (2 * math.pi) - math.pi
