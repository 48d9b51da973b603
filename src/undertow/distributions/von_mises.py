"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.types.dtypes import bool as bool_dtype
from undertow._src.types.dtypes import float64
from undertow._src.types.sizes import Size
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.distribution import Distribution
from undertow.distributions.utils import broadcast_all, lazy_property
from undertow.special import i0e, i1e

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles around `loc`, the closer the higher the `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.concentration * (value - self.loc).cos()
        return log_prob - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration)

    @lazy_property
    def _loc(self) -> Any:
        return self.loc.to(float64)

    @lazy_property
    def _concentration(self) -> Any:
        return self.concentration.to(float64)

    @lazy_property
    def _proposal_r(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that proposes draws (Best and Fisher)."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        proposal = (1 + rho**2) / (2 * rho)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, proposal)

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            x = torch.empty(tuple(shape), dtype=self._loc.dtype, device=self._loc.device)
            drawn = _rejection_sample(self._loc, self._concentration, self._proposal_r, x)
            return drawn.to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        try:
            return super().expand(batch_shape)
        except NotImplementedError:
            validate_args = self.__dict__.get("_validate_args")
            loc, concentration = self.loc.expand(batch_shape), self.concentration.expand(batch_shape)
            return type(self)(loc, concentration, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The circular variance, 1 - I1/I0."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)


def _log_modified_bessel_fn(x: Any, order: int = 0) -> Any:
    """The logarithm of the modified Bessel function of order 0 or 1, without overflow."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    return (i1e if order else i0e)(x).log() + x


def _rejection_sample(loc: Any, concentration: Any, proposal_r: Any, x: Any) -> Any:
    """Proposes angles until all are accepted."""
    done = torch.zeros(tuple(x.shape), dtype=bool_dtype, device=x.device)
    while not done.all():
        u1, u2, u3 = torch.rand((3, *x.shape), dtype=x.dtype, device=x.device).unbind()
        z = (math.pi * u1).cos()
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
        if accept.any():
            x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi
