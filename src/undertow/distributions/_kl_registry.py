"""`kl_divergence(p, q)`: the expected log p - log q under p; closed forms by pairs of classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions.distribution import Distribution

Form = Callable[[Any, Any], torch.Tensor]
Pair = tuple[type, type]

_KL_REGISTRY: dict[Pair, Form] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Form], Form]:
    """Register a function of (p, q) for these classes and their subclasses; the closest match wins."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type) and issubclass(kind, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(form: Form) -> Form:
        _KL_REGISTRY[type_p, type_q] = form
        _dispatch_kl.cache_clear()
        return form

    return decorate


def _closest(pairs: list[Pair], first: int) -> Pair:
    """Return the pair of the closest base classes; position `first` decides, the other breaks ties."""

    def closer(one: Pair, other: Pair) -> bool:
        place = first if one[first] is not other[first] else 1 - first
        return one[place] is not other[place] and issubclass(one[place], other[place])

    return functools.reduce(lambda best, pair: pair if closer(pair, best) else best, pairs)


@functools.cache
def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """Return the function for the closest pair of base classes, or NotImplemented."""
    pairs = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not pairs:
        return NotImplemented
    by_p, by_q = _closest(pairs, 0), _closest(pairs, 1)
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        torch.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> torch.Tensor:
    """Return the Kullback-Leibler divergence of q from p, one number per distribution of the batch.

    >>> D = torch.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds: Any = type(p), type(q)
    form = _dispatch_kl(*kinds)
    if form is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return form(p, q)
