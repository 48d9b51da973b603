"""`__torch_function__`: which classes and modes may override a call, and how it is handed over.

Every public function checks for overrides before it runs: first the function modes of the thread, innermost first, then
the classes among its arguments that define `__torch_function__`, subclasses before their bases and otherwise from left
to right. The first result other than NotImplemented counts.

NOTE the cost of overrides. Checking takes time, so the common case is settled by type alone: an argument whose class is
in `QUIET` (plain tensors, Python numbers, strings…) overrides nothing. Function modes raise `slow_path.count`, which a
function reads anyway. Properties (`x.shape`) check too, but only once an override exists: see `make_properties_check`.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable, Iterable
from inspect import CO_VARARGS
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from undertow._src.arrays.device.memory import Compiling
from undertow._src.base import tree
from undertow._src.base.lazy import present
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore, tensor_class
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format

Public = Callable[..., Any]

PLAIN: set[Any] = {TensorCore}  # tensor classes that never override; their instances take the fast path
QUIET: set[Any] = {
    TensorCore, bool, int, float, complex, str, type(None), slice, type(Ellipsis), dtype, device, layout,
    memory_format, np.ndarray, np.float64, FunctionType, BuiltinFunctionType, MethodType, functools.partial,
}  # fmt: skip
_NUMBERS = (bool, int, float, complex, np.generic)


def disabled(func: Public, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call a function without overrides: a class with this `__torch_function__` counts as a plain tensor."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def dispatch_disabled(func: Public, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run an operator without overrides: a class with this `__torch_dispatch__` counts as a plain tensor."""
    return slow_path.dispatcher.disabled(func, args, kwargs or {})


def is_operand(value: Any) -> bool:
    """Whether a value is a tensor, a number, or of a class that overrides calls."""
    return isinstance(value, (TensorCore, *_NUMBERS)) or (overrides(value) and not local.modes.function_off)


def overrides(value: Any) -> bool:
    """Whether a value's class overrides calls."""
    cls = type(value)
    if cls in QUIET:
        return False
    implementation = getattr(cls, "__torch_function__", None)
    return implementation is not None and implementation is not disabled


def has_override(args: Iterable[Any]) -> bool:
    """Whether a call with these arguments must be offered to overrides first."""
    modes = local.modes
    compiling = Compiling.current  # a different thread may finish compiling at any time
    if compiling is not None and compiling.is_elsewhere():
        args = list(args)
        compiling.wait_for([each for each in args if isinstance(each, TensorCore) and each._is_strided])
    if modes.function_modes:
        return True
    return not modes.function_off and any(map(overrides, args))


