"""Arrays on a JAX device, or inside a program that is being compiled, with NumPy's manners.

JAX's arrays never change. A tensor's memory does: it is written to, and its views see it. A `DeviceArray` is that memory.
It stands on a `Cell`, which holds the present value; a view of it knows how to take its part of the value and how to put a
new part back. So the rest of undertow treats it as it treats a NumPy array, and the same code runs eagerly, on a GPU, and
while a step is traced.

`namespace_on(device)` runs rules on these: the words of `xp.jax`, each applied to the present values.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from undertow.devices import cpu
from undertow.devices import device as Device
from undertow.modes import local, special
from undertow.xp import numpy as numpy_xp
from undertow.xp.numpy_order import outer_to_inner

Value = Any  # a jax.Array, or what stands for one in a trace


def placed(array: Any, device: Device) -> Any:
    """A copy of an array's value on a device."""
    if Watch.trace is not None:  # a program runs in one place
        return DeviceArray(jax_namespace().constant(unwrapped(array)), device)
    value = array.value if type(array) is DeviceArray else array
    if device.type == "cpu":
        return np.array(value)
    jax = jax_namespace().jax
    if isinstance(value, jax.Array):
        return DeviceArray(jax.device_put(value, jax_device(device), may_alias=False), device)
    return DeviceArray(jax_namespace().constant(value, jax_device(device)), device)


def empty_beside(array: Any, shape: tuple[int, ...]) -> Any:
    """New memory of a shape, with an array's dtype and on its device."""
    memory = np.empty(shape, array.dtype)
    return placed(memory, array.device) if type(array) is DeviceArray else memory


def at_home(array: Any) -> Any:
    """A new tensor's array, where it belongs: in the program that is being traced, or on the device of the op that runs.

    NOTE home. What an op makes besides the results of rules (noise, masks, indices, constants) are NumPy's arrays. While a
    public function runs on tensors of a device, or a gradient of theirs is computed and recorded, that device is the
    thread's `home`, and a tensor that is made of such an array lies there.
    """
    if Watch.trace is not None:
        return Watch.trace.constant(array)
    home = local.modes.home
    return array if home is None or type(array) is not np.ndarray else placed(array, home)


class Home:
    """A block in which what ops make belongs on a device; None: on the CPU."""

    __slots__ = ("device", "before")

    def __init__(self, device: Device | None) -> None:
        self.device = device

    def __enter__(self) -> None:
        modes = local.modes
        self.before, modes.home = modes.home, self.device

    def __exit__(self, *exc: Any) -> None:
        local.modes.home = self.before


def home_among(values: Iterable[Any]) -> Device | None:
    """The device of the first tensor that is not on the CPU."""
    for value in values:
        array = getattr(value, "_array", None)
        if type(array) is DeviceArray and array.device is not cpu:
            return array.device
    return None


def jax_device(device: Device) -> Any:
    """JAX's name for a device: `cuda` its GPUs, `xla` whatever it takes by default."""
    jax = jax_namespace().jax
    found = jax.devices() if device.type == "xla" else jax.devices(device.type)
    return found[device.index or 0]


def device_of(value: Any) -> Device:
    """Where a JAX array is."""
    there = next(iter(value.devices())) if hasattr(value, "devices") else None
    return cpu if there is None or there.platform == "cpu" else Device("cuda", there.id)


@cache
def gpus() -> int:
    """How many GPUs JAX can use. It is asked only if a plugin for them is installed."""
    if not any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)):
        return 0
    try:
        return len(jax_namespace().jax.devices("cuda"))
    except RuntimeError:
        return 0


class NeedsValue(RuntimeError):
    """Python asked for a number that is known only when the compiled program runs."""


