"""What makes a function public: the offer to `__torch_function__`, and the in-place twin of a rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from undertow import overrides
from undertow.autograd import apply as _apply
from undertow.autograd.writes import apply_in_place
from undertow.modes import special
from undertow.ops.arguments import NUMPY_SPELLINGS, binding_error
from undertow.rules.rule import Rule

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F, several: bool = False) -> F:
    """A hand-written public function. Classes and modes with `__torch_function__` are asked before it runs.

    A call that does not fit its parameters is tried again in NumPy's spelling (`axis` for `dim`), then refused in
    PyTorch's words; `several`: PyTorch has several signatures for it, which changes those words.
    """
    quiet = overrides.QUIET

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        somebody = special.active or (kwargs and not quiet.issuperset(map(type, kwargs.values())))
        for value in args:
            if value.__class__ not in quiet:
                somebody = not (isinstance(value, (tuple, list)) and quiet.issuperset(map(type, value))) or somebody
        if somebody and overrides.wanted_anywhere(args, kwargs):
            return overrides.dispatch(asked, args, kwargs)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is not None:  # raised inside the function, not by the call
                raise
            if not kwargs.keys().isdisjoint(NUMPY_SPELLINGS):
                return asked(*args, **{NUMPY_SPELLINGS.get(name, name): value for name, value in kwargs.items()})
            binding_error(function, args, kwargs, several)

    return asked  # type: ignore[return-value]


def overloaded(function: F) -> F:
    """`public` for a function that has several signatures in PyTorch."""
    return public(function, several=True)


def in_place(rule: Rule) -> Callable[..., Any]:
    """The in-place method of an elementwise rule: `exp_`, `mul_`."""

    def method(self: Any, *others: Any) -> Any:
        if overrides.wanted((self, *others)):
            return overrides.dispatch(method, (self, *others), {})
        for other in others:
            if not overrides.is_operand(other):
                raise TypeError(
                    f"{rule.name}_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}"
                )
        return apply_in_place(rule, self, *others)

    return _apply.name_function(method, rule.name + "_", f"In-place {rule.name}.")


def in_place_operator(rule: Rule, name: str) -> Callable[..., Any]:
    """`x *= y` for a rule: like the in-place method, answering NotImplemented to an operand it can't take."""
    method = in_place(rule)

    def operator(self: Any, other: Any) -> Any:
        return method(self, other) if overrides.is_operand(other) else NotImplemented

    return _apply.name_function(operator, name, "")
