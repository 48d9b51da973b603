"""Arrays on a JAX device, or inside a program that is being traced, with NumPy's interface.

The rest of undertow treats a `DeviceArray` as it treats a NumPy array, and so the same code runs eagerly, on a GPU, and
while a step is traced.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from undertow._src.base import tracer
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.device.layout import lay_like
from undertow._src.arrays.device.memory import (
    FEW,
    Deferred,
    DeviceMemory,
    Value,
    call_jax,
    jax_module,
    jax_namespace,
    known_value,
)

Word = Callable[..., Any]


class _Flags:
    c_contiguous = contiguous = writeable = owndata = True
    f_contiguous = False


_IN_ORDER = _Flags()


class DeviceArray(DeviceMemory, NDArrayOperatorsMixin):
    """A buffer on a device, or a view of one, that code for NumPy arrays can use."""

    __slots__ = ()

    base = None

    @property
    def flags(self) -> Any:
        return self.lying().flags if self.may_lie_otherwise() else _IN_ORDER

    def copy(self, order: str = "C") -> DeviceArray:
        """Return a copy with its own buffer."""
        if Deferred.calls and (same := jax_module("deferred").again(self)) is not None:
            return same
        return DeviceArray(self.value, self.buffer.device)

    def copied_whole(self, memo: dict[Any, Any]) -> DeviceArray:
        """Return a copy, with a copy of the whole buffer: arrays that share a buffer share its copy."""
        if self._parent is not None:
            return self._parent.copied_whole(memo).view_by(self._take, self._put)
        key = "memory of", id(self.buffer)
        if key not in memo:
            memo[key] = self.copy()
            memo[key].buffer.strides = self.buffer.strides
            memo.setdefault(id(memo), []).append(self.buffer)  # ids stay unique only while their objects live
        return memo[key]

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> DeviceArray:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self.copy() if copy else self
        result = applied(jax_namespace().astype, self.buffer.device, numpy_xp.astype)(self, dtype)
        result.lie_like([self])
        return result

    @property
    def T(self) -> DeviceArray:
        return self._rearranged(lambda whole: whole.T)

    @property
    def real(self) -> DeviceArray:
        return DeviceArray(self.value.real, self.buffer.device)

    @property
    def imag(self) -> DeviceArray:
        return DeviceArray(self.value.imag, self.buffer.device)

    def fill(self, value: Any) -> None:
        self.write(value)

    def reshape(self, *shape: Any) -> DeviceArray:
        return self._rearranged(lambda whole: whole.reshape(*shape))

    def transpose(self, *axes: Any) -> DeviceArray:
        return self._rearranged(lambda whole: whole.transpose(*axes))

    def _rearranged(self, take: Callable[[Any], Any]) -> DeviceArray:
        result = DeviceArray(self._taken(lambda xp, whole: take(whole)), self.buffer.device)
        if tracer.current is not None and tracer.current.device is cpu:
            result.lie_with(take(self.lying()).strides)
        return result

    def __getattr__(self, name: str) -> Any:
        if name == "shape":  # see `forget_shape`
            self.shape = tuple(self.buffer.value.shape)
            return self.shape
        if name.startswith("_") or name in _CHANGING or name == "without_values":
            raise AttributeError(f"{name} is not supported by arrays on a device")
        if self.is_known():
            method = getattr(np.asarray(self.value), name)
            return _computed_now(method) if callable(method) else method
        method = getattr(self.value, name)
        return applied(method, self.buffer.device) if callable(method) else method

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[k] for k in range(len(self)))  # JAX raises for no index, so that Python would iterate for ever

    def __getitem__(self, index: Any) -> DeviceArray:
        known = is_known((self, index))
        index = unwrapped(index, _known_value if known else _present_value)
        if _is_basic(index):
            return self.view_by(lambda xp, whole: whole[index], lambda xp, whole, part: whole.at[index].set(part))
        part = known_value(np.asarray(self.value)[index]) if known else self.value[index]
        return DeviceArray(part, self.buffer.device)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is Ellipsis:
            self._assign(value)
        else:
            index, value = unwrapped(index), unwrapped(value)
            with self.writing(value, *(index if type(index) is tuple else (index,))):
                self._replace(self.value.at[index].set(value))

    def _assign(self, value: Any) -> None:
        """Write a value, which may not have been computed yet."""
        if not (Deferred.calls and type(value) is DeviceArray and jax_module("deferred").write(self, value)):
            self.write(unwrapped(value))

    # --- where an actual number is required

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the value as a new NumPy array."""
        if tracer.current is not None and not tracer.current.is_constant(self.value):
            tracer.current.refuse_value(self)
        return np.array(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self, *index: Any) -> Any:
        if tracer.current is not None and self.size == 1 and not tracer.current.is_constant(self.value):
            return tracer.current.item(self, object)
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        if tracer.current is not None and 0 < self.size <= _LISTED and not tracer.current.is_constant(self.value):
            return [self[place].tolist() for place in range(len(self))] if self.shape else self.item()
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        if tracer.current is not None and self.size == 1 and not tracer.current.is_constant(self.value):
            return tracer.current.item(self, bool)
        return bool(self.numpy())

    def __int__(self) -> int:
        if (
            tracer.current is not None
            and self.size == 1
            and self.dtype.kind in "iub"
            and not tracer.current.is_constant(self.value)
        ):
            return tracer.current.item(self, int)
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return int(self) if self.dtype.kind in "iub" and self.size == 1 else self.numpy().__index__()

    # --- NumPy's functions, called on device arrays

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        import jax.numpy as jnp

        options.pop("casting", None)
        if method == "__call__" and is_known(inputs) and (out is None or type(out[0]) is DeviceArray):
            computed = _computed_now(ufunc)(*inputs, **options)
            if out is None:
                return computed
            out[0].write(computed.value)
            return out[0]
        function = getattr(jnp, ufunc.__name__)
        if tracer.current is None and method == "__call__" and out is None and not options:
            if all(type(each) is DeviceArray for each in inputs):
                key, formula = (ufunc, (), ()), lambda xp, given: function(*given)
                made = jax_module("eager_programs").run_formula(key, formula, [*inputs], False)
                if made is not NotImplemented:
                    return made
        if method == "at":
            into, *rest = inputs
            into.write(function.at(into.value, *unwrapped(rest), inplace=False))
            return None
        if method != "__call__":
            function = getattr(function, method)
        dtype = options.pop("dtype", None)
        inputs, options = _with_arrays(inputs, options)
        result = call_jax(function, unwrapped(inputs), unwrapped(options))
        if dtype is not None:
            result = result.astype(dtype)
        if out is None:
            made = wrapped(result, device_among(inputs))
            if method == "__call__" and tracer.current is not None and tracer.current.device is cpu:
                lay_like(made, inputs)
            return _followed(made, ufunc, inputs, options) if method == "__call__" else made
        if type(out[0]) is DeviceArray:
            out[0].write(result)
        else:
            out[0][...] = result
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        import jax.numpy as jnp

        if function is np.copyto:
            into, value = args[:2]
            if type(into) is not DeviceArray:
                np.copyto(into, np.asarray(value), **kwargs)
            elif "where" in kwargs:
                where, value = unwrapped(kwargs["where"]), unwrapped(value)
                with into.writing(where, value):
                    into.write(jnp.where(where, value, into.value))
            else:
                into._assign(value)
            return None
        if function is np.may_share_memory:
            return _shares(*args[:2])
        if is_known((args, kwargs)):
            return _computed_now(function)(*args, **kwargs)
        if function.__name__ in _SHAPED_BY_VALUES and tracer.current is not None:
            importlib.import_module("undertow._src.arrays.jax.tracing").refuse_shape(function.__name__)
        space = jnp.linalg if function.__module__ == "numpy.linalg" else jnp
        result = getattr(space, function.__name__)(*unwrapped(args), **unwrapped(kwargs))
        return wrapped(result, device_among([self, *args]))

    def __repr__(self) -> str:
        return f"DeviceArray({self.value!r})"

    __hash__ = object.__hash__


