"""`kl_divergence(p, q)`: how far q is from p, the expected log p - log q under p; closed forms by pairs of classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import total_ordering
from math import inf
from typing import Any

from undertow._src.base.sites import warn
from undertow.distributions.distribution import Distribution

_KL_REGISTRY: dict[tuple[Any, Any], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Any], Any]:
    """Decorates a function of (p, q): it is used for these classes and their subclasses, the closest match first."""
    if not isinstance(type_p, type) and issubclass(type_p, Distribution):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type) and issubclass(type_q, Distribution):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorate(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _dispatch_kl.cache_clear()
        return function

    return decorate


@total_ordering
class _Match:
    """Classes, in the order in which subclasses come before their bases."""

    def __init__(self, *types: Any) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __le__(self, other: _Match) -> bool:
        for mine, theirs in zip(self.types, other.types, strict=True):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True


@functools.cache
def _dispatch_kl(type_p: Any, type_q: Any) -> Any:
    """The function for the closest pair of base classes; NotImplemented if there is none."""
    matches = [
        (super_p, super_q)
        for super_p, super_q in _KL_REGISTRY
        if issubclass(type_p, super_p) and issubclass(type_q, super_q)
    ]
    if not matches:
        return NotImplemented
    left_p, left_q = min(_Match(*match) for match in matches).types
    right_q, right_p = min(_Match(*reversed(match)) for match in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left_p.__name__}, "
            f"{right_q.__name__})",
            RuntimeWarning,
        )
    return left


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of q from p, one per element of the batch.

    >>> D = torch.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    classes: tuple[Any, Any] = (type(p), type(q))
    function = _dispatch_kl(*classes)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return function(p, q)


def infinite_like(tensor: Any) -> Any:
    """Infinity in the shape of a tensor."""
    return tensor.new_full(tuple(tensor.shape), inf)