def has_override_inside(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `has_override` holds, looking into lists and tuples of arguments too."""
    if Compiling.current is None and not local.modes.function_modes and QUIET.issuperset(map(type, args)):
        if not kwargs or QUIET.issuperset(map(type, kwargs.values())):
            return False
    return has_override(tree.leaves((args, kwargs)))


def register_class(cls: Any) -> None:
    """Register a new tensor class: as plain, or as overriding."""
    if getattr(cls, "__torch_dispatch__", dispatch_disabled) is not dispatch_disabled:
        importlib.import_module("undertow._src.overrides.dispatch.running").note_class(cls)
        if not any("__torch_function__" in vars(base) for base in cls.__mro__ if base is not tensor_class()):
            cls.__torch_function__ = disabled  # a class with `__torch_dispatch__` need not override calls, too
        if cls.__torch_function__ is not disabled:
            make_properties_check(tensor_class())
        return
    if getattr(cls, "__torch_function__", disabled) is disabled:
        PLAIN.add(cls)
        QUIET.add(cls)
    else:
        make_properties_check(tensor_class())


# --- handing over

# What `__torch_function__` receives for `x + 1` and its relatives in place of the operator.
_SHOWN_AS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__rtruediv__": "__rdiv__",
    "__mod__": "remainder", "__imod__": "remainder_", "__pow__": "pow", "__ipow__": "pow_", "__matmul__": "matmul",
    "__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__eq__": "__eq__", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__ifloordiv__": "floor_divide_", "nelement": "numel",
    "_getitem": "__getitem__", "_setitem": "__setitem__",
}  # fmt: skip
_BINARY_OPERATORS = frozenset(
    [
        f"__{prefix}{name}__"
        for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift div".split()
        for prefix in ("", "r", "i")
    ]
    + [f"__{name}__" for name in "eq ne lt le gt ge".split()]
)


def dispatch(public: Public, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Offer a call to the function modes and to the classes among its arguments, subclasses first."""
    name = getattr(public, "__name__", "")
    shown, in_python = public, False
    if name in _SHOWN_AS:
        shown = getattr(tensor_class(), _SHOWN_AS[name], public)
    elif _is_written_in_python(public, name):
        args, kwargs = _options_by_keyword(public, args, kwargs)
        in_python = True
    overriders = [] if local.modes.function_off else overriding(tree.leaves((args, kwargs)), in_python)
    result = call_overrides(shown, overriders, args, kwargs)
    if result is not NotImplemented:
        return result
    if name in _BINARY_OPERATORS:
        return NotImplemented  # Python tries the other operand, then raises its own error
    raise no_implementation(shown, overriders)


# PyTorch's functions that are written in Python pass their options by keyword, defaults included.
_IN_PYTHON = frozenset("backward norm split unique unique_consecutive meshgrid tensordot cdist lu stft".split())
_FUNCTIONAL_IN_C = frozenset(
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity gelu hardshrink linear logsigmoid one_hot pairwise_distance "
    "pdist pixel_shuffle pixel_unshuffle prelu scaled_dot_product_attention softplus softshrink".split()
)


def _is_written_in_python(public: Public, name: str) -> bool:
    if name in _IN_PYTHON:
        return True
    functional = sys.modules.get("undertow.nn.functional")
    if functional is None or name in _FUNCTIONAL_IN_C:
        return False
    return present(functional).get(name) is public  # a late name that is not there yet is no function that is called


def _options_by_keyword(
    public: Public, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    function: Any = getattr(public, "__wrapped__", public)
    code, defaults = function.__code__, function.__defaults__ or ()
    required = code.co_argcount - len(defaults)
    options = dict(zip(code.co_varnames[required : code.co_argcount], defaults, strict=True))
    options |= function.__kwdefaults__ or {}
    if not code.co_flags & CO_VARARGS:
        options |= dict(zip(code.co_varnames[required : code.co_argcount], args[required:], strict=False))
        args = args[:required]
    return args, options | kwargs


def overriding(values: Iterable[Any], plain: bool = False) -> list[Any]:
    """Return one value of each overriding class, in order of precedence; of plain tensors too if `plain`."""
    return by_precedence([value for value in values if overrides(value) or (plain and type(value) is tensor_class())])


def by_precedence(values: Iterable[Any]) -> list[Any]:
    """Return the first value of each class, those of subclasses before those of their bases."""
    overriders: list[Any] = []
    for value in values:
        cls = type(value)
        if all(type(other) is not cls for other in overriders):
            place = next((nr for nr, other in enumerate(overriders) if issubclass(cls, type(other))), len(overriders))
            overriders.insert(place, value)
    return overriders


def call_innermost_mode(modes: list[Any], protocol: str, *call: Any) -> Any:
    """Return the innermost mode's result; while it runs, the mode around it is the innermost."""
    mode = modes.pop()
    try:
        return getattr(mode, protocol)(*call)
    finally:
        modes.append(mode)


def call_overrides(public: Public, overriders: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the first result other than NotImplemented: of the innermost mode, then of the classes in order."""
    types = tuple([type(value) for value in overriders])
    given = kwargs or None  # as PyTorch's own functions do: without keywords kwargs is None, not an empty dict
    modes = local.modes.function_modes
    if modes:
        result = call_innermost_mode(modes, "__torch_function__", public, types, args, given)
        if result is not NotImplemented:
            return result
    for value in overriders:
        implementation = type(value).__torch_function__
        if isinstance(implementation, FunctionType):
            implementation = value.__torch_function__
            if getattr(implementation, "__self__", None) is value:
                warn("Defining your `__torch_function__` as a plain method is deprecated: make it a classmethod.")
        result = implementation(public, types, args, given)
        if result is not NotImplemented:
            return result
    return NotImplemented


def no_implementation(public: Public, overriders: list[Any]) -> TypeError:
    """Return the error for a call that every override declined."""
    name = resolve_name(public) or f"torch.{getattr(public, '__name__', public)}"
    modes = local.modes.function_modes
    if name.startswith("torch.nn.functional."):
        in_mode = f" nor in mode {modes[-1]}" if modes else ""
        classes = [type(value) for value in overriders]
        return TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: {classes}{in_mode}"
        )
    return all_declined("__torch_function__", name, modes, overriders)


def all_declined(protocol: str, name: str, modes: list[Any], overriders: list[Any]) -> TypeError:
    """Return the error that lists the overrides which declined."""
    lines = [f"  - mode object {modes[-1]}"] if modes else []
    lines += [f"  - tensor subclass {type(value)}" for value in overriders]
    return TypeError(
        f"Multiple dispatch failed for '{name}'; all {protocol} handlers returned NotImplemented:\n\n"
        + "\n".join(lines)
    )


def convert(result: Any, cls: Any) -> Any:
    """Return a result of the default `__torch_function__`: its tensors become instances of the subclass."""
    if cls is tensor_class():
        return result
    if isinstance(result, TensorCore) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        parts = [convert(part, cls) for part in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else type(result)(parts)
    return result


# --- the public names of functions


def resolve_name(f: Any) -> str | None:
    """Return the public name of a function or an operator, such as `torch.Tensor.add`; None if it has none."""
    if hasattr(f, "_qualified_op_name") or hasattr(f, "_overloadpacket"):
        return str(f)
    names: dict[Any, str] = {}
    for name, _, value in members():
        names.setdefault(value, name)
    return names.get(f)


def members() -> Iterable[tuple[str, Any, Any]]:
    """Yield (public name, namespace, function) of everything that may be overridden."""
    package = sys.modules["undertow"]
    spaces = [("torch.Tensor", tensor_class()), ("torch", package)]
    for part in ("linalg", "fft", "special", "nn.functional"):
        spaces.append((f"torch.{part}", operator.attrgetter(part)(package)))
    for prefix, space in spaces:
        for name in dir(space) if isinstance(space, type) else getattr(space, "__all__", vars(space).copy()):
            value = getattr(space, name, None)
            if type(value) is property:
                yield f"{prefix}.{name}.__get__", space, value.__get__
                yield f"{prefix}.{name}.__set__", space, value.__set__
            elif type(value) is FunctionType and (prefix == "torch.Tensor" or not name.startswith("_")):
                yield f"{prefix}.{name}", space, value


# --- properties

_checking: list[Any] = []


def make_properties_check(cls: Any) -> None:
    """Make the properties of a tensor class check for overrides from now on.

    Called when the first overriding class or function mode appears; before that, checking would only cost time.
    Property objects are changed in place: `Tensor.shape.__get__` is what `__torch_function__` receives, now as before.
    """
    if cls in _checking:
        return
    _checking.append(cls)
    for base in cls.__mro__:
        for value in vars(base).values():
            if type(value) is property:
                _wrap_property(value)


def make_property_check(cls: Any, attribute: property) -> None:
    """Make a property that a class gets later check for overrides if the class's other ones do."""
    if cls in _checking:
        _wrap_property(attribute)


def _wrap_property(attribute: property) -> None:
    fget, fset, fdel = attribute.fget, attribute.fset, attribute.fdel

    def check_first(how: Public, direct: Any) -> Any:
        @functools.wraps(direct)
        def access(self: Any, *value: Any) -> Any:
            if (slow_path.count or type(self) not in PLAIN) and has_override((self, *value)):
                if local.modes.function_modes or overrides(self):  # the value's class has no say
                    return dispatch(how, (self, *value), {})
            return direct(self, *value)

        return access

    attribute.__init__(  # type: ignore[misc]
        fget and check_first(attribute.__get__, fget),
        fset and check_first(attribute.__set__, fset),
        fdel and check_first(attribute.__delete__, fdel),
        attribute.__doc__,
    )


# --- switches


class DisableTorchFunctionSubclass:
    """Switch off overrides by classes inside the block; function modes still apply."""

    __module__ = "undertow._C"  # where PyTorch has it

    def __enter__(self) -> None:
        local.modes.function_off += 1

    def __exit__(self, *exc: Any) -> None:
        local.modes.function_off -= 1


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Switch off all overrides inside the block."""

    __module__ = "undertow._C"

    def __enter__(self) -> None:
        super().__enter__()
        modes = local.modes
        self.before, modes.function_modes = modes.function_modes, []

    def __exit__(self, *exc: Any) -> None:
        local.modes.function_modes = self.before
        super().__exit__()