class Cell:
    """One memory: its present value, and how often it was written to."""

    __slots__ = ("value", "writes", "host", "device", "order", "__weakref__")

    def __init__(self, value: Value, device: Device | None) -> None:
        self.value = value
        self.writes = 0
        Watch.any_made = True
        self.device: Device | None = None  # where the tensor is said to live; None: wherever its value is
        self.host: np.ndarray[Any, Any] | None = None  # the memory itself, once somebody has looked at it
        self.order: tuple[int, ...] | None = None  # of axes in the memory of eager code, if not as they are
        if device is not None:
            self.live_on(device)

    def live_on(self, device: Device) -> None:
        """Says where the tensor lives. While there is one that is not on the CPU, every op takes its general path."""
        self.device = device
        if device is not cpu:
            self.__class__ = CellAway
            special.enter()


class CellAway(Cell):
    """A memory that is not on the CPU."""

    __slots__ = ()

    def __del__(self) -> None:
        special.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        return Cell, (self.value, self.device)  # a copy is counted as this one was


@cache
def jax_namespace() -> Any:
    """The words on JAX's arrays; JAX is loaded when they are first needed."""
    return importlib.import_module("undertow.xp.jax")


class Watch:
    """Who is told of cells while a step is traced; nobody otherwise."""

    trace: Any = None
    any_made = False  # whether there has ever been a DeviceArray


class _Flags:
    c_contiguous = contiguous = writeable = owndata = True
    f_contiguous = False


