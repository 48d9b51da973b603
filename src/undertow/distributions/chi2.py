"""The chi-squared distribution."""

from __future__ import annotations

from undertow.distributions._family import constraints, torch
from undertow.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """Sums of `df` squares of standard normal values."""

    arg_constraints = {"df": constraints.positive}
    _batch_attributes = ()

    def __init__(self, df: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> torch.Tensor:
        """Return the degrees of freedom."""
        return self.concentration * 2
