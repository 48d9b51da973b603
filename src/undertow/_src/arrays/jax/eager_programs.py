"""Computations on a device outside of a compiled step, each as one program: XLA then fuses what it is made of.

JAX dispatches operation by operation, and compiles each of them for each shape; a convolution's gradient or a loss is ten
operations. So a rule's formula, and the gradients of a node, are a program (`run_formula`); so is an array function that is
called by itself (`call`). One whose shapes depend on values, or that is given too many different numbers, runs as written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray, device_among
from undertow._src.arrays.device.memory import jax_namespace
from undertow._src.arrays.jax import deferred
from undertow._src.arrays.jax.tracing import ShapeNeedsValues, is_traced
from undertow._src.arrays.precision import Precision
from undertow._src.arrays.target import options_for, traced_for
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import dtype

_HOME = "undertow._src.arrays."
_MANY = 32  # programs of one function for different numbers and options
_MOST = 4096  # programs of formulas that are kept
_NEEDS_VALUES = (ShapeNeedsValues, jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError)

ARRAY = object()  # in the place of an array
_programs: dict[Any, Callable[..., Any] | None] = {}  # None: the function is called as it is
_counts: Counter[Callable[..., Any]] = Counter()


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of arrays, as a program if it is one of this folder's."""
    if not _is_ours(function):
        return function(*args, **kwargs)
    given, structure = jax.tree.flatten((args, kwargs))
    arrays = [each for each in given if isinstance(each, jax.Array)]
    if not arrays or is_traced(*arrays):
        return function(*args, **kwargs)
    platform = next(iter(arrays[0].devices())).platform
    key = function, structure, platform, Precision.float32_products, tuple(map(_option, given))
    try:
        program = _programs.get(key, function)
    except TypeError:  # an option that can't be hashed
        return function(*args, **kwargs)
    if program is function:
        program = _programs[key] = _program(function, structure, platform, given)
    if program is None:
        return function(*args, **kwargs)
    try:
        return program(*arrays)
    except _NEEDS_VALUES:
        _programs[key] = None
        return function(*args, **kwargs)


