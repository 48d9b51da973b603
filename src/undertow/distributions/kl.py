"""`torch.distributions.kl`: divergences, with the closed forms for pairs of classes.

The form for two classes has a name, too: `_kl_normal_gamma`, or `_kl_normal_infinity` where it is always infinite.
"""

from typing import Any

from undertow.distributions import _kl_pairs, _kl_same  # noqa: F401  (they register themselves)
from undertow.distributions._kl_registry import _KL_REGISTRY as _KL_REGISTRY
from undertow.distributions._kl_registry import _dispatch_kl as _dispatch_kl
from undertow.distributions._kl_registry import _Match as _Match
from undertow.distributions._kl_registry import infinite_like
from undertow.distributions._kl_registry import kl_divergence as kl_divergence
from undertow.distributions._kl_registry import register_kl as register_kl
from undertow.distributions.lowrank_multivariate_normal import _batch_lowrank_logdet as _batch_lowrank_logdet
from undertow.distributions.lowrank_multivariate_normal import _batch_lowrank_mahalanobis as _batch_lowrank_mahalanobis
from undertow.distributions.multivariate_normal import _batch_mahalanobis as _batch_mahalanobis
from undertow.distributions.utils import euler_constant

__all__ = ["kl_divergence", "register_kl"]
_infinite_like, _euler_gamma = infinite_like, euler_constant


def _x_log_x(tensor: Any) -> Any:
    """x log x, which is 0 at 0."""
    return tensor.xlogy(tensor)


def _batch_trace_XXT(bmat: Any) -> Any:
    """The trace of X Xᵀ for each matrix of a batch."""
    return bmat.square().sum((-2, -1))


_SHORT = {"expfamily": "exponentialfamily", "transformed": "transformeddistribution", "exponetial": "exponential"}


def __getattr__(name: str) -> Any:
    if name.startswith("_kl_"):
        first, _, second = name.removeprefix("_kl_").replace("continuous_bernoulli", "continuousbernoulli").partition("_")
        first, second = _SHORT.get(first, first), _SHORT.get(second, second)
        for (type_p, type_q), function in _KL_REGISTRY.items():
            if type_p.__name__.lower() == first and (
                type_q.__name__.lower() == second or (second == "infinity" and function is _kl_pairs._infinite)
            ):
                return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
