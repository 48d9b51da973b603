"""The names that the files of distributions import."""

# ruff: noqa: F401
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.distribution import Distribution, validated
from undertow.distributions.exp_family import ExponentialFamily
from undertow.distributions.utils import (
    broadcast_all,
    clamp_probs,
    euler_constant,
    is_number,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
