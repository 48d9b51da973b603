"""Arithmetic: the public functions, methods and operators that take numbers as well as tensors.

Most pass a Python number unchanged to their rule. Where PyTorch makes it an argument of the node (`x ** 2`) it is a
static of the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.modes import slow_path
from undertow._src.engine.apply import (
    FAST_DTYPES,
    MISSING,
    NUMBERS,
    PLAIN,
    apply,
    binary,
    check_operands,
    name_function,
    unary,
)
from undertow._src.engine.arguments import NUMPY_SPELLINGS, as_element, check_tensor, invalid_combination, type_name
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import apply_in_place, wrote_directly
from undertow._src.ops.numbers import (
    as_factor,
    as_number,
    check_factor,
    check_fits,
    check_holds,
    is_number,
    lifted,
    refuse_bools,
    warn_deprecated,
)
from undertow._src.ops.public import Function, finish, in_place, in_place_operator, operator, overloaded, public
from undertow._src.overrides import torch_function
from undertow._src.rules import convert
from undertow._src.rules import elementwise as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, INTEGRAL, complex128, float64

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor

# --- sums and differences


def sum_function(name: str, plain: Function, scaled_rule: Rule, several: bool = False) -> Function:
    """Return `add`, `sub`, or an alias or in-place form: `plain`, unless a factor of the second operand is given."""
    writes = name.endswith("_")
    ufunc = np.add if scaled_rule.name == "add" else np.subtract

    def scaled(a: np.ndarray, b: np.ndarray, alpha: Any, out: np.ndarray) -> np.ndarray:
        return ufunc(a, alpha * b, out)

    def function(*args: Any, **kwargs: Any) -> Any:
        quiet = torch_function.QUIET
        if (
            len(args) == 2
            and not (kwargs or slow_path.count)
            and args[0].__class__ in quiet
            and args[1].__class__ in quiet
        ):
            return plain(*args)
        if writes and len(args) == 2 and kwargs.keys() == {"alpha"} and type(args[0]) in PLAIN:
            if type(kwargs["alpha"]) in NUMBERS and wrote_directly(scaled, *args, kwargs["alpha"]):
                return args[0]
        if torch_function.has_override_inside(args, kwargs):
            return torch_function.dispatch(function, args, kwargs)
        input, other, alpha, out = _sum_arguments(name, args, kwargs, several, "." in function.__qualname__)
        if alpha == 1 and not isinstance(alpha, bool):
            return plain(input, other) if out is None else plain(input, other, out=out)
        check_operands(name, scaled_rule, (input, other), "numbers", several)
        if scaled_rule.name == "sub":
            refuse_bools((input, other))
        check_factor(alpha, (input, other))
        if writes:
            return apply_in_place(scaled_rule, input, other, alpha=as_factor(alpha, (input, other)))
        return finish(scaled_rule, (input, other), out, alpha=as_factor(alpha, (input, other)))

    return name_function(function, name, f"input {'+' if scaled_rule.name == 'add' else '−'} alpha · other.")


def _sum_arguments(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], several: bool, method: bool
) -> tuple[Any, Any, Any, Any]:
    """Return input, other, alpha and out of a call, in the current order or the legacy one: input, alpha, other."""
    given = {NUMPY_SPELLINGS.get(key, key): value for key, value in kwargs.items()}
    if len(args) == 3 and is_number(as_number(args[1])) and isinstance(args[2], TensorCore):
        warn_deprecated(name, "(Tensor input, Number alpha, Tensor other, *, Tensor out = None)")
        args, given = (args[0], args[2]), {"alpha": args[1], **given}
    named = dict(zip(("input", "other"), args)) | given
    if len(args) > 2 and not several:
        got = ", ".join(f"!{type_name(value)}!" for value in args[method:])
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({got}), but expected (Tensor input, Tensor "
            "other, *, Number alpha = 1, Tensor out = None)"
        )
    if len(args) > 2 or "input" not in named or "other" not in named:
        if several or args or not kwargs:
            raise invalid_combination(name, args[method:], kwargs)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got unrecognized keyword arguments: "
            + ", ".join(kwargs)
        )
    input, other, alpha = named.pop("input"), named.pop("other"), named.pop("alpha", 1)
    out = None if method else named.pop("out", None)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    return input, other, alpha, out


_sub = binary(rules.sub, takes="numbers", check=refuse_bools)
_subtract = binary(rules.sub, "subtract", takes="numbers", several=True, check=refuse_bools)

add = sum_function("add", binary(rules.add, takes="numbers"), rules.add_scaled)
sub = sum_function("sub", _sub, rules.sub_scaled)
subtract = sum_function("subtract", _subtract, rules.sub_scaled, several=True)


@overloaded
def rsub(input: Tensor, other: Number | complex | Tensor, *, alpha: Number | complex = 1) -> Tensor:
    """other − alpha · input."""
    check_operands("rsub", rules.rsub, (input, other), "number")
    refuse_bools((input, other))
    check_factor(alpha, (input, other))
    if is_number(other) and alpha == 1:
        return apply(rules.rsub_number, input, other)
    rule = rules.rsub_number_scaled if is_number(other) else rules.rsub
    return apply(rule, input, other, alpha=as_factor(alpha, (input, other)))


# --- products and quotients

mul = binary(rules.mul, doc="The product.", takes="numbers")
multiply = binary(rules.mul, "multiply", "The product.", takes="numbers", several=True)

_ROUNDED = {"floor": rules.div_floor, "trunc": rules.div_trunc, None: rules.div_exact}


def _rounded(rounding_mode: str | None) -> Rule:
    if rounding_mode not in _ROUNDED:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return _ROUNDED[rounding_mode]


def quotient_function(name: str, several: bool = False) -> Function:
    """Return `div` or an alias. Passing a rounding mode, even None, makes it a different op to PyTorch."""
    plain = binary(rules.div, name, takes="numbers", several=several)

    def function(input: Tensor, other: Any, *, rounding_mode: Any = MISSING, out: Tensor | None = None) -> Any:
        if rounding_mode is MISSING:
            return plain(input, other, out=out)
        rule = _rounded(rounding_mode)
        check_operands(name, rule, (input, other), "numbers", several)
        return finish(rule, (input, other), out, rounding_mode=rounding_mode)

    return overloaded(name_function(function, name, "The quotient, exact or rounded ('floor', 'trunc')."))


def quotient_in_place(name: str, several: bool = False) -> Function:
    plain = in_place(rules.div, name, several=several)

    def method(self: Tensor, other: Any, *, rounding_mode: Any = MISSING) -> Tensor:
        if rounding_mode is MISSING:
            return plain(self, other)
        rule = _rounded(rounding_mode)
        check_operands(name, rule, (self, other), "number", several, method=True)
        return apply_in_place(rule, self, other, rounding_mode=rounding_mode)

    return overloaded(name_function(method, name, "In-place division."))


div = quotient_function("div")
divide = quotient_function("divide", several=True)
true_divide = quotient_function("true_divide", several=True)
floor_divide = binary(rules.floor_divide, "floor_divide", "The quotient, rounded down.", takes="numbers")


@overloaded
def remainder(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Return the remainder of a division rounded down; it has the sign of the divisor."""
    return finish(_remainder_rule(input, other), (input, other), out)


