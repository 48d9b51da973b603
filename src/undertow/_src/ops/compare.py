"""Public comparisons, logic, bits, tests for special values, and `where`; the methods and operators of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply, binary, name_function, unary
from undertow._src.engine.arguments import as_element, broadcast_two, check_tensor, invalid_combination, must_be
from undertow._src.engine.outputs import into
from undertow._src.ops.numbers import as_number, is_number, lifted_dtype
from undertow._src.ops.public import Function, finish, in_place, in_place_operator, operator, overloaded, public
from undertow._src.rules import compare as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore, ndarray, wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING, INTEGRAL, bfloat16

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor

# --- comparisons


def comparison(rule: Rule, name: str = "") -> Function:
    name = name or rule.name
    return binary(rule, name, f"Elementwise {name}.", several=True)


eq, ne, lt = comparison(rules.eq), comparison(rules.ne), comparison(rules.lt)
le, gt, ge = comparison(rules.le), comparison(rules.gt), comparison(rules.ge)
not_equal, less = comparison(rules.ne, "not_equal"), comparison(rules.lt, "less")
less_equal = comparison(rules.le, "less_equal")
greater, greater_equal = comparison(rules.gt, "greater"), comparison(rules.ge, "greater_equal")


def comparison_(name: str, number_rule: Rule, tensor_rule: Rule) -> Function:
    """Return the in-place form, which turns its tensor into a constant."""
    with_number = in_place(number_rule, name, several=True)
    with_tensor = in_place(tensor_rule, name, several=True)

    def method(self: Any, other: Any) -> Any:
        return with_number(self, other) if is_number(other) else with_tensor(self, other)

    return name_function(method, name, f"In-place {name[:-1]}.")


# --- logic and bits


def logic(rule: Rule) -> Function:
    return binary(rule, rule.name, f"Elementwise {rule.name}.", takes="tensors")


logical_and, logical_or = logic(rules.logical_and), logic(rules.logical_or)
logical_xor, logical_not = logic(rules.logical_xor), unary(rules.logical_not, doc="True where the input is zero.")


def bits(rule: Rule, name: str) -> Function:
    return binary(rule, name, f"Elementwise {name}.", takes="numbers", several=True)


bitwise_and, bitwise_or = bits(rules.bitwise_and, "bitwise_and"), bits(rules.bitwise_or, "bitwise_or")
bitwise_xor, bitwise_not = bits(rules.bitwise_xor, "bitwise_xor"), unary(rules.bitwise_not, doc="All bits turned.")
bitwise_left_shift = bits(rules.bitwise_left_shift, "bitwise_left_shift")
bitwise_right_shift = bits(rules.bitwise_right_shift, "bitwise_right_shift")

# --- tests for special values

isnan = unary(rules.isnan, doc="True where the input is nan.")
isinf = unary(rules.isinf, doc="True where the input is infinite.")
isfinite = unary(rules.isfinite, doc="True where the input is neither infinite nor nan.")
isposinf = unary(rules.isposinf, doc="True where the input is +inf.")
isneginf = unary(rules.isneginf, doc="True where the input is -inf.")
signbit = unary(rules.signbit, doc="True where the sign is minus, that of -0.0 included.")


@public
def isreal(input: Tensor) -> Tensor:
    """Return True where the imaginary part is zero."""
    check_tensor(input, "isreal")
    return wrap(np.asarray(input._array.imag == 0))


@public
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return True where |input − other| ≤ atol + rtol · |other|."""
    check_tensor(input, "isclose")
    check_tensor(other, "isclose", "other", 2)
    one, two = DTYPE_OF[input._array.dtype], DTYPE_OF[other._array.dtype]
    if one is not two:
        raise RuntimeError(f"{one.scalar_name} did not match {two.scalar_name}")
    rtol, atol = as_number(rtol), as_number(atol)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not is_number(tolerance):
            raise must_be("float", tolerance, "isclose", name)
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance:g}")
    broadcast_two(input._array.shape, other._array.shape)
    return wrap(np.asarray(quietly(_close, input._array, other._array, rtol, atol, equal_nan)))


