"""Random tensors and their generators. The numbers, and the state afterwards, equal PyTorch's on the same device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import lying
from undertow._src.arrays.device.placement import gpus
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, as_ints, broadcast_two, check_tensor, invalid_combination, is_int
from undertow._src.ops.public import overloaded, public
from undertow._src.random import Stream
from undertow._src.random.generators import Generator as Generator
from undertow._src.random.generators import default_generator as default_generator
from undertow._src.random.generators import seed_cuda, stream_of
from undertow._src.random.memory_order import in_memory_order
from undertow._src.rules import random as rules
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import like
from undertow._src.tensor.factory_arguments import (
    check_options,
    check_size,
    device_of_new,
    has_no_values,
    into_out,
    made,
    number,
    parse_kind,
    parse_size,
    without_values,
)
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import DTYPE_OF, SCALAR_DTYPE

Draw = Callable[[Stream, int, np.dtype[Any]], Any]  # (stream, number of values, dtype) -> values

# --- seeds and states


def manual_seed(seed: Any) -> Generator:
    """Start the default generators, that of the CPU and those of GPUs, from a seed."""
    seed_cuda(int(seed))
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default generators from an unpredictable seed, and return the seed."""
    chosen = default_generator.seed()
    seed_cuda(chosen)
    return chosen


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """Return the state of the default generator, as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator, as returned by `get_rng_state`."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str | None = None, **names: Any) -> Iterator[None]:
    """Restore the default generator, and those of the given devices or of all GPUs, at the end of the block."""
    if not enabled:
        yield
        return
    named = Device("cuda" if device_type is None else device_type)
    if devices is None and named.type == "cuda":
        devices = range(gpus())
    module: Any = import_module(f"undertow.{named.type}") if devices else None
    before = get_rng_state()
    of_devices = [(each, module.get_rng_state(each)) for each in devices or ()]
    try:
        yield
    finally:
        set_rng_state(before)
        for each, state in of_devices:
            module.set_rng_state(state, each)


def thread_safe_generator() -> Generator | None:
    """Return the generator of a data-loading worker thread; None elsewhere."""
    return None


# --- filling arrays


def uniform_draw(low: float = 0.0, high: float = 1.0) -> Draw:
    def draw(stream: Stream, n: int, kind: np.dtype[Any]) -> Any:
        check_kernel(kind, "check_uniform_bounds", "fcV")
        return stream.uniform(n, low, high, kind)

    return draw


def integer_draw(low: int | None, high: int | None) -> Draw:
    return lambda stream, n, kind: stream.integers(n, low, high, kind)


def check_bounded(kind: np.dtype[Any], unbounded: bool = False) -> None:
    """Raise for dtypes that random integers cannot have."""
    if unbounded:
        check_kernel(kind, "random_kernel_cpu", "buifV")
    elif kind.kind == "c":
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")


def check_kernel(kind: np.dtype[Any], kernel: str, kinds: str) -> None:
    if kind.kind not in kinds:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{DTYPE_OF[kind].scalar_name}'")


def _fill(array: Any, generator: Generator | None, where: Device, draw: Draw) -> Any:
    """Return draws in the shape of a new array, filled in memory order as PyTorch does."""
    values = draw(stream_of(generator, where=where), array.size, array.dtype)
    if array.flags.c_contiguous and isinstance(array, np.ndarray):
        return values.reshape(array.shape)
    if not isinstance(values, np.ndarray):  # on a GPU, or in a trace
        return in_memory_order(values, array)
    array[...] = in_memory_order(values, array)
    return array


def _fill_normal(array: Any, generator: Generator | None, where: Device, mean: float = 0.0, std: float = 1.0) -> Any:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    check_kernel(array.dtype, "normal_kernel_cpu", "fcV")
    dense = array.flags.c_contiguous
    return _fill(array, generator, where, lambda stream, n, kind: stream.normal(n, mean, std, kind, contiguous=dense))


# --- factories


def _random_factory(name: str, fill: Callable[[Any, Generator | None, Device], Any], doc: str) -> Callable[..., Any]:
    """Make `rand` or `randn`."""

    def factory(
        *args: Any, size: Any = None, generator: Generator | None = None, out: Any = None, dtype: Any = None,
        layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
    ) -> Any:  # fmt: skip
        if (not args and size is None) or not isinstance(generator, (Generator, type(None))):
            raise invalid_combination(name, args, {} if generator is None else {"generator": generator})
        sizes = _random_size(parse_size, args, size, name)
        check_options(name, device, layout, pin_memory)
        if out is not None:
            return _into(out, sizes, lambda array: fill(array, generator, out.device), name, dtype)
        kind = parse_kind(dtype, name).numpy
        if has_no_values(device):
            return made(without_values(sizes, kind), name, requires_grad, device)
        where = device_of_new(device)
        return made(fill(np.empty(sizes, kind), generator, where), name, requires_grad, where)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public(factory)


def _random_size(parse: Callable[..., tuple[int, ...]], *arguments: Any) -> tuple[int, ...]:
    """Return sizes; raise the error of random factories for a negative one."""
    try:
        return parse(*arguments)
    except RuntimeError:
        given = arguments[0] or arguments[1]
        sizes = list(given[0]) if isinstance(given[0], (tuple, list)) else list(given)
        wrong = next((n for n in sizes if n < 0), None)
        if wrong is None:
            raise
        raise RuntimeError(f"Trying to create tensor with negative dimension {wrong}: {sizes}") from None


def _into(out: Any, sizes: tuple[int, ...], fill: Callable[[Any], Any], name: str, kind: Any) -> Any:
    """Draw into `out`, in its memory order if it already has the right shape."""
    check_tensor(out, name, "out", None)
    right = out._array.shape == sizes
    array = np.empty_like(lying(out._array), order="K") if right else np.empty(sizes, out._array.dtype)
    return into_out(out, fill(array), name, kind)


def _fill_uniform(array: Any, generator: Generator | None, where: Device) -> Any:
    return _fill(array, generator, where, uniform_draw())


rand = _random_factory("rand", _fill_uniform, "Return numbers drawn uniformly from [0, 1).")
randn = _random_factory("randn", _fill_normal, "Return numbers drawn from the standard normal distribution.")


@overloaded
def randint(
    *args: Any, low: Any = None, high: Any = None, size: Any = None, generator: Generator | None = None,
    out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False,
    requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return integers drawn uniformly from [low, high); low is 0 by default."""
    named = {key: value for key, value in (("low", low), ("high", high), ("size", size)) if value is not None}
    count = len(args) + len(named)
    names = ("high", "size") if count == 2 else ("low", "high", "size")
    given = {**dict(zip(names, args, strict=False)), **named}
    fits = given.keys() == set(names) and len(given) == count and isinstance(given["size"], (tuple, list))
    if not fits or not all(is_int(given[key]) for key in names[:-1]):
        raise invalid_combination("randint", args, named)
    bounds = [as_int(given.get(key, 0), "randint", key) for key in ("low", "high")]
    sizes = check_size(as_ints(given["size"], "randint", "size"), "randint")
    check_options("randint", device, layout, pin_memory)
    if out is not None:
        return _into(
            out, sizes, lambda array: _fill(array, generator, out.device, integer_draw(*bounds)), "randint", dtype
        )
    kind = parse_kind(dtype, "randint", SCALAR_DTYPE[int])
    if has_no_values(device):
        return made(without_values(sizes, kind.numpy), "randint", requires_grad, device)
    where = device_of_new(device)
    drawn = _fill(np.empty(sizes, kind.numpy), generator, where, integer_draw(*bounds))
    return made(drawn, "randint", requires_grad, where)


