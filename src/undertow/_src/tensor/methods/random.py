"""Draws that depend on a tensor's values, and random draws as methods of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, invalid_combination, is_int, no_kernel
from undertow._src.engine.writes import apply_in_place, check_writable
from undertow._src.ops.public import overloaded, public
from undertow._src.random.generators import Generator, stream_of
from undertow._src.random.memory_order import in_memory_order, memory_order
from undertow._src.rules import random as rules
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.factory_arguments import into_out, made
from undertow._src.types.dtypes import DTYPE_OF
from undertow.random import Draw, check_bounded, check_kernel, integer_draw, uniform_draw


@public
def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None, out: Any = None) -> Any:
    """Draw 1 with the probability at each place of a tensor (or with probability p everywhere), else 0."""
    check_tensor(input, "bernoulli")
    source = input._array
    stream = stream_of(generator, input)
    if isinstance(p, TensorCore):
        if p._array.ndim:
            raise invalid_combination("bernoulli", (input, p))
        p = p.item()
    if p is not None:
        values = stream.bernoulli(source.size, p, source.dtype).reshape(source.shape)
    else:
        check_kernel(source.dtype, "bernoulli_tensor_cpu_p_", "fV")
        ordered = source.copy()  # in the order of its elements, as they are drawn
        values = stream.bernoulli_each(ordered).reshape(source.shape)
    return into_out(out, values, "bernoulli") if out is not None else apply(rules.bernoulli, input, values=values)


@public
def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Return a Poisson draw for each rate in a tensor."""
    check_tensor(input, "poisson")
    check_kernel(input._array.dtype, "poisson_cpu", "fV")
    return apply(rules.poisson, input, values=stream_of(generator, input).poisson(input._array))


@public
def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Any:
    """Return a binomial draw for each count and probability in two tensors."""
    check_tensor(count, "binomial", "count")
    check_tensor(prob, "binomial", "prob", 2)
    for name, given in (("count", count), ("prob", prob)):
        if not DTYPE_OF[given._array.dtype].is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {DTYPE_OF[given._array.dtype].scalar_name}"
            )
    arrays = np.broadcast_arrays(count._array, prob._array)
    return apply(rules.binomial, count, prob, values=stream_of(generator, count).binomial(*arrays))


@public
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Any:
    """Draw positions in a row (or in each row), weighted by the elements there."""
    check_tensor(input, "multinomial")
    weights = input._array
    if weights.ndim in (1, 2) and weights.dtype.kind not in "fV":
        name = DTYPE_OF[weights.dtype].scalar_name
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {name}")
    count = as_int(num_samples, "multinomial", "num_samples", 2)
    chosen = stream_of(generator, input).multinomial(weights, count, replacement)
    return into_out(out, chosen, "multinomial") if out is not None else made(chosen, "multinomial", where=input.device)


# --- methods


def _redrawn(self: Any, rule: Any, generator: Generator | None, draw: Draw) -> Any:
    """Write draws into a tensor, in memory order."""
    check_writable(self, local.modes.grad_enabled)  # before anything is drawn
    array = self._array
    values = draw(stream_of(generator, where=self.device), array.size, array.dtype)
    return apply_in_place(rule, self, values=in_memory_order(values, array))


def _check_continuous(tensor: Any, name: str) -> None:
    kind = DTYPE_OF[tensor._array.dtype]
    if not kind.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. Its dtype must be a floating point one, not "
            f"{kind.scalar_name if name == 'Exponential' else kind.name}"
        )


class RandomMethods(TensorCore):
    """Random draws as methods of a tensor."""

    __slots__ = ()

    bernoulli, multinomial = bernoulli, multinomial

    @public
    def uniform_(self, from_: float = 0, to: float = 1, *, generator: Generator | None = None, **names: Any) -> Any:
        """Redraw every element uniformly from [from, to)."""
        return _redrawn(self, rules.uniform, generator, uniform_draw(float(names.get("from", from_)), float(to)))

    @public
    def normal_(self, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Any:
        """Redraw every element from a normal distribution."""
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        check_kernel(self._array.dtype, "normal_kernel_cpu", "fcV")
        dense = self._array.flags.c_contiguous
        return _redrawn(
            self, rules.normal, generator,
            lambda stream, n, kind: stream.normal(n, float(mean), float(std), kind, contiguous=dense),
        )  # fmt: skip

    @overloaded
    def random_(self, *args: Any, generator: Generator | None = None, **names: Any) -> Any:
        """Redraw every element uniformly from the integers below `to`, from `from` to `to`, or from all."""
        given = dict(zip(("to",) if len(args) == 1 else ("from", "to"), args, strict=False)) | names
        if len(args) > 2 or not all(is_int(value) or value is None for value in given.values()):
            raise invalid_combination("random_", args, names)
        low, high = given.get("from"), given.get("to")
        check_bounded(self._array.dtype, low is None and high is None)
        if low is None and high is None:
            rule = rules.random_any
        else:
            rule = rules.random_below if low is None else rules.random_between
            low = 0 if low is None else low
        return _redrawn(self, rule, generator, integer_draw(low, high))

    @public
    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
        """Redraw every element: 1 with probability p (a number or a tensor of them), else 0."""
        array = self._array
        if array.dtype.kind == "c":
            check_writable(self, local.modes.grad_enabled)
            raise no_kernel("bernoulli_scalar_cpu_", self)
        if not isinstance(p, TensorCore):
            draw: Draw = lambda stream, n, kind: stream.bernoulli(n, float(p), kind)
            return _redrawn(self, rules.bernoulli_one, generator, draw)
        chances = p.expand_as(self)._array
        if self.is_cuda:  # whose kernel takes elements in the order of their indices
            drawn = stream_of(generator, self).bernoulli_each(chances, array.dtype)
            return apply_in_place(rules.bernoulli_each, self, values=drawn)
        order = memory_order(array)
        drawn = stream_of(generator, where=self.device).bernoulli_each(chances.transpose(order), array.dtype)
        return apply_in_place(rules.bernoulli_each, self, values=drawn.transpose(np.argsort(order)))

    @public
    def exponential_(self, lambd: float = 1, *, generator: Generator | None = None) -> Any:
        """Redraw every element from an exponential distribution."""
        _check_continuous(self, "Exponential")
        return _redrawn(
            self, rules.exponential, generator, lambda stream, n, kind: stream.exponential(n, float(lambd), kind)
        )

    @public
    def geometric_(self, p: float, *, generator: Generator | None = None) -> Any:
        """Redraw every element: the number of trials until the first success."""
        return _redrawn(self, rules.geometric, generator, lambda stream, n, kind: stream.geometric(n, float(p), kind))

    @public
    def cauchy_(self, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Any:
        """Redraw every element from a Cauchy distribution."""
        _check_continuous(self, "Cauchy")
        return _redrawn(
            self, rules.cauchy, generator, lambda stream, n, kind: stream.cauchy(n, float(median), float(sigma), kind)
        )

    @public
    def log_normal_(self, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Any:
        """Redraw every element: the exponential of a normal number."""
        return _redrawn(
            self, rules.log_normal, generator,
            lambda stream, n, kind: stream.log_normal(n, float(mean), float(std), kind),
        )  # fmt: skip
