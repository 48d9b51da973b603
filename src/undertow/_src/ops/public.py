"""What makes a function public: its override by `__torch_function__`, and the in-place form of a rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from undertow._src.arrays.device.memory import Buffer
from undertow._src.arrays.device.placement import Home, accelerator_among
from undertow._src.base import tracer, tree
from undertow._src.base.errors import out_of_memory
from undertow._src.base.modes import local, slow_path
from undertow._src.engine import apply as _apply
from undertow._src.engine.arguments import (
    NUMPY_SPELLINGS,
    as_called,
    binding_error,
    invalid_combination,
    must_be,
    refuse_non_tensors,
)
from undertow._src.engine.failed_ops import show_saved
from undertow._src.engine.writes import apply_in_place, check_writable, wrote_directly
from undertow._src.overrides import torch_function
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Function = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

# In-place functions that check their arguments before they check whether the tensor may be written to.
CHECKED_BY_THEMSELVES = frozenset(
    "apply_ detach_ fill_diagonal_ float_power_ map2_ map_ resize_ resize_as_ set_".split()
)
TAKEN_AS_OUT = (TensorCore, tuple, list, type(None), bool, int, float, complex)

# Parameters that have different names in a different form of a function.
OTHER_SPELLINGS: dict[str, dict[str, str]] = {
    "split": {"tensor": "input", "split_size_or_sections": "split_size"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "result_type": {
        "tensor": "tensor1", "scalar": "tensor2", "other": "tensor2", "scalar1": "tensor1", "scalar2": "tensor2",
    },
    "swapaxes_": {"axis0": "dim0", "axis1": "dim1"},
}  # fmt: skip


def public(function: F, several: bool = False) -> F:
    """Make a hand-written function public: classes and modes with `__torch_function__` may override it.

    A call that does not fit its parameters is tried again with NumPy's names (`axis` for `dim`), then refused with
    PyTorch's error; `several`: PyTorch has several signatures for it, which changes that error.
    """
    quiet = torch_function.QUIET
    in_place = function.__name__.endswith("_") and not function.__name__.endswith("__")
    in_place = in_place and function.__name__ not in CHECKED_BY_THEMSELVES

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        overridable = slow_path.count or (kwargs and not quiet.issuperset(map(type, kwargs.values())))
        for value in args:
            if value.__class__ not in quiet:
                overridable = (
                    not (isinstance(value, (tuple, list)) and quiet.issuperset(map(type, value))) or overridable
                )
        if overridable:
            if torch_function.has_override_inside(args, kwargs):
                return torch_function.dispatch(asked, args, kwargs)
            if slow_path.dispatcher is not None:
                result = slow_path.dispatcher.direct(asked, args, kwargs)
                if result is not NotImplemented:
                    return result
            autocast = local.modes.autocast
            if autocast is not None and asked.__name__ in autocast.policies:
                return autocast.run(asked, args, kwargs)
            if Buffer.any_made and (tracer.current is None or tracer.current.device is not cpu):
                home = accelerator_among(tree.leaves((args, kwargs)))
                if home is not local.modes.home:
                    with Home(home):
                        return asked(*args, **kwargs)
        if kwargs and "out" in kwargs:
            if "." in asked.__qualname__:  # only functions accept it, not methods
                binding_error(function, args, kwargs, False, asked.__qualname__)
            if not isinstance(kwargs["out"], TAKEN_AS_OUT):
                if several:
                    raise invalid_combination(asked.__name__, list(args), kwargs)
                raise must_be("Tensor", kwargs["out"], asked.__name__, "out")
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is not None:  # raised inside the function, not by the call
                raise as_called(error, function, asked.__qualname__, kwargs) from error.__cause__
            spellings = OTHER_SPELLINGS.get(asked.__name__, NUMPY_SPELLINGS)
            if not kwargs.keys().isdisjoint(spellings):
                return asked(*args, **{spellings.get(name, name): value for name, value in kwargs.items()})
            binding_error(function, args, kwargs, several, asked.__qualname__)
        except AttributeError as error:
            if str(error.name).startswith("_"):  # what only tensors have; PyTorch's own code asks for public names
                refuse_non_tensors(function, args, kwargs, asked.__qualname__)
            raise
        except (RuntimeError, IndexError) as error:
            if in_place and args and isinstance(args[0], TensorCore):  # whether it may be written to is checked first
                check_writable(args[0], local.modes.grad_enabled)
            if local.modes.saved_hooks:
                show_saved(error)
            raise
        except MemoryError as error:
            raise out_of_memory(error) from None

    return asked  # type: ignore[return-value]


def public_method(function: F) -> F:
    """Make a method public that only its own tensor may override: fewer checks, for frequent calls."""
    plain = torch_function.PLAIN

    @functools.wraps(function)
    def asked(self: object, *args: Any, **kwargs: Any) -> Any:
        if slow_path.count or self.__class__ not in plain:
            if torch_function.has_override((self,)):
                return torch_function.dispatch(asked, (self, *args), kwargs)
            if slow_path.dispatcher is not None:
                result = slow_path.dispatcher.direct(asked, (self, *args), kwargs)
                if result is not NotImplemented:
                    return result
        try:
            return function(self, *args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is not None:  # raised inside the function, not by the call
                raise
            binding_error(function, (self, *args), kwargs, False, asked.__qualname__)
        except MemoryError as error:
            raise out_of_memory(error) from None

    return asked  # type: ignore[return-value]


def overloaded(function: F) -> F:
    """Make a function public that has several signatures in PyTorch."""
    return public(function, several=True)


def finish(rule: Rule, inputs: tuple[Any, ...], out: Tensor | None = None, **statics: Any) -> Tensor:
    """Return a result, or write it to `out`: the last line of a function that takes `out=`."""
    if out is None:
        return _apply.apply(rule, *inputs, **statics)
    return _apply.apply_into(out, rule, inputs, statics)


# --- in-place forms and operators of elementwise rules


def in_place(
    rule: Rule, name: str = "", takes: str = "number", several: bool = False, check: Function | None = None
) -> Function:
    """Return the in-place method of an elementwise rule: `exp_`, `mul_`. `takes`, `several` and `check` as for `binary`."""
    name = name or rule.name + "_"
    ufunc = _apply.ufunc_of(rule)

    def one(input: Tensor) -> Tensor:
        if type(input) in _apply.PLAIN and ufunc is not None and wrote_directly(ufunc, input):
            return input
        if torch_function.has_override((input,)):
            return torch_function.dispatch(one, (input,), {})
        _apply.check_operands(name, rule, (input,), "tensors")
        if check is not None:
            check((input,))
        return apply_in_place(rule, input)

    def two(self: Tensor, other: Any = _apply.MISSING) -> Tensor:
        if type(self) in _apply.PLAIN and ufunc is not None and wrote_directly(ufunc, self, other):
            return self
        if torch_function.has_override((self, other)):
            return torch_function.dispatch(two, (self, other), {})
        if not isinstance(other, TensorCore):
            _apply.check_operands(name, rule, (self, other), takes, several, method=True)
        if check is not None:
            check((self, other))
        return apply_in_place(rule, self, other)

    return _apply.name_function(one if len(rule.inputs) == 1 else two, name, f"In-place {rule.name}.")


def in_place_operator(rule: Rule, name: str, check: Function | None = None) -> Function:
    """Return `x *= y` for a rule; NotImplemented for an operand that it can't take."""
    ufunc = _apply.ufunc_of(rule)

    def method(self: Tensor, other: Any) -> Tensor:
        if type(self) in _apply.PLAIN and ufunc is not None and wrote_directly(ufunc, self, other):
            return self
        if not torch_function.is_operand(other):
            return NotImplemented
        if torch_function.has_override((self, other)):
            return torch_function.dispatch(method, (self, other), {})
        if check is not None:
            check((self, other))
        return apply_in_place(rule, self, other)

    return _apply.name_function(method, name, "")


def operator(function: Function, name: str, reflected: bool = False) -> Function:
    """Return an operator made of a function; NotImplemented for an operand that it can't take."""

    def method(self: object, other: Any) -> Tensor:
        if not torch_function.is_operand(other):
            return NotImplemented
        if torch_function.has_override((self, other)):
            return torch_function.dispatch(method, (self, other), {})
        return function(other, self) if reflected else function(self, other)

    return _apply.name_function(method, name, "")