class DeviceArray(NDArrayOperatorsMixin):
    """A memory on a device, or a view of one."""

    __slots__ = ("cell", "_parent", "_take", "_put", "_seen", "_part", "shape", "dtype", "__weakref__")

    flags = _Flags()
    base = None
    _take: Callable[[Any, Value], Value]
    _put: Callable[[Any, Value, Value], Value]
    _seen: int
    _part: Value

    def __init__(self, value: Value, device: Device | None = None) -> None:
        self.cell = Cell(value, device)
        self._parent: DeviceArray | None = None
        self.shape: tuple[int, ...] = tuple(value.shape)
        self.dtype: np.dtype[Any] = np.dtype(value.dtype)
        if Watch.trace is not None:
            Watch.trace.made(self.cell)

    def like(self, value: Value) -> DeviceArray:
        """A memory of its own that looks as this one does, and holds a value of its kind."""
        array = DeviceArray.__new__(DeviceArray)
        array.cell, array._parent = Cell(value, self.cell.device), None
        array.shape, array.dtype = self.shape, self.dtype
        return array

    def view_by(self, take: Callable[[Any, Value], Value], put: Callable[[Any, Value, Value], Value]) -> DeviceArray:
        """A view: `take(xp, whole)` is its value, `put(xp, whole, part)` the whole with the part replaced."""
        view = DeviceArray.__new__(DeviceArray)
        view.cell, view._parent, view._take, view._put = self.cell, self, take, put
        view._seen, view._part = self.cell.writes, self._taken(take)
        view.shape, view.dtype = tuple(view._part.shape), np.dtype(view._part.dtype)
        return view

    @property
    def value(self) -> Value:
        """The present value."""
        if self._parent is None:
            cell = self.cell
            return cell.value if cell.host is None or Watch.trace is not None else jax_namespace().constant(cell.host)
        if self._seen != self.cell.writes:
            self._part, self._seen = self._parent._taken(self._take), self.cell.writes
        return self._part

    def _taken(self, take: Callable[[Any, Value], Value]) -> Value:
        """A part of the value; of a known value, a known one."""
        if is_known(self):
            return Watch.trace.known(take(numpy_xp, np.asarray(self.value)))
        return take(jax_namespace(), self.value)

    def write(self, value: Value) -> None:
        """Replaces the value, in the array's own shape and dtype."""
        import jax.numpy as jnp

        value = jax_namespace().constant(value) if type(value) is np.ndarray else jnp.asarray(value)
        if value.dtype != self.dtype:
            if value.dtype.kind == "c" and self.dtype.kind != "c":
                value = value.real
            value = value.astype(self.dtype)
        if value.shape != self.shape:
            value = jnp.broadcast_to(value, self.shape)
        self._replace(value)

    def _replace(self, value: Value) -> None:
        if self._parent is not None:
            self._parent._replace(self._put(jax_namespace(), self._parent.value, value))
            return
        cell = self.cell
        cell.writes += 1
        if cell.host is None or Watch.trace is not None:
            cell.value = value
        else:
            cell.host[...] = value

    def on_host(self) -> np.ndarray[Any, Any]:
        """The memory as a NumPy array, from now on; its views are views of it."""
        if Watch.trace is not None:
            Watch.trace.refuse_value(self)
        if self._parent is not None:
            return self._take(numpy_xp, self._parent.on_host())
        if self.cell.host is None:
            self.cell.host = np.array(self.cell.value)
        return self.cell.host

    @property
    def device(self) -> Device:
        """Where the tensor is said to live. While a step is traced that is where its program will run."""
        device = self.cell.device
        if device is None:
            device = Watch.trace.device if Watch.trace is not None else device_of(self.cell.value)
        return device

    # --- as NumPy's arrays have it

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Those of memory in order: a device lays arrays out as it likes, and programs expect this."""
        steps, step = [], self.dtype.itemsize
        for n in reversed(self.shape):
            steps.append(step)
            step *= max(n, 1)
        return tuple(reversed(steps))

    def lying(self) -> np.ndarray[Any, Any]:
        """An empty array that lies in memory as this one would on the host: draws are made in that order."""
        if self._parent is not None:
            return self._take(numpy_xp, self._parent.lying())
        order = self.cell.order
        if order is None:
            return np.empty(self.shape, self.dtype)
        return np.empty([self.shape[axis] for axis in order], self.dtype).transpose(np.argsort(order))

    def lies_in_order(self) -> bool:
        """Whether it would be contiguous on the host."""
        return (self._parent is None and self.cell.order is None) or self.lying().flags.c_contiguous

    def lie_like(self, operands: Iterable[Any]) -> None:
        """Notes in which order the result of an elementwise function would lie in memory, given its operands."""
        if len(self.shape) < 2 or all(type(each) is not DeviceArray or each.lies_in_order() for each in operands):
            return
        dims = outer_to_inner(self.shape, [each.lying() if type(each) is DeviceArray else each for each in operands])
        self.cell.order = None if dims == sorted(dims) else tuple(dims)

    def copy(self, order: str = "C") -> DeviceArray:
        """A memory of its own with the same value."""
        return DeviceArray(self.value, self.cell.device)

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> DeviceArray:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self.copy() if copy else self
        result = namespace_on(self.cell.device).astype(self, dtype)
        result.lie_like([self])
        return result

    @property
    def T(self) -> DeviceArray:
        return DeviceArray(self._taken(lambda xp, whole: whole.T), self.cell.device)

    @property
    def real(self) -> DeviceArray:
        return DeviceArray(self.value.real, self.cell.device)

    @property
    def imag(self) -> DeviceArray:
        return DeviceArray(self.value.imag, self.cell.device)

    def fill(self, value: Any) -> None:
        self.write(value)

    def reshape(self, *shape: Any) -> DeviceArray:
        return DeviceArray(self._taken(lambda xp, whole: whole.reshape(*shape)), self.cell.device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in _CHANGING:
            raise AttributeError(f"{name}: not for an array on a device")
        if is_known(self):
            method = getattr(np.asarray(self.value), name)
            return _computed_now(method) if callable(method) else method
        method = getattr(self.value, name)
        return _applied(method, self.cell.device) if callable(method) else method

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[k] for k in range(len(self)))  # JAX refuses no index, so that Python would go on for ever

    def __getitem__(self, index: Any) -> DeviceArray:
        known = is_known((self, index))
        index = unwrapped(index, _known_value if known else _present_value)
        if _is_basic(index):
            return self.view_by(lambda xp, whole: whole[index], lambda xp, whole, part: whole.at[index].set(part))
        part = Watch.trace.known(np.asarray(self.value)[index]) if known else self.value[index]
        return DeviceArray(part, self.cell.device)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is Ellipsis:
            self.write(unwrapped(value))
        else:
            self._replace(self.value.at[unwrapped(index)].set(unwrapped(value)))

    # --- where a real number is asked for

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a NumPy array of its own."""
        if Watch.trace is not None and not Watch.trace.is_constant(self):
            Watch.trace.refuse_value(self)
        return np.array(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self, *index: Any) -> Any:
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()

    # --- NumPy's functions, called on such arrays

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        import jax.numpy as jnp

        options.pop("casting", None)
        if out is None and method == "__call__" and is_known(inputs):
            return _computed_now(ufunc)(*inputs, **options)
        function = getattr(jnp, ufunc.__name__)
        if method == "at":
            into, *rest = inputs
            into.write(function.at(into.value, *unwrapped(rest), inplace=False))
            return None
        if method != "__call__":
            function = getattr(function, method)
        dtype = options.pop("dtype", None)
        inputs, options = _with_arrays(inputs, options)
        result = function(*unwrapped(inputs), **unwrapped(options))
        if dtype is not None:
            result = result.astype(dtype)
        if out is None:
            made = wrapped(result, self.cell.device)
            if Watch.trace is not None and type(made) is DeviceArray and made.dtype.kind in "iu" and method == "__call__":
                Watch.trace.follow(made, ufunc, inputs, options)
            return made
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
                into.write(jnp.where(unwrapped(kwargs["where"]), unwrapped(value), into.value))
            else:
                into.write(unwrapped(value))
            return None
        if function is np.may_share_memory:
            return _shares(*args[:2])
        if is_known((args, kwargs)):
            return _computed_now(function)(*args, **kwargs)
        if function.__name__ in _SHAPED_BY_VALUES and Watch.trace is not None:
            importlib.import_module("undertow.xp.jax_tracing").refuse_shape(function.__name__)
        space = jnp.linalg if function.__module__ == "numpy.linalg" else jnp
        return wrapped(getattr(space, function.__name__)(*unwrapped(args), **unwrapped(kwargs)), self.cell.device)

    def __repr__(self) -> str:
        return f"DeviceArray({self.value!r})"

    __hash__ = object.__hash__


