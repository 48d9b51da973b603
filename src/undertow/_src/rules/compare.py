"""Rules with bool results: comparisons, logic, bits, tests for special values, and `where`.

Their results carry no gradient, except for `where`. An in-place comparison turns a tensor that may require gradients
into a constant, and sends back zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.rules.elementwise import nothing
from undertow._src.rules.rule import Rule, op

# --- comparisons, and their in-place forms with a number and with a tensor


def _comparison(name: str, forward: Callable[..., Any], accepts: str = "bifc") -> tuple[Rule, Rule, Rule]:
    camel = name.capitalize()
    return (
        op(name, forward, promote="numeric", accepts=accepts),
        op(name, forward, promote="numeric", accepts=accepts, node=f"{camel}Backward0", self=nothing),
        op(name, forward, promote="numeric", accepts=accepts, node=f"{camel}Backward1", self=nothing, other=nothing),
    )


eq, eq_number_, eq_ = _comparison("eq", lambda xp, self, other: self == other)
ne, ne_number_, ne_ = _comparison("ne", lambda xp, self, other: self != other)
lt, lt_number_, lt_ = _comparison("lt", lambda xp, self, other: self < other, "bif")
le, le_number_, le_ = _comparison("le", lambda xp, self, other: self <= other, "bif")
gt, gt_number_, gt_ = _comparison("gt", lambda xp, self, other: self > other, "bif")
ge, ge_number_, ge_ = _comparison("ge", lambda xp, self, other: self >= other, "bif")

# --- logic and bits

logical_and = op("logical_and", lambda xp, self, other: xp.logical_and(self, other), promote="numeric")
logical_or = op("logical_or", lambda xp, self, other: xp.logical_or(self, other), promote="numeric")
logical_xor = op("logical_xor", lambda xp, self, other: xp.logical_xor(self, other), promote="numeric")
logical_not = op("logical_not", lambda xp, self: xp.logical_not(self), promote="numeric")

bitwise_and = op("bitwise_and", lambda xp, self, other: self & other, promote="numeric", accepts="bi")
bitwise_or = op("bitwise_or", lambda xp, self, other: self | other, promote="numeric", accepts="bi")
bitwise_xor = op("bitwise_xor", lambda xp, self, other: self ^ other, promote="numeric", accepts="bi")
bitwise_not = op("bitwise_not", lambda xp, self: ~self, promote="numeric", accepts="bi")
bitwise_left_shift = op("lshift", lambda xp, self, other: xp.left_shift(self, other), promote="numeric", accepts="i")
bitwise_right_shift = op("rshift", lambda xp, self, other: xp.right_shift(self, other), promote="numeric", accepts="i")

# --- tests for special values

isnan = op("isnan", lambda xp, self: xp.isnan(self), promote="numeric")
isinf = op("isinf", lambda xp, self: xp.isinf(self), promote="numeric")
isfinite = op("isfinite", lambda xp, self: xp.isfinite(self), promote="numeric")
isposinf = op("isposinf", lambda xp, self: xp.isposinf(self), promote="numeric", accepts="bif")
isneginf = op("isneginf", lambda xp, self: xp.isneginf(self), promote="numeric", accepts="bif")
signbit = op("signbit", lambda xp, self: xp.signbit(self), promote="numeric", accepts="bif")

nan_to_num = op("nan_to_num", lambda xp, self, *, nan, posinf, neginf: xp.nan_to_num(self, nan, posinf, neginf),
                promote="numeric", self=lambda xp, g, self: g * xp.isfinite(self))  # fmt: skip

# --- choosing

where = op("where", lambda xp, self, other, condition: xp.where(condition, self, other), promote="numeric",
           mask="condition",
           self=lambda xp, g, condition: xp.where(condition, g, 0),
           other=lambda xp, g, condition: xp.where(condition, 0, g))  # fmt: skip
