"""`torch.distributions.kl`: divergences, with the closed forms for pairs of classes.

The function for two classes also has a name: `_kl_normal_gamma`, or `_kl_normal_infinity` if it is always infinite.
"""

# ruff: noqa: F401
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import _kl_pairs, _kl_same  # importing them registers the functions
from undertow.distributions._kl_registry import _KL_REGISTRY, _dispatch_kl, kl_divergence, register_kl
from undertow.distributions.lowrank_multivariate_normal import _batch_lowrank_logdet, _batch_lowrank_mahalanobis
from undertow.distributions.multivariate_normal import _batch_mahalanobis, _batch_trace_XXT
from undertow.distributions.utils import euler_constant as _euler_gamma

__all__ = ["kl_divergence", "register_kl"]

_SHORT = {"expfamily": "exponentialfamily", "transformed": "transformeddistribution", "exponetial": "exponential"}


def _infinite_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return infinity in the shape of a tensor."""
    return torch.full_like(tensor, float("inf"))


def _x_log_x(tensor: torch.Tensor) -> torch.Tensor:
    """Return x log x, which is 0 at 0."""
    return tensor.xlogy(tensor)


def __getattr__(name: str) -> Any:
    if name.startswith("_kl_"):
        first, _, second = (
            name.removeprefix("_kl_").replace("continuous_bernoulli", "continuousbernoulli").partition("_")
        )
        first, second = _SHORT.get(first, first), _SHORT.get(second, second)
        for (type_p, type_q), form in _KL_REGISTRY.items():
            if type_p.__name__.lower() == first and (
                type_q.__name__.lower() == second or (second == "infinity" and form is _kl_pairs._infinite)
            ):
                return form
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