_LISTED = 64  # numbers that a trace makes a list of
_SHAPED_BY_VALUES = frozenset({"argwhere", "flatnonzero", "nonzero", "unique"})
_CHANGING = frozenset({"sort", "partition", "put", "resize", "setfield", "setflags", "byteswap"})


def lying(array: Any) -> Any:
    """Return a host array with the strides that an array has, or would have on the host."""
    return array.lying() if type(array) is DeviceArray else array


def shared_memory(array: Any) -> Any:
    """Return a compiled step's result on the CPU as a NumPy array, whose buffer other tensors on it share from now on."""
    return array.on_host() if type(array) is DeviceArray and array.device is cpu else array


def device_among(arrays: Iterable[Any]) -> Device | None:
    """Return the device of the first array that is not on the CPU, else that of the first; None: not known yet."""
    devices = [array.buffer.device for array in arrays if type(array) is DeviceArray]
    return next((device for device in devices if device is not cpu), cpu if devices else None)


def _is_basic(index: Any) -> bool:
    parts = index if type(index) is tuple else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts)


def _shares(a: Any, b: Any) -> bool:
    return type(a) is DeviceArray and type(b) is DeviceArray and a.buffer is b.buffer


def values_known(*arrays: Any) -> bool:
    """Whether Python may read these arrays' values, for example to check them: not while traced, nor without values."""
    for array in arrays:
        if type(array) is DeviceArray:
            if tracer.current is not None:
                return False
        elif hasattr(array, "without_values"):
            return False
    return True