@lru_cache(maxsize=512)
def _is_ours(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of undertow's array functions, and not one that is made for a single call."""
    made_of = function.func if type(function) is partial else function
    return type(made_of) is FunctionType and not made_of.__closure__ and made_of.__module__.startswith(_HOME)


def _option(given: Any) -> Any:
    """Return what a program depends on besides shapes: 1, 1.0 and True are different options, and so are 0.0 and -0.0."""
    return None if isinstance(given, jax.Array) else (type(given), given.hex() if type(given) is float else given)


def _program(
    function: Callable[..., Any], structure: Any, platform: str, given: list[Any]
) -> Callable[..., Any] | None:
    """Return a new program, None if the function has too many."""
    _counts[function] += 1
    if _counts[function] > _MANY:
        return None
    options = [ARRAY if isinstance(each, jax.Array) else each for each in given]

    def run(*arrays: Any) -> Any:
        left = iter(arrays)
        args, kwargs = structure.unflatten([next(left) if each is ARRAY else each for each in options])
        with traced_for(platform):
            return function(*args, **kwargs)

    return jax.jit(run, compiler_options=options_for(platform))


# --- formulas


def run_formula(
    key: tuple[Any, Any, Hashable], formula: Callable[[Any, Any], Any], given: Any, passes_first: bool
) -> Any:
    """Return `formula(xp, given)` for a tree of arrays on a device, computed by one program.

    The key is what the formula belongs to, options that it depends on, and what else it depends on: only things of
    which equal ones are alike. Results have buffers of their own; if
    `passes_first`, one that is the first array itself is returned as that very object, as a node passes a gradient on.
    NotImplemented: the formula can't be a program, and runs as written.
    """
    leaves, structure = jax.tree.flatten(given)
    try:
        options = key[0], _frozen(key[1]), key[2]
        whole = options, structure, Precision.float32_products, tuple([_kind(leaf) for leaf in leaves])
    except TypeError:
        return NotImplemented
    program = _formulas.get(whole)
    if program is None:
        program = _new_formula(options, whole, formula, structure, leaves)
    return program.run(leaves, passes_first)


# Devices are missing: a formula that is given one moves its array there, and a program computes on one device.
_PLAIN = (bool, int, float, complex, str, type(None), type, np.dtype, dtype)


def _frozen(option: Any) -> Hashable:
    """Return an option as a key: 1, 1.0 and True are different options, and so are 0.0 and -0.0. A TypeError: no option."""
    kind = type(option)
    if kind is str or option is None:
        return option
    if kind is tuple:
        return tuple([_frozen(part) for part in option]) if option else option
    if kind is int or kind is bool:
        return kind, option
    if not isinstance(option, _PLAIN):
        raise TypeError(option)
    return kind, repr(option) if kind in (float, complex) else option


def _kind(leaf: Any) -> Hashable:
    """Return what a program depends on of an operand: an array's shape and dtype, and any other value."""
    if type(leaf) is DeviceArray:
        return leaf.buffer.device, leaf.shape, leaf.dtype
    return (leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else _frozen(leaf)


def _new_formula(
    key: tuple[Any, Hashable, Hashable], whole: Hashable, formula: Callable[[Any, Any], Any], structure: Any,
    leaves: list[Any],
) -> FormulaProgram:  # fmt: skip
    """Return a new program; one that runs as written if the formula has been given too many different options."""
    if len(_formulas) >= _MOST:
        del _formulas[next(iter(_formulas))]
    program = _formulas[whole] = FormulaProgram(key, formula, structure, leaves)
    options = _options_of.setdefault(key[0], set())
    if len(options) < _MANY:
        options.add(key)
    program.as_written = key in _as_written or key not in options
    return program


class FormulaProgram:
    """A formula as a program, for operands of one kind."""

    def __init__(self, key: Hashable, formula: Callable[[Any, Any], Any], structure: Any, leaves: list[Any]) -> None:
        self._key, self._formula, self._structure = key, formula, structure
        self._options = [None if isinstance(leaf, (DeviceArray, np.ndarray)) else leaf for leaf in leaves]
        self._arrays = [place for place, leaf in enumerate(leaves) if isinstance(leaf, (DeviceArray, np.ndarray))]
        self._device = device_among(leaves)
        on_device = next(leaf for leaf in leaves if type(leaf) is DeviceArray)
        self.platform = next(iter(on_device.value.devices())).platform
        self._precision = Precision.float32_products
        self.jitted = jax.jit(self._trace, compiler_options=options_for(self.platform))
        self._results: Any = None  # their structure, once traced
        self._sources: list[int | None] = []  # for each result, which operand it is
        self._specs: list[deferred.Spec] | None = None  # of results that are computed, if calls may be put off
        self.as_written = False

    def run(self, leaves: list[Any], passes_first: bool) -> Any:
        """Return the results for operands, or NotImplemented."""
        if self.as_written:
            return NotImplemented
        computed: Any = ()
        if self._specs is not None and self._device is not None:
            if self._specs:
                operands = [leaves[place] for place in self._arrays]
                computed = deferred.put_off(self, operands, self._specs, self._device)
            return self._handed_out(leaves, computed, passes_first)
        try:
            if self._results is None or None in self._sources:
                given = [leaves[place] for place in self._arrays]
                values = self.jitted(*[each.value if type(each) is DeviceArray else each for each in given])
                computed = [DeviceArray(value, self._device) for value in values]
        except Exception as error:
            if self._results is not None:
                raise
            self.as_written = True  # what is wrong shows when it runs as written
            if isinstance(error, _NEEDS_VALUES):
                _as_written.add(self._key)
            return NotImplemented
        arrays = [*[leaves[place] for place in self._arrays], *computed]
        if all(array.size <= deferred.SMALL for array in arrays) and self._device not in (None, cpu):
            self._specs = [(array.shape, array.dtype) for array in computed]
        return self._handed_out(leaves, computed, passes_first)

    def _handed_out(self, leaves: list[Any], computed: Any, passes_first: bool) -> Any:
        """Return all results: the computed ones, and those that are operands."""
        left = iter(computed)
        results = []
        for source in self._sources:
            if source is None:
                results.append(next(left))
                continue
            operand = leaves[self._arrays[source]]
            if source or not passes_first:
                operand = (
                    operand.copy() if type(operand) is DeviceArray else DeviceArray(jnp.asarray(operand), self._device)
                )
            results.append(operand)
        return self._results.unflatten(results)

    def traced(self, *arrays: Any) -> list[Any]:
        """Return the results that are computed, inside another program."""
        return [each for each, source in zip(self._made(arrays)[0], self._sources, strict=True) if source is None]

    def _made(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        leaves = [*self._options]
        for place, array in zip(self._arrays, arrays, strict=True):
            leaves[place] = array
        with traced_for(self.platform, self._precision):
            made, structure = jax.tree.flatten(self._formula(jax_namespace(), self._structure.unflatten(leaves)))
        return made, structure

    def _trace(self, *arrays: Any) -> list[Any]:
        made, structure = self._made(arrays)
        places = {id(array): place for place, array in enumerate(arrays)}
        self._sources = [places.get(id(each)) for each in made]
        self._results = structure
        return [each for each, source in zip(made, self._sources, strict=True) if source is None]


_formulas: dict[Hashable, FormulaProgram] = {}
_options_of: dict[Hashable, set[Hashable]] = {}  # the keys of each rule
_as_written: set[Hashable] = set()  # keys of formulas that need values