@public
def randperm(
    n: int, *, generator: Generator | None = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return the numbers from 0 to n - 1 in random order."""
    count = as_int(n, "randperm", "n", 1)
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    check_options("randperm", device, layout, pin_memory)
    own = SCALAR_DTYPE[int] if out is None else DTYPE_OF[out._array.dtype]
    kind = parse_kind(dtype, "randperm", own).numpy
    if has_no_values(device) and out is None:
        return made(without_values((count,), kind), "randperm", requires_grad, device)
    where = device_of_new(device) if out is None else out.device
    array = stream_of(generator, where=where).permutation(count, kind)
    return into_out(out, array, "randperm", dtype) if out is not None else made(array, "randperm", requires_grad, where)


def _random_like(name: str, fill: Callable[[Any, Generator | None, Device], Any], doc: str) -> Callable[..., Any]:
    """Make `rand_like` or `randn_like`."""

    def factory(
        input: Any, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None,
    ) -> Any:  # fmt: skip
        array, _ = like(input, name, dtype, layout, device, pin_memory, memory_format)
        where = device_of_new(device or input.device)
        return made(array if where.type == "meta" else fill(array, generator, where), name, requires_grad, where)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public(factory)


rand_like = _random_like("rand_like", _fill_uniform, "Return uniform numbers from [0, 1) in the shape of a tensor.")
randn_like = _random_like("randn_like", _fill_normal, "Return standard normal numbers in the shape of a tensor.")


@overloaded
def randint_like(
    input: Any, *args: Any, low: Any = None, high: Any = None, generator: Generator | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return integers drawn uniformly from [low, high), in the shape and dtype of a tensor."""
    named = {key: value for key, value in (("low", low), ("high", high)) if value is not None}
    names = ("high",) if len(args) + len(named) == 1 else ("low", "high")
    given = {**dict(zip(names, args, strict=False)), **named}
    if given.keys() != set(names) or len(given) != len(args) + len(named):
        raise invalid_combination("randint_like", (input, *args), named)
    bounds = [as_int(given.get(key, 0), "randint_like", key) for key in ("low", "high")]
    array, _ = like(input, "randint_like", dtype, layout, device, pin_memory, memory_format)
    check_bounded(array.dtype)
    where = device_of_new(device or input.device)
    filled = array if where.type == "meta" else _fill(array, generator, where, integer_draw(*bounds))
    return made(filled, "randint_like", requires_grad, where)


@overloaded
def normal(
    mean: Any, std: Any = None, size: Any = None, *, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return normal numbers with a mean and a standard deviation: two numbers and a size, or at least one tensor."""
    if size is not None:
        mean, std = _number_in(mean), _number_in(std)
    tensors = [isinstance(value, TensorCore) for value in (mean, std)]
    if not any(tensors):
        if std is None or not isinstance(size, (tuple, list)):
            raise invalid_combination("normal", [value for value in (mean, std, size) if value is not None])
        sizes = check_size(as_ints(size, "normal", "size"), "normal")
        check_options("normal", device, layout, pin_memory)
        numbers = number(mean, "normal", "mean"), number(std, "normal", "std")
        kind = parse_kind(dtype, "normal", None if out is None else DTYPE_OF[out._array.dtype])
        if has_no_values(device) and out is None:
            return made(without_values(sizes, kind.numpy), "normal", requires_grad, device)
        where = device_of_new(device) if out is None else out.device
        array = _fill_normal(np.empty(sizes, kind.numpy), generator, where, *numbers)
        return into_out(out, array, "normal", dtype) if out is not None else made(array, "normal", requires_grad, where)
    if size is not None:
        raise invalid_combination("normal", (mean, std, size))
    std = 1.0 if std is None else std
    if not tensors[1] and not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    arrays = [value._array if isinstance(value, TensorCore) else value for value in (mean, std)]
    if all(tensors):
        broadcast_two(arrays[0].shape, arrays[1].shape)
    kind_of = arrays[0 if tensors[0] else 1].dtype
    check_kernel(kind_of, "normal_kernel_cpu", "fcV")
    where = (mean if tensors[0] else std).device
    values = stream_of(generator, where=where).normal_each(arrays[0], arrays[1], kind_of)
    if out is not None:
        return into_out(out, values, "normal")
    if all(tensors):
        return apply(rules.normal_both, mean, std, values=values)
    return apply(rules.normal_mean if tensors[0] else rules.normal_std, mean if tensors[0] else std, values=values)


def _number_in(value: Any) -> Any:
    """Return the number in a 0-dim tensor; any other value unchanged."""
    return value.item() if isinstance(value, TensorCore) and not value.shape and not value.requires_grad else value


__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "normal", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed", "set_rng_state",
    "thread_safe_generator",
]  # fmt: skip
