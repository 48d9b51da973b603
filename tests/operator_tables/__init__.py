"""undertow's operators with samples of their inputs, for tests that run over all of them."""

from __future__ import annotations

import functools

from tests.operator_tables import algebra, elementwise, layers, making, masks, moving, rest
from tests.operator_tables.kinds import ForeachFuncInfo
from tests.operator_tables.op_info import OpInfo
from tests.operator_tables.operator_facts import with_facts
from tests.operator_tables.references import references

_FOREACH = (
    "exp acos asin atan cos cosh log log10 log2 tan tanh sin sinh neg sqrt rsqrt ceil erf erfc expm1 floor log1p round "
    "frac reciprocal sigmoid trunc abs sign lgamma clone add sub mul div clamp_min clamp_max minimum maximum pow addcmul "
    "addcdiv max norm lerp"
)


@functools.cache
def operators() -> list[OpInfo]:
    """Return a row for each operator and variant."""
    made = [
        *elementwise.unary_operators(), *elementwise.binary_operators(), *elementwise.ternary_operators(),
        *elementwise.reduction_operators(), *elementwise.spectral_operators(), *moving.moving_operators(),
        *algebra.algebra_operators(), *layers.layer_operators(), *rest.rest_of_operators(),
        *masks.masked_operators(),
    ]  # fmt: skip
    return [with_facts(op) for op in made]


def reference_operators() -> list[OpInfo]:
    """Return the functions of `torch._refs`, each with the samples of its operator."""
    return references(operators())


def foreach_operators() -> list[ForeachFuncInfo]:
    """Return the operators on lists of tensors."""
    return [ForeachFuncInfo(name, dtypes=making.dtypes_of("f")) for name in _FOREACH.split()]
