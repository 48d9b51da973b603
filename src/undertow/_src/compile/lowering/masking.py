"""A step that was traced at two sizes of its padded arguments, as one program for every size up to the larger one.

The two traces are compared equation by equation. What differs between them depends on the size: dimensions, and numbers
such as the count of a mean. Everything else must be the same, or the step is refused. The program is the larger trace.
Elements beyond the true size have arbitrary values, and stay as long as functions work on each element alone. Before a
function combines elements along such a dimension, they are replaced by a value that does not change its result. A function
without a rule is refused.

A dimension is made of factors: [batch, time] that is viewed as [batch * time] has the factors (batch, time), and its
padding lies between the elements that count.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from undertow._src.arrays.jax.layout import CALLS
from undertow._src.compile.errors import CompileError
from undertow._src.compile.lowering.dimension_layouts import FOLDS, bounds, infer_layouts, refuse_parameters
from undertow._src.compile.lowering.traced_sizes import Layout, Length, Sizes, Step, Value, line_and_function


def masked(
    traces: tuple[Any, Any], sizes: Sizes, places: Sequence[int], source: Callable[[Any], Any]
) -> tuple[Any, list[list[Layout]]]:
    """Return the program for all sizes, as a closed jaxpr, and the layouts of its results.

    `places` are the indices of the true sizes in the first input, the numbers; `source` returns where calls find
    a constant that is an input.
    """
    small, large = traces
    given = _values(small.jaxpr.invars, large.jaxpr.invars, sizes)
    constants = [
        Value(less, more, sizes, None if source(more) is not None else (less, more))
        for less, more in zip(small.consts, large.consts, strict=True)
    ] if len(small.consts) == len(large.consts) else _refuse_structure()  # fmt: skip
    for value, const in zip(constants, large.consts):
        if isinstance(source(const), tuple) and not value.is_fixed:
            raise CompileError(
                "undertow.compile: the step draws random numbers, and how many depends on a size that varies "
                "(`dynamic`). Draw them outside of the step and pass them as an argument that varies too, or compile "
                "without `dynamic`."
            )
    steps: list[Step] = []
    results = _flatten((small.jaxpr, large.jaxpr), given, constants, sizes, steps)
    infer_layouts(steps, constants, results, sizes)

    def program(*inputs: Any) -> list[Any]:
        numbers = inputs[0]
        true = [numbers[place].astype(np.int64) for place in places]
        evaluation = _Evaluation(sizes, true)
        evaluation.held.update(zip(given, inputs))
        evaluation.held.update(
            (value, evaluation.constant(value, array)) for value, array in zip(constants, inputs[len(given) :])
        )
        for step in steps:
            evaluation.run(step)
        return [evaluation.read(each) for each in results]

    specs = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in (*given, *constants)]
    closed = jax.make_jaxpr(program)(*specs)
    variables = closed.jaxpr.invars
    jaxpr = closed.jaxpr.replace(
        constvars=[*closed.jaxpr.constvars, *variables[len(given) :]], invars=variables[: len(given)]
    )
    layouts = [[layout for layout in value.layouts if layout is not None] for value in results]
    return ClosedJaxpr(jaxpr, [*closed.consts, *large.consts]), layouts


def _values(small: Sequence[Any], large: Sequence[Any], sizes: Sizes) -> list[Value]:
    if len(small) != len(large) or any(a.aval.ndim != b.aval.ndim for a, b in zip(small, large)):
        _refuse_structure()
    return [Value(less.aval, more.aval, sizes) for less, more in zip(small, large)]


def _refuse_structure(line: str = "") -> Any:
    raise CompileError(
        f"undertow.compile: {line and f'at {line}, '}the step computes something else for a different size of its "
        "arguments (`dynamic`): it loops over the dimension that varies, splits it, or its bucket is larger than what it "
        "can take. Name the buckets (`dynamic={'x': {1: (16, 50)}}`), or compile without `dynamic`, which makes a program "
        "for each size."
    )


def _flatten(
    jaxprs: tuple[Any, Any], given: Sequence[Value], constants: Sequence[Value], sizes: Sizes, steps: list[Step]
) -> list[Value]:
    """Add the equations of two programs, those of inner ones too, to a list; return the results."""
    held = [dict(zip((*each.invars, *each.constvars), (*given, *constants), strict=True)) for each in jaxprs]

    def read(small: Any, large: Any, equation: Any = None) -> Value:
        if isinstance(small, Literal) and isinstance(large, Literal):
            return Value(small.aval, large.aval, sizes, (small.val, large.val))
        found = [None if isinstance(atom, Literal) else of[atom] for atom, of in zip((small, large), held)]
        if found[0] is None or found[1] is None or not found[0].stands_for(found[1]):
            _refuse_structure("" if equation is None else line_and_function(equation)[0])
        return found[0]  # type: ignore[return-value]

    waiting = deque(jaxprs[1].eqns)
    for small in jaxprs[0].eqns:
        if small.primitive.name in _ELIDED and not _meets(small, waiting, held):
            step = _elided(small, [held[0][small.invars[0]]], sizes)
            held[0][small.outvars[0]] = step.made[0]
            steps.append(step)
            continue
        large = waiting.popleft() if waiting else _refuse_structure(line_and_function(small)[0])
        if small.primitive is not large.primitive or len(small.invars) != len(large.invars):
            _refuse_structure(line_and_function(large)[0])
        operands = [read(*atoms, large) for atoms in zip(small.invars, large.invars)]
        name = small.primitive.name
        if name in CALLS:
            inner = [equation.params[CALLS[name]] for equation in (small, large)]
            consts = [Value(*both, sizes, both) for both in zip(inner[0].consts, inner[1].consts, strict=True)]
            made = _flatten((inner[0].jaxpr, inner[1].jaxpr), operands, consts, sizes, steps)
        else:
            made = _values(small.outvars, large.outvars, sizes)
            steps.append(Step((small, large), operands, made))
        for of, equation in zip(held, (small, large)):
            of.update(zip(equation.outvars, made, strict=True))
    if waiting:
        _refuse_structure(line_and_function(waiting[0])[0])
    return [read(*atoms) for atoms in zip(jaxprs[0].outvars, jaxprs[1].outvars, strict=True)]


_ELIDED = ("slice", "pad")  # JAX leaves these out if they would take all or add nothing, as `table[:n]` of n rows


def _meets(small: Any, waiting: deque[Any], held: list[dict[Any, Value]]) -> bool:
    """Return whether the next equation of the larger trace is the same, on the same value."""
    if not waiting or waiting[0].primitive is not small.primitive:
        return False
    if small.params.get("strides") != waiting[0].params.get("strides"):
        return False  # it is left out only if it has no strides
    atoms = small.invars[0], waiting[0].invars[0]
    if any(isinstance(atom, Literal) for atom in atoms):
        return True
    return held[0][atoms[0]].stands_for(held[1][atoms[1]])


def _elided(small: Any, given: list[Value], sizes: Sizes) -> Step:
    """Return an equation that the larger trace lacks, because there it takes all of a value, or adds nothing to it."""
    value = given[0]
    if small.primitive.name == "slice":
        whole: dict[str, Any] = {
            "start_indices": (0,) * len(value.shape),
            "limit_indices": value.shape,
            "strides": None,
        }
    else:
        fill = small.invars[1]
        if not isinstance(fill, Literal):
            _refuse_structure(line_and_function(small)[0])
        given = [value, Value(fill.aval, fill.aval, sizes, (fill.val, fill.val))]
        whole = {"padding_config": ((0, 0, 0),) * len(value.shape)}
    made = Value(small.outvars[0].aval, jax.ShapeDtypeStruct(value.shape, value.dtype), sizes)
    made.whole = value
    return Step((small, small.replace(params=small.params | whole)), given, [made])


class _Evaluation:
    """The values of the program while it is traced."""

    def __init__(self, sizes: Sizes, true: list[Any]) -> None:
        self.sizes, self.true = sizes, true
        self.held: dict[Value, Any] = {}
        self._valid: dict[Layout, Any] = {}

    def read(self, value: Value) -> Any:
        if value not in self.held:
            assert value.known is not None
            self.held[value] = self.constant(value, value.known[1])
        return self.held[value]

    def run(self, step: Step) -> None:
        """Compute the results of an equation."""
        if step.is_fixed():
            refuse_parameters(step)
            given = [self.read(value) for value in step.given]
        else:
            rule = _RULES.get(step.name, _Evaluation._masked_fold if step.name in FOLDS else None)
            given = [self.read(value) for value in step.given]
            if rule is not None:
                given = rule(self, step, given)
                if not isinstance(given, list):
                    self.held[step.made[0]] = given
                    return
        made = step.primitive.bind(*given, **step.equation.params)
        self.held.update(zip(step.made, made if step.primitive.multiple_results else [made]))

    # --- constants

    def constant(self, value: Value, array: Any) -> Any:
        """Return a constant: the elements of the larger trace, or a function of the sizes that fits both traces."""
        if value.known is None:
            return array
        small, large = [np.asarray(each) for each in value.known]
        if value.is_fixed:
            if np.array_equal(small, large, equal_nan=large.dtype.kind in "fc"):
                return array
            if large.size == 1:
                return self._number(small.reshape(()), large.reshape(()), value)
        elif np.array_equal(self._beginning(value, large), small, equal_nan=large.dtype.kind in "fc"):
            return array
        else:
            along = [dim for dim, size in enumerate(value.shape) if size > 1]
            if len(along) == 1 and all(np.array_equal(each.ravel(), np.arange(each.size)) for each in (small, large)):
                return self.places_along(value.layouts[along[0]]).astype(value.dtype).reshape(value.shape)
        raise CompileError(
            f"undertow.compile: the step makes a tensor of shape {list(value.shape)} from numbers, and they depend on a "
            "size that varies (`dynamic`) in a way that is not known. Compute it outside and pass it as an argument "
            "that varies too, or compile without `dynamic`."
        )

    def _beginning(self, value: Value, array: Any) -> Any:
        """Return the elements of a constant that the smaller trace also has."""
        factors = [factor for layout in value.layouts for factor in layout or ()]
        whole = array.reshape([self.sizes.at(factor, self.sizes.larger) for factor in factors])
        part = whole[tuple([slice(self.sizes.at(factor, self.sizes.smaller)) for factor in factors])]
        return part.reshape(value.shapes[0])

    def _number(self, small: Any, large: Any, value: Value) -> Any:
        """Return a number that depends on the sizes: a count of elements, or one or two divided by it."""
        found: list[tuple[_Count, int]] = []
        for over in (0, 1, 2) if large.dtype.kind == "f" else (0,):
            counts = [_count(each, over) for each in (small, large)]
            if None not in counts:
                found += [(each, over) for each in _counts(counts, self.sizes)]
        if found and _agree(found, self.sizes):
            count, over = found[0]
            number = count.at(self.true)
            number = over / number.astype(np.float64) if over else number
            return number.astype(value.dtype).reshape(value.shape)
        length = self.sizes.length(int(small), int(large)) if large.dtype.kind in "iu" else None
        if length is not None:
            return self.sizes.at(length, self.true).astype(value.dtype).reshape(value.shape)
        raise CompileError(
            f"undertow.compile: a number in the step depends on a size that varies (`dynamic`) in a way that is not known: "
            f"it is {small} for size {self.sizes.smaller[0]} and {large} for size {self.sizes.larger[0]}. Compute it from "
            "x.shape in the step's own code, or compile without `dynamic`."
        )

    # --- padding

    def valid(self, layout: Layout) -> Any:
        """Return for each place along a dimension whether it is an element and not padding."""
        if layout not in self._valid:
            shape = [self.sizes.at(factor, self.sizes.larger) for factor in layout]
            valid = jnp.ones(shape, bool)
            for axis, factor in enumerate(layout):
                if not isinstance(factor, int):
                    valid &= lax.broadcasted_iota(np.int64, shape, axis) < self.sizes.at(factor, self.true)
            self._valid[layout] = valid.reshape(-1)
        return self._valid[layout]

    def filled(self, value: Value, array: Any, dims: Sequence[int], fill: Any) -> Any:
        """Replace the padding along some dimensions."""
        for dim in dims:
            if value.is_padded(dim):
                valid = self.valid(value.layouts[dim] or ())
                beside = valid.reshape([-1 if each == dim else 1 for each in range(array.ndim)])
                array = jnp.where(beside, array, jnp.asarray(fill, array.dtype))
        return array

    def places_along(self, layout: Layout | None) -> Any:
        """Return for each place along a padded dimension its index without padding."""
        assert layout is not None
        shape = [self.sizes.at(factor, self.sizes.larger) for factor in layout]
        places: Any = jnp.zeros(shape, np.int64)
        for axis, factor in enumerate(layout):
            places = places * self.sizes.at(factor, self.true) + lax.broadcasted_iota(np.int64, shape, axis)
        return places.reshape(-1)

    def in_padded(self, places: Any, layout: Layout) -> Any:
        """Return the padded indices of places along a dimension without padding."""
        rest, unit = places.astype(np.int64), 1
        found: Any = 0
        for factor in reversed(layout):
            size = self.sizes.at(factor, self.true)
            found, rest = found + rest % size * unit, rest // size
            unit *= self.sizes.at(factor, self.sizes.larger)
        return found.astype(places.dtype)

    def _masked_fold(self, step: Step, given: list[Any]) -> list[Any]:
        kind, array = FOLDS[step.name], given[0]
        dims = step.large["axes"] if "axes" in step.large else (step.large["axis"],)
        if step.name.startswith("arg") and any(len(step.given[0].layouts[dim] or ()) > 1 for dim in dims):
            raise step.refusal("looks for a place along a dimension that varies, viewed together with another")
        if kind in ("zero", "one"):
            fill: Any = 0 if kind == "zero" else 1
        elif array.dtype == bool:
            fill = kind == "highest"
        elif step.name in ("reduce_and", "reduce_or"):
            raise step.refusal("works along a dimension that varies (`dynamic`)")
        elif np.issubdtype(array.dtype, np.integer):
            fill = getattr(jnp.iinfo(array.dtype), "max" if kind == "highest" else "min")
        else:
            fill = np.inf if kind == "highest" else -np.inf
        return [self.filled(step.given[0], array, dims, fill)]

    def _product(self, step: Step, given: list[Any]) -> list[Any]:
        along = step.large["dimension_numbers"][0]
        return [self.filled(value, array, dims, 0) for value, array, dims in zip(step.given, given, along)]

    def _iota(self, step: Step, given: list[Any]) -> Any:
        made, dim = step.made[0], step.large["dimension"]
        if not made.is_padded(dim):
            return given
        places = self.places_along(made.layouts[dim]).astype(made.dtype)
        return lax.broadcast_in_dim(places, made.shape, (dim,))

    def _reversed(self, step: Step, given: list[Any]) -> Any:
        (value,), (array,) = step.given, given
        for dim in step.large["dimensions"]:
            length = (value.layouts[dim] or (0,))[0]
            if len(value.layouts[dim] or ()) > 1:
                raise step.refusal("reverses a dimension that varies, viewed together with another")
            places = self.sizes.at(length, self.true) - 1 - jnp.arange(array.shape[dim])
            array = jnp.take(array, jnp.maximum(places, 0), axis=dim)
        return array

    def _concatenation(self, step: Step, given: list[Any]) -> list[Any]:
        along = step.large["dimension"]
        if any(value.is_padded(along) for value in step.given[:-1]):
            raise step.refusal("puts something after a dimension that varies (`dynamic`)")
        return given

    def _slice(self, step: Step, given: list[Any]) -> Any:
        (value,), (made,), array = step.given, step.made, given[0]
        for dim in range(len(value.shape)):
            start, stop = bounds(step, dim)
            stride = 1 if step.large["strides"] is None else step.large["strides"][dim]
            if value.is_full(dim, start, stop) and stride == 1:
                continue
            if not value.is_padded(dim) and not made.is_padded(dim) and start[0] == start[1]:
                array = lax.slice_in_dim(array, start[1], stop[1], stride, axis=dim)
                continue
            layout = value.layouts[dim] or ()
            if (
                stride != 1
                or len(layout) > 1
                or ((step.small["strides"] or step.large["strides"]) is None and stride != 1)
            ):
                raise step.refusal("takes a part along a dimension that varies")
            array = self._part(step, array, dim, start, stop)
        return array

    def _part(self, step: Step, array: Any, dim: int, start: tuple[int, int], stop: tuple[int, int]) -> Any:
        """Return a part along a dimension, if the dimension or the part is padded."""
        value, made, size = step.given[0], step.made[0], step.made[0].shape[dim]
        length = (value.layouts[dim] or (0,))[0]
        if start[0] == start[1]:
            if stop[0] == stop[1] and isinstance(length, Length):
                self.sizes.at_least(length, stop[1])
            elif stop[0] != stop[1] and self.sizes.length(*stop) is None:
                raise step.refusal("takes a part that ends at a place that is not known")
            elif isinstance(length, Length) and stop[0] != stop[1] and made.layouts[dim] is not None:
                self._refuse_past_end(step, length, stop)
            return lax.slice_in_dim(array, start[1], stop[1], axis=dim)
        first = self.sizes.length(*start)
        if first is None or made.is_padded(dim) or not isinstance(length, Length) or first.symbol != length.symbol:
            raise step.refusal("takes a part that begins at a place that is not known")
        self.sizes.at_least(first, 0)
        return lax.dynamic_slice_in_dim(array, self.sizes.at(first, self.true), size, axis=dim)

    def _refuse_past_end(self, step: Step, length: Length, stop: tuple[int, int]) -> None:
        end = self.sizes.length(*stop)
        if end is None or end.symbol != length.symbol or end.offset > length.offset:
            raise step.refusal("takes a part of one length that varies by another")

    def _pad(self, step: Step, given: list[Any]) -> Any:
        value, made = step.given[0], step.made[0]
        array, fill = given
        for dim, (less, more) in enumerate(step.pair("padding_config")):
            if less == more == (0, 0, 0):
                continue
            low, _, inner = zip(less, more)
            single = all(len(each.layouts[dim] or ()) == 1 for each in (value, made))
            if not single or inner != (0, 0):
                raise step.refusal("pads a dimension that varies")
            if low[0] == low[1]:
                array = self._filled_by(value, array, dim, fill)
                end = made.shape[dim] - low[1] - array.shape[dim]
                config = [(low[1], end, 0) if each == dim else (0, 0, 0) for each in range(array.ndim)]
                array = lax.pad(array, fill, config)
                continue
            first = self.sizes.length(*low)
            if first is None or value.is_padded(dim):
                raise step.refusal("pads a dimension that varies")
            shape = [made.shape[dim] if each == dim else n for each, n in enumerate(array.shape)]
            whole = jnp.broadcast_to(fill, shape)
            array = lax.dynamic_update_slice_in_dim(whole, array, self.sizes.at(first, self.true), dim)
        return array

    def _filled_by(self, value: Value, array: Any, dim: int, fill: Any) -> Any:
        if not value.is_padded(dim):
            return array
        beside = self.valid(value.layouts[dim] or ()).reshape([-1 if each == dim else 1 for each in range(array.ndim)])
        return jnp.where(beside, array, fill)

    def _gather(self, step: Step, given: list[Any]) -> Any:
        numbers = step.large["dimension_numbers"]
        array, indices = given
        indices = self._indices(step, indices, numbers.start_index_map, [more for _, more in step.pair("slice_sizes")])
        return [array, indices]

    def _indices(self, step: Step, indices: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
        """Return indices into a padded array, given those into the array without padding."""
        value = step.given[0]
        if not any(value.is_padded(dim) for dim in dims):
            return indices
        mode = step.large["mode"]
        parts = []
        for place, dim in enumerate(dims):
            part = indices[..., place]
            if value.is_padded(dim):
                if mode != lax.GatherScatterMode.PROMISE_IN_BOUNDS or sizes[dim] != 1:
                    raise step.refusal("indexes a dimension that varies (`dynamic`)")
                part = self.in_padded(part, value.layouts[dim] or ())
            parts.append(part)
        return jnp.stack(parts, -1)

    def _scatter_add(self, step: Step, given: list[Any]) -> list[Any]:
        array, indices, updates = given
        numbers = step.large["dimension_numbers"]
        dims = range(len(step.given[1].shape) - 1)
        batch = [dim for dim in range(updates.ndim) if dim not in numbers.update_window_dims]
        sizes = [1 if dim in numbers.inserted_window_dims else 0 for dim in range(array.ndim)]
        indices = self._indices(step, indices, numbers.scatter_dims_to_operand_dims, sizes)
        # What is beyond the true size adds zero to the first element.
        return [array, self.filled(step.given[1], indices, dims, 0), self.filled(step.given[2], updates, batch, 0)]


class _Count(NamedTuple):
    """A count of elements: a number of times a product of sizes, each with a difference, and another difference."""

    times: int
    factors: tuple[Length, ...]
    offset: int

    def at(self, sizes: Sequence[Any]) -> Any:
        return self.times * math.prod([sizes[each.symbol] + each.offset for each in self.factors]) + self.offset


def _count(number: Any, over: int) -> int | None:
    """Return the count that a number equals, or by which one or two are divided."""
    exact = float(number)
    if not math.isfinite(exact) or (over and not exact):
        return None
    count = round(over / exact if over else exact)
    fits = count and np.asarray(over / count).astype(number.dtype) == number if over else count == exact
    return count if fits else None


def _counts(counts: list[Any], sizes: Sizes) -> list[_Count]:
    """Return the counts that have two values in the two traces."""
    lengths = [Length(symbol, offset) for symbol in range(len(sizes.larger)) for offset in (0, -1, 1, -2, 2)]
    plain = [length for length in lengths if not length.offset]
    products = [*[(each,) for each in lengths], *itertools.combinations_with_replacement(lengths, 2)]
    products += itertools.combinations_with_replacement(plain, 3)
    found = []
    for product in products:
        for offset in (0,) if any(each.offset for each in product) else (0, -1, 1):
            unit = _Count(1, product, 0)
            times, rest = divmod(counts[1] - offset, unit.at(sizes.larger))
            count = _Count(times, product, offset)
            if not rest and times > 0 and count.at(sizes.smaller) == counts[0]:
                found.append(count)
    return found


def _agree(found: list[tuple[_Count, int]], sizes: Sizes) -> bool:
    """Return whether numbers are the same for all sizes: counts, or something divided by them."""

    def at(count: _Count, over: int, sample: list[int]) -> Fraction:
        number = count.at(sample)
        return Fraction(over, number or 1) if over else Fraction(number)

    samples = [[max(3, size - less) for size in sizes.larger] for less in range(max(sizes.larger))]
    samples += [[max(3, size - less * (place + 1)) for place, size in enumerate(sizes.larger)] for less in range(7)]
    return all(at(*each, sample) == at(*found[0], sample) for each in found[1:] for sample in samples)


_RULES: dict[str, Callable[[_Evaluation, Step, list[Any]], Any]] = {
    "dot_general": _Evaluation._product, "iota": _Evaluation._iota, "rev": _Evaluation._reversed,
    "concatenate": _Evaluation._concatenation,
    "slice": _Evaluation._slice, "pad": _Evaluation._pad, "gather": _Evaluation._gather,
    "scatter-add": _Evaluation._scatter_add,
}  # fmt: skip
