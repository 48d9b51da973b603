"""Lifting: C functions (`math.cos`, `float`) applied to numbers that are inputs of a program.

Code in C needs the number itself. So where a traced function calls such a function, one of these is called instead
(see `recompiled_functions`): the original function computes the result on the host before each call, as an input of the
program.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import tracer
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.guards.places import contents_of
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.python_draws import NAMES as DRAWN
from undertow._src.compile.tracing.python_draws import Drawer, drawer
from undertow._src.compile.tracing.symbolic_scalars import (
    SymbolicScalar,
    Values,
    exact_key,
    exactly,
    guarded_errors,
    of,
    scalar_for,
)
from undertow._src.compile.tracing.unbacked_scalars import Asked
from undertow._src.tensor.core import TensorCore

_ASKING = {math.isfinite: Asked.is_finite, math.isnan: Asked.is_nan, math.isinf: Asked.is_inf}


class Derived:
    """An input that is computed from the numbers of a call."""

    def __init__(self, follows: Callable[[Values], Any], options: Options) -> None:
        self._follows, self._options = follows, options

    def again(self, drawn: list[Any]) -> Any:
        """Return the number for this call."""
        return np.array(self._follows(self._options.values() + self._options.extra), np.float64)


def computed_on_host(function: Callable[..., Any], args: Sequence[Any], about: Any = None) -> Any:
    """Return the result of a function of numbers: the host computes it before each call, as an input of the program.

    about: tells functions apart that are made for this call, by their contents.
    """
    trace, scalars = running_trace(), [arg for arg in args if isinstance(arg, SymbolicScalar)]
    its = function if about is None else about
    key = (its, *[id(arg) if isinstance(arg, SymbolicScalar) else exact_key(arg) for arg in args])
    computed = scalars[0].known.computed
    if key not in computed:
        follows = [of(arg) for arg in args]

        def result(values: Values) -> Any:
            return function(*[each(values) for each in follows])

        with guarded_errors(*args):
            value = function(*[arg.value if isinstance(arg, SymbolicScalar) else arg for arg in args])
        if type(value) not in (int, float, np.float64) or trace.schedules is None:
            return function(*map(exactly, args))
        given = trace.host_inputs.add(Derived(result, trace.schedules.options), np.array(value, np.float64))
        computed[key] = scalar_for(value, given.value, result, scalars[0].known, True)
    return computed[key]


class Lifted:
    """A function that also takes stand-ins for numbers."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracer.current is None or kwargs or running_trace().schedules is None:
            return self.function(*args, **kwargs)
        if len(args) == 1 and self.function in (float, int) and _is_unknown(args[0]):
            args = (args[0].item(),)
        if len(args) == 1 and isinstance(args[0], Asked):
            return self._of_asked(args[0])
        scalars = [arg for arg in args if isinstance(arg, SymbolicScalar)]
        if not scalars or any(each.is_asked for each in scalars):
            return self.function(*args)
        with guarded_errors(*args):
            asks = len(args) == 1 and type(self.function(args[0].value)) is bool
        if asks:
            return args[0]._answer(self.asked)
        return computed_on_host(self.function, args)

    def asked(self, value: float, about: Any) -> Any:
        """Return the function as a recorded comparison of a number."""
        return self.function(value)

    def _of_asked(self, number: Asked) -> Any:
        if self.function in _ASKING:
            return _ASKING[self.function](number)
        if self.function is float:
            return number.as_float()
        return number.as_whole() if self.function is int else self.function(number)


def _of_numpy(self: SymbolicScalar, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """Apply a ufunc of NumPy. With arrays among its inputs, it needs the numbers themselves."""
    if method == "__call__" and not options and ufunc.nout == 1 and tracer.current is not None:
        if all(isinstance(each, (int, float)) and not getattr(each, "is_asked", False) for each in inputs):
            return computed_on_host(ufunc, inputs)
    return getattr(ufunc, method)(*map(exactly, inputs), **options)


def _by_numpy(self: SymbolicScalar, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Apply another function of NumPy (`np.clip`, `np.interp`) to numbers, and to lists of numbers that are known."""
    flat = [*leaves(args)]
    known = all(isinstance(each, (int, float)) and not getattr(each, "is_asked", False) for each in flat)
    if kwargs or not known or tracer.current is None:
        return function(*map_leaves(exactly, args), **{key: exactly(value) for key, value in kwargs.items()})

    def applied(*numbers: Any) -> Any:
        given = iter(numbers)
        return function(*map_leaves(lambda leaf: next(given), args))

    shape = map_leaves(lambda leaf: None, args)
    return computed_on_host(applied, flat, (function, repr(shape)))


SymbolicScalar.__array_ufunc__ = _of_numpy  # type: ignore[attr-defined]
SymbolicScalar.__array_function__ = _by_numpy  # type: ignore[attr-defined]
_LIFTED: dict[Any, Lifted] = {
    function: Lifted(function) for function in (*vars(math).values(), float, int, round) if callable(function)
}


def _is_unknown(value: Any) -> bool:
    """Return whether only the program knows the single element of a tensor."""
    if not isinstance(value, TensorCore) or type(value._array) is not DeviceArray or value._array.size != 1:
        return False
    return not running_trace().is_constant(value._array.value)


class Lifting:
    """Find the replacements for C functions that a definition calls."""

    def __init__(self, function: FunctionType, node: ast.AST) -> None:
        self._function = function
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        parts = [*ast.walk(node)]
        self._local = {part.arg for part in parts if isinstance(part, ast.arg)}  # of functions inside it, too
        self._local |= {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
        self.finds_any = any(
            isinstance(part, (ast.Subscript, ast.In, ast.NotIn))
            or (isinstance(part, ast.Call) and self(part.func) is not None)
            for part in parts
        )

    def __call__(self, called: ast.expr) -> Lifted | Drawer | None:
        found = self._meant(called)
        if isinstance(found, (BuiltinFunctionType, type)) and found in _LIFTED:
            return _LIFTED[found]
        names = {getattr(called, "attr", ""), getattr(called, "id", ""), getattr(found, "__name__", "")}
        return None if names.isdisjoint(DRAWN) or isinstance(found, (FunctionType, type)) else drawer

    def _meant(self, expression: ast.expr) -> Any:
        """Return the value of a name that is not local, or of an attribute of a module."""
        if isinstance(expression, ast.Attribute):
            module = self._meant(expression.value)
            return getattr(module, expression.attr, None) if isinstance(module, ModuleType) else None
        if not isinstance(expression, ast.Name) or expression.id in self._local:
            return None
        name = expression.id
        if name in self._cells:
            return contents_of(self._cells[name])
        return self._function.__globals__.get(name, getattr(builtins, name, None))