def _remainder_rule(input: Tensor, other: object) -> Rule:
    if isinstance(input, TensorCore):
        if isinstance(other, TensorCore):
            return rules.remainder
        if is_number(other):
            return rules.remainder_number
    elif is_number(input) and isinstance(other, TensorCore):
        return rules.remainder_of_number
    raise invalid_combination("remainder", (input, other))


@overloaded
def fmod(input: Tensor, other: Number | complex | Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the remainder of a division rounded towards zero; it has the sign of the dividend."""
    check_operands("fmod", rules.fmod, (input, other), "number", several=True)
    return finish(rules.fmod if isinstance(other, TensorCore) else rules.fmod_number, (input, other), out)


@overloaded
def remainder_(self: Tensor, other: Number | complex | Tensor) -> Tensor:
    """In-place remainder."""
    if not (isinstance(other, TensorCore) or is_number(other)):
        raise invalid_combination("remainder_", (other,))
    return apply_in_place(_remainder_rule(self, other), self, other)


@overloaded
def fmod_(self: Tensor, other: Number | complex | Tensor) -> Tensor:
    """In-place fmod."""
    check_operands("fmod_", rules.fmod, (self, other), "number", several=True, method=True)
    return apply_in_place(rules.fmod if isinstance(other, TensorCore) else rules.fmod_number, self, other)


# --- powers


def power(
    name: str, input: Tensor | Number | complex, exponent: Tensor | Number | complex, out: Tensor | None = None
) -> Tensor:
    if isinstance(input, TensorCore):
        if isinstance(exponent, TensorCore):
            return finish(rules.pow, (input, exponent), out)
        if is_number(exponent):
            exponent = as_number(exponent)
            _refuse_negative(input, exponent)
            return finish(rules.pow_number, (base := lifted(input, exponent),), out, exponent=_exponent(base, exponent))
    elif is_number(input) and isinstance(exponent, TensorCore):
        return finish(rules.pow_of_number, (lifted(exponent, input),), out, self=as_number(input))
    raise invalid_combination(name, (input, exponent))


def _exponent(base: Tensor, exponent: Any) -> Any:
    kind = DTYPE_OF[base._array.dtype]
    return as_element(exponent, kind) if kind.category == INTEGRAL else exponent


def _refuse_negative(input: Tensor, exponent: object) -> None:
    if isinstance(exponent, int) and exponent < 0 and DTYPE_OF[input._array.dtype].category <= INTEGRAL:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


@overloaded
def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """input to the power of exponent; either may be a number."""
    return power("pow", input, exponent, out)


@overloaded
def pow_(self: Tensor, exponent: Number | complex | Tensor) -> Tensor:
    """In-place power."""
    if isinstance(exponent, TensorCore):
        return apply_in_place(rules.pow, self, exponent)
    if not is_number(exponent):
        raise invalid_combination("pow_", (exponent,))
    exponent = as_number(exponent)
    _refuse_negative(self, exponent)
    check_holds(self, exponent)
    return apply_in_place(rules.pow_number, self, exponent=_exponent(self, exponent))


@overloaded
def float_power(
    input: Number | complex | Tensor, exponent: Tensor | Number | complex, *, out: Tensor | None = None
) -> Tensor:
    """Return the power, computed and returned in double precision."""
    if not (isinstance(input, TensorCore) or isinstance(exponent, TensorCore)):
        raise invalid_combination("float_power", (input, exponent))
    compute = lambda: power("float_power", _double(input), _double(exponent), None)
    return compute() if out is None else into(out, compute, (input, exponent), "float_power")


def _double(value: object) -> Any:
    if not isinstance(value, TensorCore):
        return value
    kind = DTYPE_OF[value._array.dtype]
    wanted = complex128 if kind.is_complex else float64
    return value if kind is wanted else apply(convert.to_copy, value, dtype=wanted.numpy)


@overloaded
def float_power_(self: Tensor, exponent: Number | complex | Tensor) -> Tensor:
    """In-place power of a tensor that is in double precision."""
    wanted = complex128 if isinstance(exponent, complex) or DTYPE_OF[self._array.dtype].is_complex else float64
    if DTYPE_OF[self._array.dtype] is not wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {DTYPE_OF[self._array.dtype].scalar_name} but the operation's "
            f"result requires dtype {wanted.scalar_name}"
        )
    return pow_(self, _double(exponent))


@public
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square."""
    check_tensor(input, "square")
    return finish(rules.square, (lifted(input, 2),), out)


@public
def square_(input: Tensor) -> Tensor:
    """In-place square."""
    check_holds(input, 2)
    return apply_in_place(rules.square, input)


_pow_operator = operator(pow, "__pow__")
_reciprocal = unary(rules.reciprocal)
_times = binary(rules.mul)


def _over(number: object, tensor: Tensor) -> Tensor:
    """`2 / x`, which PyTorch computes as 1/x times 2."""
    return _times(_reciprocal(tensor), number)


_rtruediv = operator(_over, "__rtruediv__", reflected=True)


class ArithmeticMethods:
    """Arithmetic methods and operators of a tensor."""

    __slots__ = ()

    add, sub, subtract, mul, multiply = add, sub, subtract, mul, multiply
    div, divide, true_divide, floor_divide = div, divide, true_divide, floor_divide
    remainder, fmod, pow, float_power, square = remainder, fmod, pow, float_power, square

    add_ = sum_function("add_", in_place(rules.add), rules.add_scaled)
    sub_ = sum_function("sub_", in_place(rules.sub, check=refuse_bools), rules.sub_scaled)
    subtract_ = sum_function("subtract_", in_place(rules.sub, "subtract_", several=True, check=refuse_bools),
                             rules.sub_scaled, several=True)  # fmt: skip
    mul_, multiply_ = in_place(rules.mul), in_place(rules.mul, "multiply_", several=True)
    div_, divide_ = quotient_in_place("div_"), quotient_in_place("divide_", several=True)
    true_divide_ = quotient_in_place("true_divide_", several=True)
    floor_divide_ = in_place(rules.floor_divide_, "floor_divide_", check=check_fits)
    remainder_, fmod_, pow_, float_power_, square_ = remainder_, fmod_, pow_, float_power_, square_

    __add__ = binary(rules.add, operator="__add__")
    __radd__ = binary(rules.add, operator="__radd__")
    __sub__ = binary(rules.sub, operator="__sub__", check=refuse_bools)
    __rsub__ = binary(rules.rsub_number, operator="__rsub__", check=refuse_bools, of_tensors=rules.rsub_tensor)
    __mul__ = binary(rules.mul, operator="__mul__")
    __rmul__ = binary(rules.mul, operator="__rmul__")
    __truediv__ = __div__ = binary(rules.div, operator="__truediv__")
    __floordiv__ = operator(floor_divide, "__floordiv__")
    __rfloordiv__ = operator(floor_divide, "__rfloordiv__", reflected=True)
    __mod__ = operator(remainder, "__mod__")
    __rmod__ = operator(remainder, "__rmod__", reflected=True)
    __rpow__ = operator(pow, "__rpow__", reflected=True)

    __rtruediv__ = __rdiv__ = _rtruediv

    def __pow__(self, exponent: object) -> Tensor:
        if (
            type(exponent) in NUMBERS
            and type(self) in PLAIN
            and not slow_path.count
            and self._array.dtype in FAST_DTYPES  # type: ignore[attr-defined]
        ):
            return apply(rules.pow_number, self, exponent=exponent)
        return _pow_operator(self, exponent)

    __iadd__ = in_place_operator(rules.add, "__iadd__")
    __isub__ = in_place_operator(rules.sub, "__isub__", refuse_bools)
    __imul__ = in_place_operator(rules.mul, "__imul__")
    __itruediv__ = __idiv__ = in_place_operator(rules.div, "__itruediv__")
    __ifloordiv__ = in_place_operator(rules.floor_divide_, "__ifloordiv__", check_fits)
    __imod__ = operator(remainder_, "__imod__")
    __ipow__ = operator(pow_, "__ipow__")