_SHAPED_BY_VALUES = frozenset({"argwhere", "flatnonzero", "nonzero", "unique"})
_CHANGING = frozenset({"sort", "partition", "put", "resize", "setfield", "setflags", "byteswap"})


def lying(array: Any) -> Any:
    """An array that lies in memory as another one does, or would on the host."""
    return array.lying() if type(array) is DeviceArray else array


def values_known(*arrays: Any) -> bool:
    """Whether Python may look at these arrays' values, say to check them: not while they are traced."""
    return Watch.trace is None or not any(type(array) is DeviceArray for array in arrays)


def checked(check: Callable[[Any], None], array: Any) -> None:
    """Checks an array's values: now, or before each call of the program that is being traced, if they are known by then."""
    if Watch.trace is None or type(array) is not DeviceArray:
        check(array)
    else:
        Watch.trace.check_later(check, array)


def is_known(args: Any) -> bool:
    """Whether all arrays among arguments, of which there are some, hold few whole numbers that are the same in every call.

    Lengths and indices that a traced step makes of Python's numbers are such: NumPy computes with them during the trace, so
    that code which asks for their values goes on working.
    """
    return Watch.trace is not None and _are_known(args) is True


def _are_known(args: Any) -> bool | None:
    """None if there are no arrays."""
    if type(args) is DeviceArray:
        return may_be_known(args) and Watch.trace.is_constant(args)
    if type(args) in (tuple, list, dict):
        found = [_are_known(arg) for arg in (args.values() if type(args) is dict else args)]
        return False if False in found else True if True in found else None
    return False if isinstance(args, np.ndarray) and args.size > FEW else None


FEW = 10_000