def _close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    close = a == b
    if DTYPE_OF[a.dtype].category < FLOATING:
        a, b = a.astype(np.float64), b.astype(np.float64)
    elif equal_nan:
        close = close | (np.isnan(a) & np.isnan(b))
    if rtol == 0 and atol == 0:
        return close
    distance = np.abs(a - b)
    return close | (np.isfinite(distance) & (distance <= atol + np.abs(rtol * b)))


@public
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` means it."""
    check_tensor(input, "allclose")
    check_tensor(other, "allclose", "other", 2)
    return bool(isclose(input, other, rtol, atol, equal_nan)._array.all())


@public
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors are of one size, with equal elements."""
    check_tensor(input, "equal")
    check_tensor(other, "equal", "other", 2)
    return bool(np.array_equal(input._array, other._array))


@overloaded
def isin(
    elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False, invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return True where an element is among the test elements."""
    given = (elements, test_elements)
    if not any(isinstance(value, TensorCore) for value in given) or not all(
        isinstance(value, TensorCore) or is_number(value) for value in given
    ):
        raise invalid_combination("isin", given)
    one, among = [value._array if isinstance(value, TensorCore) else as_number(value) for value in given]
    for value in given:
        if isinstance(value, TensorCore) and value._array.dtype.kind in "bc":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {DTYPE_OF[value._array.dtype].scalar_name}"
            )
    if bfloat16.numpy in (getattr(one, "dtype", None), getattr(among, "dtype", None)):  # unknown to NumPy
        one, among = np.asarray(one, np.float32), np.asarray(among, np.float32)
    found = wrap(np.asarray(np.isin(one, among, assume_unique=assume_unique, invert=invert)))
    return found if out is None else into(out, found.detach, (), "isin")


# --- selection


@overloaded
def where(
    condition: Tensor, input: Number | complex | Tensor | None = None, other: Number | complex | Tensor | None = None,
    *, out: Any = None,
) -> Any:  # fmt: skip
    """input where the condition holds, else other; with a condition alone, the indices where it holds."""
    check_tensor(condition, "where", "condition")
    if input is None and other is None:
        if tracer.current is not None:
            return condition.nonzero(as_tuple=True)
        return tuple([wrap(indices.copy()) for indices in np.nonzero(np.atleast_1d(condition._array))])
    if not all(isinstance(value, TensorCore) or is_number(value) for value in (input, other)):
        raise invalid_combination("where", [value for value in (condition, input, other) if value is not None])
    return finish(rules.where, (*_choices(input, other), _mask(condition)), out)


def _choices(*choices: Any) -> list[Any]:
    """Return the two sides of `where`; a number has to fit into the dtype of the other side."""
    tensor = next((each for each in choices if isinstance(each, TensorCore)), None)
    if tensor is None:
        return [*choices]
    return [each if isinstance(each, TensorCore) else _choice(as_number(each), tensor) for each in choices]


def _choice(number: Any, tensor: Any) -> Any:
    kind = lifted_dtype(tensor, number)
    return as_element(number, kind) if kind.category == INTEGRAL or kind.itemsize == 4 else number


def _mask(condition: Tensor) -> Tensor:
    kind = condition._array.dtype.kind
    if kind == "b":
        return condition
    if condition._array.dtype == np.uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated: pass a bool tensor, such as a "
            "comparison returns."
        )
        return wrap(condition._array != 0)
    raise RuntimeError(
        "where expected condition to be a boolean tensor, but got a tensor with dtype "
        f"{DTYPE_OF[condition._array.dtype].scalar_name}"
    )


def _where_method(self: Tensor, condition: Tensor, other: object) -> Tensor:
    """self where the condition holds, else other."""
    if not isinstance(condition, TensorCore) or not (isinstance(other, TensorCore) or is_number(other)):
        raise invalid_combination("where", (condition, other))
    return apply(rules.where, *_choices(self, other), _mask(condition))


# --- operators


@public
def __invert__(input: Tensor) -> Tensor:
    if DTYPE_OF[input._array.dtype].category > INTEGRAL:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return apply(rules.bitwise_not, input)


_equal = binary(rules.eq, operator="__eq__")


class CompareMethods:
    """Comparisons, logic, bits and choices as methods and operators of a tensor."""

    __slots__ = ()

    eq, ne, lt, le, gt, ge = eq, ne, lt, le, gt, ge
    not_equal, less, less_equal, greater, greater_equal = not_equal, less, less_equal, greater, greater_equal
    eq_, ne_ = comparison_("eq_", rules.eq_number_, rules.eq_), comparison_("ne_", rules.ne_number_, rules.ne_)
    lt_, le_ = comparison_("lt_", rules.lt_number_, rules.lt_), comparison_("le_", rules.le_number_, rules.le_)
    gt_, ge_ = comparison_("gt_", rules.gt_number_, rules.gt_), comparison_("ge_", rules.ge_number_, rules.ge_)
    not_equal_ = comparison_("not_equal_", rules.ne_number_, rules.ne_)
    less_ = comparison_("less_", rules.lt_number_, rules.lt_)
    less_equal_ = comparison_("less_equal_", rules.le_number_, rules.le_)
    greater_ = comparison_("greater_", rules.gt_number_, rules.gt_)
    greater_equal_ = comparison_("greater_equal_", rules.ge_number_, rules.ge_)

    logical_and, logical_or, logical_xor, logical_not = logical_and, logical_or, logical_xor, logical_not
    logical_and_, logical_or_ = (
        in_place(rules.logical_and, takes="tensors"),
        in_place(rules.logical_or, takes="tensors"),
    )
    logical_xor_, logical_not_ = in_place(rules.logical_xor, takes="tensors"), in_place(rules.logical_not)

    bitwise_and, bitwise_or, bitwise_xor, bitwise_not = bitwise_and, bitwise_or, bitwise_xor, bitwise_not
    bitwise_left_shift, bitwise_right_shift = bitwise_left_shift, bitwise_right_shift
    bitwise_and_, bitwise_or_ = in_place(rules.bitwise_and, several=True), in_place(rules.bitwise_or, several=True)
    bitwise_xor_, bitwise_not_ = in_place(rules.bitwise_xor, several=True), in_place(rules.bitwise_not)
    bitwise_left_shift_ = in_place(rules.bitwise_left_shift, "bitwise_left_shift_", several=True)
    bitwise_right_shift_ = in_place(rules.bitwise_right_shift, "bitwise_right_shift_", several=True)

    isnan, isinf, isfinite, isposinf, isneginf, signbit = isnan, isinf, isfinite, isposinf, isneginf, signbit
    isreal, isclose, allclose, equal = isreal, isclose, allclose, equal
    where = overloaded(name_function(_where_method, "where", "self where the condition holds, else other."))

    def __eq__(self, other: object) -> Any:
        """Elementwise. NumPy's arrays count as tensors here, as they do in PyTorch."""
        return _equal(self, wrap(other) if type(other) is ndarray else other)

    __ne__ = binary(rules.ne, operator="__ne__")
    __lt__, __le__ = binary(rules.lt, operator="__lt__"), binary(rules.le, operator="__le__")
    __gt__, __ge__ = binary(rules.gt, operator="__gt__"), binary(rules.ge, operator="__ge__")
    __hash__ = object.__hash__

    __and__, __rand__ = operator(bitwise_and, "__and__"), operator(bitwise_and, "__rand__", reflected=True)
    __or__, __ror__ = operator(bitwise_or, "__or__"), operator(bitwise_or, "__ror__", reflected=True)
    __xor__, __rxor__ = operator(bitwise_xor, "__xor__"), operator(bitwise_xor, "__rxor__", reflected=True)
    __lshift__ = operator(bitwise_left_shift, "__lshift__")
    __rlshift__ = operator(bitwise_left_shift, "__rlshift__", reflected=True)
    __rshift__ = operator(bitwise_right_shift, "__rshift__")
    __rrshift__ = operator(bitwise_right_shift, "__rrshift__", reflected=True)
    __invert__ = __invert__
    __iand__, __ior__ = in_place_operator(rules.bitwise_and, "__iand__"), in_place_operator(rules.bitwise_or, "__ior__")
    __ixor__ = in_place_operator(rules.bitwise_xor, "__ixor__")
    __ilshift__ = in_place_operator(rules.bitwise_left_shift, "__ilshift__")
    __irshift__ = in_place_operator(rules.bitwise_right_shift, "__irshift__")
