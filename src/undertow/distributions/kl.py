"""`torch.distributions.kl`: divergences, with the closed forms for pairs of classes."""

from undertow.distributions import _kl_pairs, _kl_same  # noqa: F401  (they register themselves)
from undertow.distributions._kl_registry import _KL_REGISTRY as _KL_REGISTRY
from undertow.distributions._kl_registry import _dispatch_kl as _dispatch_kl
from undertow.distributions._kl_registry import kl_divergence as kl_divergence
from undertow.distributions._kl_registry import register_kl as register_kl

__all__ = ["kl_divergence", "register_kl"]
