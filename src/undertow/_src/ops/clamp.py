"""Public functions that bound their input, or blend three inputs, and the methods made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import NUMBERS, PLAIN
from undertow._src.engine.arguments import as_element, check_tensor, invalid_combination
from undertow._src.engine.writes import apply_in_place, wrote_directly
from undertow._src.ops.numbers import as_number, check_holds, is_number, lifted, warn_deprecated
from undertow._src.ops.public import finish, overloaded, public
from undertow._src.rules import compare, special
from undertow._src.rules import elementwise as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, INTEGRAL, result_type

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor

# --- bounds

_PLAIN_BOUNDS = frozenset({int, float, type(None)})


def _bounds(name: str, input: Tensor, min: object, max: object) -> bool:
    """Whether the bounds are tensors; refuse invalid bounds."""
    if type(min) in _PLAIN_BOUNDS and type(max) in _PLAIN_BOUNDS and (min is not None or max is not None):
        if isinstance(input, TensorCore):
            return False
    given = [bound for bound in (min, max) if bound is not None]
    if isinstance(input, TensorCore) and not given:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if not isinstance(input, TensorCore) or not (
        all(is_number(bound) for bound in given) or all(isinstance(bound, TensorCore) for bound in given)
    ):
        raise invalid_combination(name, [value for value in (input, min, max) if value is not None])
    return isinstance(given[0], TensorCore)


def _alike(min: object, max: object) -> tuple[Any, Any]:
    """Return the bounds; next to a number, a 0-dim tensor counts as a number too."""
    if isinstance(min, TensorCore) and is_number(max):
        return _number_in(min), max
    if isinstance(max, TensorCore) and is_number(min):
        return min, _number_in(max)
    return min, max


def _number_in(bound: Any) -> Any:
    return bound if bound._array.ndim or bound._requires_grad else bound.item()


def _numbers(*bounds: Any) -> tuple[Any, ...]:
    return tuple([as_number(bound) for bound in bounds if bound is not None])


def _clamp(name: str, input: Tensor, min: Any, max: Any, out: Any) -> Tensor:
    min, max = _alike(min, max)
    if _bounds(name, input, min, max):
        return finish(rules.clamp, (input, min, max), out)
    input = lifted(input, *_numbers(min, max))
    return finish(rules.clamp_numbers, (input,), out, min=_bound_of(input, min), max=_bound_of(input, max))


def _bound_of(input: Tensor, bound: object) -> Any:
    """Return a number as a bound of a tensor's elements; a negative one wraps around for unsigned integers."""
    bound, kind = as_number(bound), DTYPE_OF[input._array.dtype]
    return bound if bound is None or kind.category != INTEGRAL else as_element(bound, kind)


def _clamp_(name: str, self: Tensor, min: object, max: object) -> Tensor:
    if type(self) in PLAIN and type(min) in NUMBERS and type(max) in NUMBERS:
        if wrote_directly(np.ndarray.clip, self, min, max):
            return self
    min, max = _alike(min, max)
    if _bounds(name, self, min, max):
        return apply_in_place(rules.clamp, self, min, max)
    check_holds(self, *_numbers(min, max))
    return apply_in_place(rules.clamp_numbers, self, min=_bound_of(self, min), max=_bound_of(self, max))