def may_be_known(array: Any) -> bool:
    """Whether an array is one that a trace computes with, if it can."""
    return array.dtype.kind in "iub" and array.size <= FEW


def _computed_now(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's on known arrays, whose results are known too."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unwrapped((args, kwargs), _known_value)
        return _as_constants(function(*args, **kwargs))

    return compute


def _as_constants(result: Any) -> Any:
    if type(result) in (tuple, list):
        return tuple([_as_constants(part) for part in result])
    if isinstance(result, (np.ndarray, np.generic)):
        return Watch.trace.constant(np.asarray(result))
    return result


def _is_basic(index: Any) -> bool:
    parts = index if type(index) is tuple else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts)


def _shares(a: Any, b: Any) -> bool:
    return type(a) is DeviceArray and type(b) is DeviceArray and a.cell is b.cell


def _present_value(array: DeviceArray) -> Value:
    return array.value


def _known_value(array: DeviceArray) -> np.ndarray[Any, Any]:
    return np.asarray(array.value)


def unwrapped(args: Any, value: Callable[[DeviceArray], Any] = _present_value) -> Any:
    """Arguments with present values in the place of device arrays.

    Those of NumPy's are copied: JAX may read them after its function has returned.
    """
    if type(args) is DeviceArray:
        return value(args)
    if type(args) is np.ndarray and Watch.trace is None:
        return args.copy()
    if type(args) is tuple:
        return tuple([unwrapped(arg, value) for arg in args])
    if type(args) is list:
        return [unwrapped(arg, value) for arg in args]
    if type(args) is dict:
        return {name: unwrapped(arg, value) for name, arg in args.items()}
    return args


def wrapped(result: Any, device: Device | None = None) -> Any:
    """Results with device arrays in the place of JAX's."""
    if type(result) in (tuple, list):
        return tuple([wrapped(part, device) for part in result])
    if isinstance(result, np.ndarray) or not (hasattr(result, "aval") and hasattr(result, "dtype")):
        return result
    return DeviceArray(result, device)


def _applied(word: Callable[..., Any], device: Device | None) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _with_arrays(args, kwargs)
        return wrapped(word(*unwrapped(args), **unwrapped(kwargs)), device)

    return apply


def _with_arrays(args: Any, kwargs: Any) -> Any:
    """Numbers that are inputs of a traced program, as arrays of the dtype that they meet."""
    if not any(hasattr(arg, "as_array") for arg in (*args, *kwargs.values())):
        return args, kwargs
    dtype = next((arg.dtype for arg in args if type(arg) is DeviceArray and arg.dtype.kind in "fV"), None)

    def array(arg: Any) -> Any:
        return arg.as_array(dtype) if hasattr(arg, "as_array") else arg

    return tuple([array(arg) for arg in args]), {name: array(arg) for name, arg in kwargs.items()}


class DeviceNamespace:
    """The words of `xp.jax` on device arrays, made as they are asked for; what they make lives on one device."""

    RECORDED = False

    def __init__(self, device: Device | None) -> None:
        self.device = device

    def __getattr__(self, word: str) -> Any:
        applied = _applied(getattr(jax_namespace(), word), self.device)
        now = getattr(numpy_xp, word, None)

        def apply(*args: Any, **kwargs: Any) -> Any:
            if now is not None and is_known((args, kwargs)):
                return _computed_now(now)(*args, **kwargs)
            result = applied(*args, **kwargs)
            if Watch.trace is not None and type(result) is DeviceArray and result.dtype.kind in "iu":
                Watch.trace.follow(result, now, args, kwargs)
            return result

        apply = apply if callable(now) else applied
        setattr(self, word, apply)
        return apply

    def dtype_of(self, x: Any) -> np.dtype[Any]:
        return np.dtype(x.dtype)


@cache
def namespace_on(device: Device | None) -> DeviceNamespace:
    """The namespace for arrays of a device; for None, of the program that is being traced."""
    return DeviceNamespace(device)
