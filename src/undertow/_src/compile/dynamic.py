"""`compile(step, dynamic=…)`: which sizes of arguments vary, their buckets, and the padding of a call's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import Numbers
from undertow._src.compile.tracing.lengths import Lengths
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import cpu
from undertow._tensor import Tensor

_SMALLEST = 8  # the first bucket, if none are named
_EXACT = 3  # up to this size, each size has its own program

Buckets = tuple[int, ...] | None  # None: powers of two


class PaddedArguments(list[Any]):
    """The tensors among the arguments of a call, padded, and as the caller gave them."""

    originals: list[Any]


class PaddedCall:
    """A call with padded arguments."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...]) -> None:
        self.args, self.kwargs, self.key = args, kwargs, key
        self.originals: dict[int, Any] = {}  # by the id of the padded tensor
        self.sizes: list[int] = []
        self.lengths: Lengths

    def fill(self, arguments: PaddedArguments) -> None:
        """Begin a call: record its true sizes, and its tensors without padding."""
        self.lengths.true[:] = self.sizes
        arguments.originals = [self.originals.get(id(tensor), tensor) for tensor in arguments]


class Dynamic:
    """The sizes of a step's arguments that vary."""

    def __init__(self, function: Callable[..., Any], asked: Mapping[Any, Any]) -> None:
        try:
            self._names = [*inspect.signature(function).parameters]
        except (TypeError, ValueError):
            self._names = []
        self._dims = {self._name(argument): _dims(argument, dims) for argument, dims in asked.items()}
        self._least: dict[tuple[str | int, int], int] = {}  # each smaller size has its own program
        self._true: dict[Any, Numbers] = {}  # the true sizes, by the signatures of calls

    def _name(self, argument: Any) -> str | int:
        if isinstance(argument, str) or (type(argument) is int and argument >= 0):
            is_known = argument in self._names if isinstance(argument, str) else True
            if not is_known and self._names:
                raise ValueError(
                    f"undertow.compile: dynamic names the argument {argument!r}; the step's are {', '.join(self._names)}"
                )
            return self._names[argument] if type(argument) is int and argument < len(self._names) else argument
        raise ValueError(
            f"undertow.compile: dynamic has the key {argument!r}; its keys are arguments of the step, by name or position"
        )

    def forget(self) -> None:
        """Forget the facts from traces."""
        self._least.clear()
        self._true.clear()

    def note_least(self, call: PaddedCall, least: Sequence[int]) -> None:
        """Record the sizes below which a step needs a program for each size."""
        for places, size in zip(call.key[1], least):
            for place in places:
                self._least[place] = max(size, self._least.get(place, 0))

    def padded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PaddedCall | None:
        """Return a call with padded arguments; None if it needs a program for its exact sizes."""
        found: dict[tuple[Any, int], tuple[Any, int, int]] = {}  # the tensor, its size, the bucket
        for name, dims in self._dims.items():
            tensor = self._given(name, args, kwargs)
            if tensor is not None and not isinstance(tensor, TensorCore):
                raise ValueError(
                    f"undertow.compile: dynamic names the argument {name!r}, which is a {type(tensor).__name__}; only "
                    "tensors are padded, not those inside other objects"
                )
            if isinstance(tensor, TensorCore):
                for dim, buckets in dims.items():
                    if not -tensor.dim() <= dim < tensor.dim():
                        raise ValueError(
                            f"undertow.compile: dynamic names dim {dim} of {name!r}, which has {tensor.dim()} dims"
                        )
                    size = tensor._array.shape[dim]
                    bucket = _bucket(size, buckets)
                    if bucket is None or size < self._least.get((name, dim), 0):
                        return None
                    found[name, dim] = tensor, size, bucket
        if not found:
            return None
        together: dict[tuple[int, int], list[tuple[Any, int]]] = {}  # equal sizes vary together
        for place, (_, size, bucket) in found.items():
            together.setdefault((size, bucket), []).append(place)
        key = ("dynamic", tuple(map(tuple, together.values())), tuple(bucket for _, bucket in together))
        larger, smaller = key[2], _smaller(key[2])
        call, cut = PaddedCall(args, dict(kwargs), key), {}
        made: dict[int, Any] = {}
        for name in self._dims:
            tensor = self._given(name, args, kwargs)
            if not isinstance(tensor, TensorCore):
                continue
            if id(tensor) not in made:
                _refuse(tensor, name)
                symbols = {
                    dim % tensor.dim(): symbol
                    for symbol, places in enumerate(together.values())
                    for each, dim in places
                    if each == name
                }
                made[id(tensor)] = padded = _resized(tensor, {dim: larger[each] for dim, each in symbols.items()})
                cut[id(padded)] = partial(_resized, tensor, {dim: smaller[each] for dim, each in symbols.items()})
                call.originals[id(padded)] = tensor
            self._put(call, name, made[id(tensor)])
        call.sizes = [size for size, _ in together]
        true = self._true.setdefault(key, Numbers())
        true.names = [f"{name}.shape[{dim}]" for name, dim in (places[0] for places in together.values())]
        call.lengths = Lengths(true, larger, smaller, cut)
        return call

    def _given(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = name if type(name) is int else self._names.index(name) if name in self._names else len(args)
        return args[place] if place < len(args) else kwargs.get(name)

    def _put(self, call: PaddedCall, name: Any, tensor: Any) -> None:
        place = name if type(name) is int else self._names.index(name) if name in self._names else len(call.args)
        if place < len(call.args):
            call.args = (*call.args[:place], tensor, *call.args[place + 1 :])
        else:
            call.kwargs[name] = tensor


def _dims(argument: Any, asked: Any) -> dict[int, Buckets]:
    """Return dims and their buckets: `1`, `(0, 1)` or `{1: (16, 32)}`."""
    dims = {asked: None} if type(asked) is int else dict.fromkeys(asked) if isinstance(asked, (tuple, list)) else asked
    if not isinstance(dims, Mapping) or not dims or not all(type(dim) is int for dim in dims):
        raise ValueError(
            f"undertow.compile: dynamic[{argument!r}] is {asked!r}; it has to be a dim, a tuple of dims, or a dict "
            "from dims to their buckets, as in {1: (16, 32, 64)}"
        )
    for dim, buckets in dims.items():
        if buckets is not None and not all(type(size) is int and size > 0 for size in buckets):
            raise ValueError(
                f"undertow.compile: the buckets of dim {dim} are {buckets!r}, and have to be positive ints"
            )
    return {dim: None if buckets is None else tuple(sorted(buckets)) for dim, buckets in dims.items()}


def _bucket(size: int, buckets: Buckets) -> int | None:
    """Return the size to which a size is padded; None if it has its own program."""
    if size < 2:
        return None
    if buckets is None:
        return max(_SMALLEST, 1 << (size - 1).bit_length())
    bucket = next((each for each in buckets if each >= size), None)
    return None if bucket is None or bucket <= _EXACT else bucket


def _smaller(larger: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a second trace: primes, with a different distance from the bucket for each dim."""
    found: list[int] = []
    for size in larger:
        taken = {more - less for more, less in zip(larger, found)}
        below = [each for each in range(2, size) if _is_prime(each) and size - each not in taken and each not in found]
        likely = [each for each in below if 4 * each <= 3 * size]
        if not below:
            raise CompileError("undertow.compile: `dynamic` names too many sizes that vary independently.")
        found.append((likely or below)[-1] if likely and likely[-1] > 2 else below[-1])
    return tuple(found)


def _is_prime(number: int) -> bool:
    return all(number % each for each in range(2, int(number**0.5) + 1))


def _refuse(tensor: Any, name: Any) -> None:
    if type(tensor) is not Tensor or tensor._requires_grad or tensor._edge is not None or tensor.__dict__:
        raise CompileError(
            f"undertow.compile: the argument {name!r} has a size that varies (`dynamic`), and requires a gradient or is of "
            "a class of its own; only plain tensors are padded. Give x.detach(), or compile without `dynamic`."
        )


def _resized(tensor: Any, sizes: dict[int, int]) -> Any:
    """Return a tensor with other sizes: cut, or padded by repeating the last element, which raises no new error."""
    array = tensor._array
    off_cpu = type(array) is DeviceArray and array.device is not cpu
    values: Any = array.value if type(array) is DeviceArray else array
    xp: Any = jnp if off_cpu else np
    values = values if off_cpu else np.asarray(values)
    for dim, size in sizes.items():
        places = np.minimum(np.arange(size), values.shape[dim] - 1)
        values = xp.take(values, places, axis=dim)
    if off_cpu:
        return wrap(DeviceArray(values, array.device))
    return wrap(values if array.flags.c_contiguous else _with_gaps(values, array.strides))


def _with_gaps(values: Any, strides: tuple[int, ...]) -> Any:
    """Return a copy that is not contiguous, with its axes in the same order of memory."""
    order = sorted(range(values.ndim), key=lambda dim: -abs(strides[dim]))
    memory = np.empty([values.shape[dim] + 1 for dim in order], values.dtype)
    made = memory[tuple([slice(values.shape[dim]) for dim in order])].transpose(np.argsort(order))
    made[...] = values
    return made