def checked(check: Callable[[Any], None], array: Any) -> None:
    """Check an array's values: now, or before each call of the traced program, if they are known there."""
    if tracer.current is None or type(array) is not DeviceArray:
        if not hasattr(array, "without_values"):
            check(array)
    else:
        tracer.current.check_before_calls(check, array)


def is_known(args: Any) -> bool:
    """Whether arguments contain arrays and all of them hold few integers that are the same in every call.

    Lengths and indices that a traced step makes from Python numbers are such: NumPy computes with them during the
    trace, so that code which reads their values works.
    """
    return tracer.current is not None and _are_known(args) is True


def _are_known(args: Any) -> bool | None:
    """Return whether all arrays are known; None if there are no arrays."""
    if type(args) is DeviceArray:
        return args.is_known()
    if type(args) in (tuple, list, dict):
        found = [_are_known(arg) for arg in (args.values() if type(args) is dict else args)]
        return False if False in found else True if True in found else None
    return False if isinstance(args, np.ndarray) and args.size > FEW else None


def _computed_now(function: Word) -> Word:
    """Apply a NumPy function to known arrays; its results are known too."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unwrapped((args, kwargs), _known_value)
        return _as_constants(function(*args, **kwargs))

    return compute


def _as_constants(result: Any) -> Any:
    if type(result) in (tuple, list):
        return tuple([_as_constants(part) for part in result])
    if isinstance(result, (np.ndarray, np.generic)):
        return tracer.running().new_array(np.asarray(result))
    return result


def _present_value(array: DeviceArray) -> Value:
    return array.value


def _known_value(array: DeviceArray) -> np.ndarray[Any, Any]:
    return np.asarray(array.value)


def unwrapped(args: Any, value: Callable[[DeviceArray], Any] = _present_value) -> Any:
    """Replace device arrays in arguments by their current values.

    NumPy's are copied: JAX may read them after its function has returned.
    """
    if type(args) is DeviceArray:
        return value(args)
    if type(args) is np.ndarray and tracer.current is None:
        return args.copy()
    if type(args) is tuple:
        return tuple([unwrapped(arg, value) for arg in args])
    if type(args) is list:
        return [unwrapped(arg, value) for arg in args]
    if type(args) is dict:
        return {name: unwrapped(arg, value) for name, arg in args.items()}
    return args


def wrapped(result: Any, device: Device | None = None) -> Any:
    """Replace JAX arrays in results by device arrays."""
    if type(result) in (tuple, list):
        return tuple([wrapped(part, device) for part in result])
    if isinstance(result, np.ndarray) or not (hasattr(result, "aval") and hasattr(result, "dtype")):
        return result
    return DeviceArray(result, device)


def applied(function: Word, device: Device | None, now: Word | None = None) -> Word:
    """Return a JAX function on device arrays. Where their values are known, `now` computes the same with NumPy."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        if now is not None and is_known((args, kwargs)):
            return _computed_now(now)(*args, **kwargs)
        given, options = _with_arrays(args, kwargs)
        result = wrapped(call_jax(function, unwrapped(given), unwrapped(options)), device)
        return result if now is None else _followed(result, now, args, kwargs)

    return apply


def _followed(result: Any, function: Word, args: Any, kwargs: Any) -> Any:
    """Return the result; if it holds integers, the trace notes how NumPy would compute it."""
    if tracer.current is not None and type(result) is DeviceArray and result.dtype.kind in "iu":
        tracer.current.note_integers(result, function, (args, kwargs))
    return result


def _with_arrays(args: Any, kwargs: Any) -> Any:
    """Return the symbolic scalars of a traced program as arrays, of the dtype of the other operands."""
    if not any(hasattr(arg, "as_array") for arg in (*args, *kwargs.values())):
        return args, kwargs
    dtypes = sorted(
        [arg.dtype for arg in args if type(arg) is DeviceArray], key=lambda dtype: "bui".find(dtype.kind) >= 0
    )
    dtype = dtypes[0] if dtypes else None  # a floating one, if there is any

    def array(arg: Any) -> Any:
        return arg.beside(dtype) if hasattr(arg, "as_array") else arg

    return tuple([array(arg) for arg in args]), {name: array(arg) for name, arg in kwargs.items()}
