"""Draws that use a varying number of uniforms: Poisson, gamma and binomial, one number at a time.

The methods are published ones and PyTorch's choice of them is part of the stream: which uniform is compared with what
decides how many are used. Each function takes `uniform`, which returns the next double in [0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Draw = Callable[[], float]
#: Rounds to the parameters' own dtype: PyTorch does the first steps of a method in it, the rest in double.
Narrow = Callable[[float], float]

# Written in single precision in PyTorch.
_THIRD = float(np.float32(1.0) / np.float32(3.0))
_SQUEEZE = float(np.float32(0.0331))
# log(k!) minus Stirling's approximation, for small k.
_STIRLING_TAIL = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def poisson(rate: float, uniform: Draw) -> float:
    """Draw by Knuth's product of uniforms below a rate of 10, by Hörmann's transformed rejection (PTRS) from there on."""
    if rate == 0.0:
        return 0.0
    if rate < 10.0:
        limit, count, product = math.exp(-rate), 0, uniform()
        while product > limit:
            count += 1
            product *= uniform()
        return float(count)
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue  # k would be minus infinity, which is rejected
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        if _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= (
            -rate + k * log_rate - math.lgamma(k + 1.0)
        ):
            return float(k)


def gamma(shape: float, narrow: Narrow, uniform: Draw, normal: Draw) -> float:
    """Draw by Marsaglia and Tsang's method; a shape below 1 is raised by 1 and the result scaled down."""
    scale = 1.0
    if shape < 1.0:
        if shape == 0.0:
            return 0.0
        scale = _power(1.0 - uniform(), narrow(1.0 / shape))
        shape = narrow(shape + 1.0)
    d = narrow(shape - _THIRD)
    c = 1.0 / math.sqrt(9.0 * d) if d > 0.0 else math.nan
    while True:
        y = 0.0
        while y <= 0.0:
            x = normal()
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - uniform()
        xx = x * x
        if u < 1.0 - _SQUEEZE * xx * xx or _log(u) < 0.5 * xx + d * (1.0 - v + _log(v)):
            return scale * d * v


def binomial(count: float, probability: float, narrow: Narrow, uniform: Draw) -> float:
    """Draw the successes in `count` trials: by geometric gaps if few are expected, else by Hörmann's rejection (BTRS)."""
    if count <= 0.0 or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return count
    if probability <= 0.5:
        return _binomial(count, probability, narrow, uniform)
    if probability > 0.5:
        return count - _binomial(count, narrow(1.0 - probability), narrow, uniform)
    return math.nan


def _binomial(count: float, probability: float, narrow: Narrow, uniform: Draw) -> float:
    if narrow(count * probability) >= 10.0:
        return _binomial_by_rejection(count, probability, narrow, uniform)
    log_failure = narrow(math.log1p(-probability))
    successes, trials = 0, 0.0
    while True:
        gap = _log(uniform()) / log_failure
        trials += math.ceil(gap) if math.isfinite(gap) else gap
        if trials > count:
            return float(successes)
        successes += 1


def _binomial_by_rejection(count: float, probability: float, narrow: Narrow, uniform: Draw) -> float:
    expected = narrow(count * probability)
    failure = narrow(1.0 - probability)
    spread = narrow(math.sqrt(narrow(expected * failure)))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * probability
    c = expected + 0.5
    v_r = 0.92 - 4.2 / b
    odds = narrow(probability / failure)
    alpha = (2.83 + 5.1 / b) * spread
    mode = math.floor(narrow(narrow(count + 1.0) * probability))
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue  # k would be minus infinity, which is rejected
        k = math.floor((2.0 * a / us + b) * u + c)
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= v_r:
            return float(k)
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (count - mode + 1.0)))
            + (count + 1.0) * math.log((count - mode + 1.0) / (count - k + 1.0))
            + (k + 0.5) * math.log(odds * (count - k + 1.0) / (k + 1.0))
            + _stirling_tail(mode)
            + _stirling_tail(count - mode)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return float(k)


def _stirling_tail(k: float) -> float:
    if k < len(_STIRLING_TAIL):
        return _STIRLING_TAIL[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


def _log(value: float) -> float:
    """Return C's logarithm: minus infinity at zero, NaN below."""
    return math.log(value) if value > 0.0 else -math.inf if value == 0.0 else math.nan


def _power(base: float, exponent: float) -> float:
    """Return C's power: infinity where Python raises OverflowError."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
