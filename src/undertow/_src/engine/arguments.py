"""Checks of the arguments of public functions, with PyTorch's errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from operator import index
from typing import Any, NoReturn, SupportsIndex, TypeGuard

from undertow._src.base import tracer
from undertow._src.base.modes import Deterministic, local
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.sizes import wrapped_dim

# NumPy's spellings that PyTorch accepts.
NUMPY_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}

_LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}


def type_name(value: object) -> str:
    """Return PyTorch's name for an argument's type: `numpy.float32`, `torch.dtype`, but `Tensor` and `int`."""
    kind = type(value)
    if kind.__module__ == "numpy" or (kind.__module__ == "torch" and not isinstance(value, TensorCore)):
        return f"{kind.__module__}.{kind.__name__}"
    return kind.__name__


def tensor_type(tensor: Any) -> str:
    """Return the name of the class that stands for tensors of this dtype and layout on this device."""
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    layout = "" if tensor._is_strided else "sparse."
    return f"torch.{place}{layout}{tensor.dtype.scalar_name}Tensor"


def scalar_name(tensor: TensorCore) -> str:
    """Return the name of a tensor's dtype in PyTorch's errors."""
    return DTYPE_OF[tensor._array.dtype].scalar_name


def invalid_combination(name: str, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> TypeError:
    """Return the error for arguments that fit none of a function's signatures."""
    got = [type_name(value) for value in args]
    got += [f"{key}={type_name(value)}" for key, value in (kwargs or {}).items()]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(got)}), but expected one of:\n"
        f" * the signatures of torch.{name} in PyTorch's documentation"
    )


def must_be(wanted: str, value: object, name: str, argument: str, position: int | None = None) -> TypeError:
    """Return the error for an argument of the wrong type."""
    where = "" if position is None else f" (position {position})"
    return TypeError(f"{name}(): argument '{argument}'{where} must be {wanted}, not {type_name(value)}")


def no_kernel(kernel: str, tensor: TensorCore) -> NotImplementedError:
    """Return the error for a dtype that a function does not support."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{DTYPE_OF[tensor._array.dtype].scalar_name}'")


def refuse_undetermined(name: str) -> None:
    """Raise or warn, under deterministic algorithms, for a function whose result depends on execution order."""
    if not Deterministic.wanted:
        return
    setting = "True, warn_only=True" if Deterministic.warn_only else "True"
    message = (
        f"{name} does not have a deterministic implementation, "
        f"but you set 'torch.use_deterministic_algorithms({setting})'."
    )
    if not Deterministic.warn_only:
        raise RuntimeError(message + " Turn that off around this call, or set warn_only=True.")
    warn(message)


def not_differentiable(name: str, argument: str) -> RuntimeError:
    """Return the error for an input that requires a gradient which an op does not have."""
    return RuntimeError(
        f"The function '{name}' is not differentiable with respect to argument '{argument}'. This input cannot have "
        "requires_grad True."
    )


def check_constant(value: TensorCore | None, name: str, argument: str) -> None:
    """Refuse an input that requires a gradient where an op has none for it."""
    if value is not None and value._requires_grad and local.modes.grad_enabled:
        raise not_differentiable(name, argument)


def check_tensor(value: object, name: str, argument: str = "input", position: int | None = 1) -> None:
    if not isinstance(value, TensorCore):
        raise must_be("Tensor", value, name, argument, position)


def is_int(value: object) -> TypeGuard[SupportsIndex]:
    """Whether PyTorch accepts the value as an int: ints, NumPy ints and integer 0-dim tensors, but not bools."""
    if type(value) is int:
        return True
    if isinstance(value, TensorCore):
        return value._array.ndim == 0 and value._array.dtype.kind in "iu"
    return not isinstance(value, bool) and hasattr(value, "__index__")


def is_listed_int(value: object) -> bool:
    """Whether PyTorch accepts the value in a list of ints, where one-element integer tensors count too."""
    return is_int(value) or (
        isinstance(value, TensorCore) and value._array.size == 1 and value._array.dtype.kind in "iu"
    )


def as_int(value: object, name: str, argument: str, position: int | None = None) -> int:
    """Return the value as an int, or raise PyTorch's error."""
    if type(value) is int:
        return value
    if not is_int(value):
        raise must_be("int", value, name, argument, position)
    return int(value._array) if isinstance(value, TensorCore) else int(index(value))  # not a subclass of int


def as_bool(value: object, name: str, argument: str, position: int | None = None) -> bool:
    if not isinstance(value, bool) and type(value).__name__ != "bool_":
        raise must_be("bool", value, name, argument, position)
    return bool(value)


def element_in_trace(value: Any, dtype: Any) -> Any:
    """Return a symbolic scalar of a traced program as an array of one element; None for anything else."""
    if tracer.current is None or type(value) in (float, int, bool) or not hasattr(value, "as_element"):
        return None
    return value.as_element(dtype)


