"""Public elementwise functions and the tensor methods made of them."""

from __future__ import annotations

from typing import Any

from undertow.autograd.apply import binary, unary
from undertow.ops.public import in_place, in_place_operator
from undertow.rules import elementwise as rules
from undertow.rules import trigonometry

add = binary(rules.add)
sub = binary(rules.sub)
mul = binary(rules.mul)
div = binary(rules.div)
neg = unary(rules.neg)
exp = unary(rules.exp)
log = unary(rules.log)
tanh = unary(trigonometry.tanh)


class ElementwiseMethods:
    """Elementwise methods of a tensor."""

    __slots__ = ()

    add, sub, mul, div, neg, exp, log, tanh = add, sub, mul, div, neg, exp, log, tanh
    exp_, log_, tanh_, neg_ = in_place(rules.exp), in_place(rules.log), in_place(trigonometry.tanh), in_place(rules.neg)
    add_, sub_, mul_, div_ = in_place(rules.add), in_place(rules.sub), in_place(rules.mul), in_place(rules.div)

    __add__ = __radd__ = binary(rules.add, operator="__add__")
    __mul__ = __rmul__ = binary(rules.mul, operator="__mul__")
    __sub__ = binary(rules.sub, operator="__sub__")
    __truediv__ = binary(rules.div, operator="__truediv__")
    __neg__ = neg
    __iadd__ = in_place_operator(rules.add, "__iadd__")
    __isub__ = in_place_operator(rules.sub, "__isub__")
    __imul__ = in_place_operator(rules.mul, "__imul__")
    __itruediv__ = in_place_operator(rules.div, "__itruediv__")

    def __rsub__(self, other: Any) -> Any:
        return sub(other, self)

    def __rtruediv__(self, other: Any) -> Any:
        return div(other, self)