@overloaded
def clamp(
    input: Tensor, min: Number | complex | Tensor | None = None, max: Number | complex | Tensor | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the input clamped to [min, max], which are numbers or tensors."""
    return _clamp("clamp", input, min, max, out)


@overloaded
def clip(
    input: Tensor, min: Number | complex | Tensor | None = None, max: Number | complex | Tensor | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the same as clamp."""
    return _clamp("clip", input, min, max, out)


@overloaded
def clamp_(
    input: Tensor, min: Number | complex | Tensor | None = None, max: Number | complex | Tensor | None = None
) -> Tensor:
    """In-place clamp."""
    return _clamp_("clamp_", input, min, max)


@overloaded
def clip_(
    input: Tensor, min: Number | complex | Tensor | None = None, max: Number | complex | Tensor | None = None
) -> Tensor:
    """In-place clip."""
    return _clamp_("clip_", input, min, max)


def _bound(name: str, input: Tensor, bound: object) -> None:
    if not isinstance(input, TensorCore) or not (is_number(bound) or isinstance(bound, TensorCore)):
        raise invalid_combination(name, (input, bound))


@overloaded
def clamp_min(input: Tensor, min: Number | complex | Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the input where it is above min, else min."""
    _bound("clamp_min", input, min)
    if isinstance(min, TensorCore):
        return finish(rules.clamp_min, (input, min), out)
    input = lifted(input, min)
    return finish(rules.clamp_min_number, (input,), out, min=_bound_of(input, min))


@overloaded
def clamp_max(input: Tensor, max: Number | complex | Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the input where it is below max, else max."""
    _bound("clamp_max", input, max)
    if isinstance(max, TensorCore):
        return finish(rules.clamp_max, (input, max), out)
    input = lifted(input, max)
    return finish(rules.clamp_max_number, (input,), out, max=_bound_of(input, max))


@overloaded
def clamp_min_(input: Tensor, min: Number | complex | Tensor) -> Tensor:
    """In-place clamp_min."""
    _bound("clamp_min_", input, min)
    if isinstance(min, TensorCore):
        return apply_in_place(rules.clamp_min, input, min)
    check_holds(input, min)
    return apply_in_place(rules.clamp_min_number, input, min=_bound_of(input, min))


@overloaded
def clamp_max_(input: Tensor, max: Number | complex | Tensor) -> Tensor:
    """In-place clamp_max."""
    _bound("clamp_max_", input, max)
    if isinstance(max, TensorCore):
        return apply_in_place(rules.clamp_max, input, max)
    check_holds(input, max)
    return apply_in_place(rules.clamp_max_number, input, max=_bound_of(input, max))


@public
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the input with nan and infinities replaced: by 0 and the largest finite numbers by default."""
    check_tensor(input, "nan_to_num")
    if input._requires_grad and DTYPE_OF[input._array.dtype].is_complex and out is None:
        raise RuntimeError("nan_to_num does not support automatic differentiation for outputs with complex dtype.")
    return finish(compare.nan_to_num, (input,), out, nan=nan, posinf=posinf, neginf=neginf)


@public
def nan_to_num_(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """In-place nan_to_num."""
    return apply_in_place(compare.nan_to_num, input, nan=nan, posinf=posinf, neginf=neginf)


# --- blends


def _lerp_rule(name: str, input: object, end: object, weight: object) -> Rule:
    if not (isinstance(input, TensorCore) and isinstance(end, TensorCore)):
        raise invalid_combination(name, (input, end, weight))
    for argument, given in (("end", end), ("weight", weight)):
        if isinstance(given, TensorCore) and given._array.dtype != input._array.dtype:
            found, wanted = DTYPE_OF[given._array.dtype], DTYPE_OF[input._array.dtype]
            raise RuntimeError(f"expected dtype {wanted.c_name} for `{argument}` but got dtype {found.c_name}")
    if isinstance(weight, TensorCore):
        return rules.lerp
    if not is_number(weight):
        raise invalid_combination(name, (input, end, weight))
    return rules.lerp_number


@overloaded
def lerp(input: Tensor, end: Tensor, weight: Number | complex | Tensor, *, out: Tensor | None = None) -> Tensor:
    """input + weight · (end − input)."""
    rule = _lerp_rule("lerp", input, end, weight)
    if rule is rules.lerp:
        return finish(rule, (input, end, weight), out)
    return finish(rule, (input, end), out, weight=as_number(weight))


@overloaded
def lerp_(self: Tensor, end: Tensor, weight: Number | complex | Tensor) -> Tensor:
    """In-place lerp."""
    rule = _lerp_rule("lerp_", self, end, weight)
    if rule is rules.lerp:
        return apply_in_place(rule, self, end, weight)
    return apply_in_place(rule, self, end, weight=as_number(weight))


def _three(name: str, tensors: tuple[Any, ...], value: object) -> tuple[tuple[Any, ...], Any]:
    """Return three tensors and a factor, which was the second argument in a legacy signature."""
    if len(tensors) == 4 and is_number(as_number(tensors[1])):
        warn_deprecated(name, "(Tensor input, Number value, Tensor tensor1, Tensor tensor2, *, Tensor out = None)")
        tensors, value = (tensors[0], *tensors[2:]), tensors[1]
    if len(tensors) != 3 or not all(isinstance(tensor, TensorCore) for tensor in tensors):
        raise invalid_combination(name, tensors)
    common = result_type([DTYPE_OF[tensor._array.dtype] for tensor in tensors])
    return tensors, as_element(as_number(value), common)


@overloaded
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number | complex = 1, out: Tensor | None = None
) -> Tensor:
    """input + value · tensor1 · tensor2."""
    tensors, value = _three("addcmul", (input, tensor1, tensor2, *old), value)
    return finish(rules.addcmul, tensors, out, value=value)


@overloaded
def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number | complex = 1) -> Tensor:
    """In-place addcmul."""
    tensors, value = _three("addcmul_", (self, tensor1, tensor2, *old), value)
    return apply_in_place(rules.addcmul, *tensors, value=value)


@overloaded
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number | complex = 1, out: Tensor | None = None
) -> Tensor:
    """input + value · tensor1 / tensor2."""
    tensors, value = _three("addcdiv", (input, tensor1, tensor2, *old), value)
    return finish(rules.addcdiv, tensors, out, value=value)


@overloaded
def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *old: Any, value: Number | complex = 1) -> Tensor:
    """In-place addcdiv."""
    tensors, value = _three("addcdiv_", (self, tensor1, tensor2, *old), value)
    return apply_in_place(rules.addcdiv, *tensors, value=value)


# --- with a number for either


@overloaded
def copysign(input: Tensor, other: Number | complex | Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the magnitude of input with the sign of other."""
    _bound("copysign", input, other)
    return finish(_copysign_rule(other), (input, other), out)


@overloaded
def copysign_(self: Tensor, other: Number | complex | Tensor) -> Tensor:
    """In-place copysign."""
    _bound("copysign_", self, other)
    return apply_in_place(_copysign_rule(other), self, other)


def _copysign_rule(other: object) -> Rule:
    return rules.copysign if isinstance(other, TensorCore) else rules.copysign_number


@overloaded
def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input · log(other), which is 0 where input is 0."""
    return finish(_xlogy_rule("xlogy", input, other), (input, other), out)


@overloaded
def xlogy_(self: Tensor, other: Number | complex | Tensor) -> Tensor:
    """In-place xlogy."""
    return apply_in_place(_xlogy_rule("xlogy_", self, other), self, other)


def _xlogy_rule(name: str, input: Tensor, other: object) -> Rule:
    if isinstance(input, TensorCore):
        if isinstance(other, TensorCore):
            return special.xlogy
        if is_number(other):
            return special.xlogy_number
    elif is_number(input) and isinstance(other, TensorCore):
        return special.xlogy_of_number
    raise invalid_combination(name, (input, other))


class ClampMethods:
    """Methods that bound or blend."""

    __slots__ = ()

    clamp, clip, clamp_min, clamp_max = clamp, clip, clamp_min, clamp_max
    clamp_, clip_, clamp_min_, clamp_max_ = clamp_, clip_, clamp_min_, clamp_max_
    nan_to_num, nan_to_num_, lerp, lerp_ = nan_to_num, nan_to_num_, lerp, lerp_
    addcmul, addcmul_, addcdiv, addcdiv_ = addcmul, addcmul_, addcdiv, addcdiv_
    copysign, copysign_, xlogy, xlogy_ = copysign, copysign_, xlogy, xlogy_