def as_element(value: Any, kind: Dtype) -> Any:
    """Return a Python number as an element of a dtype, or raise if the dtype can't hold it."""
    if kind.is_complex:
        if kind.itemsize == 8 and any(_LARGEST["float32"] < abs(part) < math.inf for part in (value.real, value.imag)):
            raise _overflow(kind)
        return value
    if kind.is_floating_point and kind.itemsize == 8 and not isinstance(value, complex):
        return value
    if kind.name == "bool":
        return bool(value)
    if isinstance(value, complex):
        if value.imag:
            raise _overflow(kind)
        value = value.real
    if kind.is_floating_point:
        if kind.name == "float32" and hasattr(value, "fits_single") and value.fits_single():
            return value  # a symbolic scalar of a traced program
        limit = _LARGEST.get(kind.name)
        if limit is not None and abs(value) > limit and not math.isinf(value):
            raise _overflow(kind)
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise _overflow(kind)
    whole = int(value)
    bits = 8 * kind.itemsize
    if kind.is_signed:
        if not -(1 << bits - 1) <= whole < 1 << bits - 1:
            raise _overflow(kind)
    else:
        if not -(1 << bits) < whole < 1 << bits:
            raise _overflow(kind)
        whole %= 1 << bits  # negative numbers wrap around
    return whole


def _overflow(kind: Dtype) -> RuntimeError:
    name = f"{kind.name}_t" if kind.category == 1 and kind.name != "int32" else kind.c_name
    return RuntimeError(f"value cannot be converted to type {name} without overflow")


def wrap_dim(dim: int, ndim: int) -> int:
    """Return a dim counted from the front. A 0-dim tensor takes dims 0 and -1, as if it had one dim."""
    size = ndim or 1
    if -size <= dim < size:
        return dim if dim >= 0 else wrapped_dim(dim, size)
    raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})")


def wrap_dims(dims: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return several dims counted from the front, none twice."""
    wrapped = tuple([wrap_dim(dim, ndim) for dim in dims])
    if len(set(wrapped)) != len(wrapped):
        twice = next(dim for place, dim in enumerate(wrapped) if dim in wrapped[:place])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def wrap_real_dim(dim: int, ndim: int) -> int:
    """Apply `wrap_dim` for functions that refuse 0-dim tensors."""
    if ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def as_ints(value: object, name: str, argument: str, position: int | None = 1) -> tuple[int, ...]:
    """Return a tuple of ints from a tuple, list or Size."""
    if not isinstance(value, (tuple, list)):
        raise must_be("tuple of ints", value, name, argument, position)
    for item in value:
        if type(item) is not int:
            return tuple([_listed_int(item, place, name, argument, position) for place, item in enumerate(value)])
    return tuple(value)


def _listed_int(item: object, place: int, name: str, argument: str, position: int | None) -> int:
    if is_listed_int(item):
        return int(item._array.item()) if isinstance(item, TensorCore) else as_int(item, name, argument)
    if place == 0:
        where = "" if position is None else f" (position {position})"
        raise TypeError(
            f"{name}(): argument '{argument}'{where} must be tuple of ints, but found element of type "
            f"{type_name(item)} at pos 0"
        )
    raise TypeError(
        f"{name}(): argument '{argument}' failed to unpack the object at pos {place + 1} with error \"type must be tuple "
        f'of ints,but got {type_name(item)}"'
    )


def spread_ints(given: tuple[Any, ...], name: str, argument: str) -> tuple[int, ...]:
    """Return the ints of `f(2, 3)`, `f((2, 3))` and `f([2, 3])`: methods that take a size accept all three."""
    if len(given) == 1:
        only = given[0]
        if type(only) is int:
            return given
        if isinstance(only, (tuple, list)):
            return as_ints(only, name, argument)
        if not is_listed_int(only):
            raise must_be("tuple of ints", only, name, argument, 1)
    elif not given:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
    elif not is_listed_int(given[0]):
        raise TypeError(f"{name}() takes 1 positional argument but {len(given)} were given")
    return as_ints(given, name, argument)


def only_named(named: dict[str, Any], name: str, argument: str) -> tuple[Any, ...]:
    """Return the one argument that a method with spread ints takes by keyword."""
    for given in named:
        if given != argument:
            raise TypeError(f"{name}() got an unexpected keyword argument '{given}'")
    return tuple(named.values())


def tensor_list(value: object, name: str, argument: str = "tensors", position: int = 1) -> tuple[Any, ...]:
    """Return a tuple of tensors from a list or tuple of them."""
    if not isinstance(value, (tuple, list)):
        raise must_be("tuple of Tensors", value, name, argument, position)
    for place, item in enumerate(value):
        if not isinstance(item, TensorCore):
            raise TypeError(f"expected Tensor as element {place} in argument {position - 1}, but got {type_name(item)}")
    return tuple(value)


def broadcast_two(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two shapes broadcast to."""
    if a == b:
        return a
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    for axis in reversed(range(ndim)):
        if a[axis] != b[axis] and a[axis] != 1 and b[axis] != 1:
            raise RuntimeError(
                f"The size of tensor a ({a[axis]}) must match the size of tensor b ({b[axis]}) at the "
                f"non-singleton dimension {axis}"
            )
    return tuple([m if n == 1 else n for n, m in zip(a, b, strict=True)])


# The files of torch.nn.functional's functions, which pass their arguments on by position in PyTorch.
_HANDING_ON = frozenset(
    "undertow._src.ops." + name
    for name in (
        "activation conv dropout embedding loss loss_class loss_linear multi_head norm pad pool pool_average "
        "pool_fractional resize sampling"
    ).split()
)


def _hands_on(function: Callable[..., Any]) -> bool:
    return function.__module__ in _HANDING_ON and function.__name__ not in ("softmax", "log_softmax")


def as_called(error: TypeError, function: Callable[..., Any], called: str, named: Collection[str]) -> TypeError:
    """Rewrite the error about an argument for the call: a name has no position, and a method's tensor does not count."""
    owner, _, name = called.rpartition(".")
    words, found, rest = str(error).partition(" (position ")
    if not found or not words.startswith(f"{name}(): argument '"):
        return error
    position, _, rest = rest.partition(")")
    if words.split("'")[1] in named and not _hands_on(function):
        return TypeError(words + rest)
    if not owner or function.__code__.co_varnames[:1] == ("self",):  # written as a method
        return error
    return TypeError(f"{words} (position {int(position) - 1}){rest}")


def refuse_non_tensors(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], called: str
) -> None:
    """Raise PyTorch's error if a parameter annotated as a tensor was given anything else."""
    owner, _, name = called.rpartition(".")
    code = function.__code__
    for place, parameter in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        kind = function.__annotations__.get(parameter)
        if kind not in ("Tensor", "Tensor | None"):
            continue
        by_place = place < min(len(args), code.co_argcount)
        value = args[place] if by_place else kwargs.get(parameter)
        given = by_place or parameter in kwargs
        if given and not isinstance(value, TensorCore) and not (value is None and kind != "Tensor"):
            position = place + (not owner) if by_place or _hands_on(function) else None
            raise must_be("Tensor", value, name, parameter, position) from None


def binding_error(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], several: bool, called: str = ""
) -> NoReturn:
    """Raise PyTorch's error for a call that does not fit a function's parameters; the caller's error otherwise.

    called: the qualified name of the call; one with a dot is a method's, and its first argument is not counted.
    """
    code = function.__code__
    name = called.rpartition(".")[2] or function.__name__
    method = "." in called
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    twice = [given for given in parameters[: min(len(args), code.co_argcount)] if given in kwargs]
    if twice:
        raise TypeError(f"{name}() got multiple values for argument '{twice[0]}'") from None
    if several:
        raise invalid_combination(name, args[method:], kwargs) from None
    if code.co_argcount == 1 and not code.co_kwonlyargcount and not kwargs and len(args) > 1:
        raise TypeError(f"TensorBase.{name}() takes no arguments ({len(args) - 1} given)") from None
    defaults = function.__defaults__ or ()
    required = parameters[: code.co_argcount - len(defaults)]
    missing = [given for given in required[len(args) :] if given not in kwargs]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    missing += [given for given in named if given not in kwargs and given not in (function.__kwdefaults__ or {})]
    if missing:
        names = ", ".join(f'"{given}"' for given in missing)
        plural = "s" if len(missing) == 1 else ""  # PyTorch's own grammar
        raise TypeError(f"{name}() missing {len(missing)} required positional argument{plural}: {names}") from None
    allowed, given = code.co_argcount - method, len(args) - method
    if given > allowed and not code.co_flags & CO_VARARGS:
        if method and len(parameters) == 1:
            raise TypeError(f"TensorBase.{name}() takes no arguments ({given} given)") from None
        takes = f"{allowed} positional argument{'' if allowed == 1 else 's'}"
        if defaults:
            takes = f"from {len(required) - method} to {allowed} positional arguments"
        raise TypeError(f"{name}() takes {takes} but {given} {'was' if given == 1 else 'were'} given") from None
    strange = [key for key in kwargs if key not in parameters or (method and key == "out")]
    if strange and not code.co_flags & CO_VARKEYWORDS:
        raise TypeError(f"{name}() got an unexpected keyword argument '{strange[0]}'") from None
    raise
