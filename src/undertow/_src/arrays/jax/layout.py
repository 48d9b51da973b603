"""Transpositions in a traced program, moved along until they cancel.

Convolutions need their channels last while PyTorch's arrays have them first, so each is enclosed by two transpositions;
what is between two convolutions (a norm, an activation, a pooling) would be computed in channels-first order, with two
more copies. XLA leaves such transpositions where they are. `without_transposes` evaluates a program again and postpones
them: an array is kept in its memory order, with a note of which axis is which, and whatever can be computed in that
order is.

logical axis i of a `Laid` array is axis order[i] of its value
    a `Spread` array is a small one, broadcast to a shape once its order is known
    a `Product` of two matrices is computed once it is known whether it, or its transpose, is needed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Literal

from undertow._src.arrays.jax.tracing import platform_of

Order = tuple[int, ...]

ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp complex conj convert_element_type copy copy_p
    cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p
    logistic lt max min mul ne neg nextafter not or pow real reduce_precision rem round rsqrt select_n
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor
""".split()
)
REDUCTIONS = frozenset("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin".split())
PARTS = frozenset(
    "broadcast_in_dim copy copy_p dynamic_slice expand_dims gather reshape rev slice squeeze transpose".split()
)
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}


class Laid(NamedTuple):
    """An array whose axes in memory have a different order than its logical axes."""

    value: Any
    order: Order

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([self.value.shape[axis] for axis in self.order])


class Spread(NamedTuple):
    """A small array that will be broadcast to a shape, its axes becoming those named in `axes`."""

    value: Any
    shape: tuple[int, ...]
    axes: Order


class Product:
    """A product of two matrices that is yet to be computed, along an axis of each; `turned`: its transpose."""

    def __init__(self, equation: Any, matrices: tuple[Any, Any], along: tuple[int, int], turned: bool = False) -> None:
        self.equation, self.matrices, self.along, self.turned = equation, matrices, along, turned
        self.found: list[tuple[Any, bool]] = []  # the value, and whether it is the transpose; shared by both

    @property
    def shape(self) -> tuple[int, ...]:
        rows, columns = [matrix.shape[1 - axis] for matrix, axis in zip(self.matrices, self.along, strict=True)]
        return (columns, rows) if self.turned else (rows, columns)

    def transposed(self) -> Product:
        other = Product(self.equation, self.matrices, self.along, not self.turned)
        other.found = self.found
        return other

    def value(self) -> Any:
        if not self.found:
            self.found.append((self._computed(), self.turned))
        value, turned = self.found[0]
        return value if turned == self.turned else lax.transpose(value, (1, 0))

    def _computed(self) -> Any:
        (left, right), (along_left, along_right) = self.matrices, self.along
        if self.turned:
            left, right, along_left, along_right = right, left, along_right, along_left
        if along_left == 0 and platform_of(left) == "cpu" and _suits(left.shape[1], right.shape[1 - along_right]):
            left, along_left = _for_the_left(left, (1, 0)), 1
        return _bind(self.equation, [left, right], dimension_numbers=(((along_left,), (along_right,)), ((), ())))[0]


def _suits(rows: int, columns: int) -> bool:
    """Whether XLA's fast products on the CPU are faster, transposition included, for a result of this shape.

    They work on 32 columns at a time: where some are left over, a few rows do not pay (784 columns of 64 to 256 rows
    were a tenth slower in the mean of twelve sizes, one step of an MLP took 338 µs instead of 293).
    """
    return columns % 32 == 0 or columns < 128 or rows > 256


def _for_the_left(value: Any, order: Order) -> Any:
    """Return the left side of a product, transposed: XLA's fast products on the CPU read it by rows.

    The barrier keeps XLA from multiplying the transposed matrix after all.
    """
    return lax.optimization_barrier(lax.transpose(value, order))


def without_transposes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, for tracing: its transpositions are moved along until they cancel."""

    def evaluated(*args: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        results = evaluate(closed.jaxpr, closed.consts, *jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return evaluated


def evaluate(jaxpr: Any, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Return the results of a program, as `jax.core.eval_jaxpr` has them."""
    return [_plain(result) for result in _evaluate(jaxpr, consts, args)]


def _evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return the results of a program, each plain, Laid or Spread as it came."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    of_parts = _differences_of_parts(jaxpr)
    for equation in jaxpr.eqns:
        given = [read(atom) for atom in equation.invars]
        name = equation.primitive.name
        if name in CALLS:
            inner = equation.params[CALLS[name]]
            made = _evaluate(inner.jaxpr, inner.consts, given)
        else:
            made = _apply(name, equation, given)
        if id(equation) in of_parts:
            made = [_with_zeros(*map(_plain, (*made, *given)))]
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _differences_of_parts(jaxpr: Any) -> set[int]:
    """Return the ids of the subtractions of one part of an array from another: `e[:, None] - e[None]`."""
    origins: dict[Any, Any] = {}
    found = set[int]()
    for equation in jaxpr.eqns:
        given = [origins.get(atom, atom) for atom in equation.invars if not isinstance(atom, Literal)]
        if equation.primitive.name in PARTS and given:
            origins[equation.outvars[0]] = given[0]
        elif equation.primitive.name == "sub" and len(given) == 2 and given[0] is given[1]:
            # Of the same size: a norm subtracts one of its elements from a whole image, whose transpositions cancel.
            if equation.outvars[0].aval.size != given[0].aval.size and jnp.issubdtype(
                given[0].aval.dtype, jnp.floating
            ):
                found.add(id(equation))
    return found


def _with_zeros(difference: Any, left: Any, right: Any) -> Any:
    """Return a difference that is 0 where both sides are equal (NaN for infinities).

    XLA computes `a * b - c` with one rounding, so that of two equal products would be the rounding error of one of them.
    """
    return jnp.where(left == right, jnp.abs(right) * 0, difference)


def _apply(name: str, equation: Any, given: list[Any]) -> list[Any]:
    params = equation.params
    if name == "transpose" and isinstance(given[0], Product):
        return [given[0].transposed() if params["permutation"] == (1, 0) else given[0]]
    if name == "dot_general" and _is_product(equation):
        return [_product(equation, given)]
    given = [array.value() if isinstance(array, Product) else array for array in given]
    if name == "transpose" and not isinstance(given[0], Spread):
        order = _order_of(given[0])
        return [_laid(_stored(given[0]), tuple([order[axis] for axis in params["permutation"]]))]
    if name == "broadcast_in_dim" and len(given) == 1:
        return [_broadcast(given[0], params["shape"], params["broadcast_dimensions"])]
    if any(isinstance(array, (Laid, Spread)) for array in given):
        if name in ELEMENTWISE:
            return [_elementwise(equation, given)]
        if isinstance(given[0], Spread) and name in HANDLERS:
            order = _own_order(given[0])
            given = [_laid(_in_order(given[0], order), order), *given[1:]]
        if isinstance(given[0], Laid):
            if name == "dot_general" and platform_of(given[0].value) == "cpu":
                return _bind(equation, [_for_the_left(*given[0]), _plain(given[1])])
            handler = HANDLERS.get(name)
            made = None if handler is None else handler(equation, given)
            if made is not None:
                return [made]
    return _bind(equation, [_plain(array) for array in given])


def _bind(equation: Any, given: list[Any], **changed: Any) -> list[Any]:
    params = equation.primitive.get_bind_params({**equation.params, **changed})
    made = equation.primitive.bind(*given, **params)
    return list(made) if equation.primitive.multiple_results else [made]


# --- arrays and their orders


def _identity(ndim: int) -> Order:
    return tuple(range(ndim))


def _laid(value: Any, order: Order) -> Any:
    return value if order == _identity(len(order)) else Laid(value, order)


def _order_of(array: Any) -> Order:
    return array.order if isinstance(array, Laid) else _identity(array.ndim)


def _stored(array: Any) -> Any:
    return array.value if isinstance(array, Laid) else array


def _plain(array: Any) -> Any:
    """Return the array in its logical order of axes."""
    if isinstance(array, Product):
        return array.value()
    if isinstance(array, Laid):
        return lax.transpose(array.value, array.order)
    return _in_order(array, _identity(len(array.shape))) if isinstance(array, Spread) else array


def _inverse(order: Order) -> Order:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _in_order(array: Any, order: Order) -> Any:
    """Return the array's value with logical axis i at order[i]."""
    if isinstance(array, Spread):
        axes = [order[axis] for axis in array.axes]
        places = sorted(range(len(axes)), key=axes.__getitem__)
        small = lax.transpose(array.value, places) if len(places) > 1 else array.value
        shape = tuple([array.shape[axis] for axis in _inverse(order)])
        return lax.broadcast_in_dim(small, shape, sorted(axes))
    if isinstance(array, Laid) and array.order == order:
        return array.value
    plain = _plain(array)
    return plain if order == _identity(len(order)) else lax.transpose(plain, _inverse(order))


def _broadcast(array: Any, shape: tuple[int, ...], axes: Order) -> Spread:
    if isinstance(array, Spread):
        array = _plain(array)
    if isinstance(array, Laid):
        return Spread(array.value, shape, tuple([axes[axis] for axis in _inverse(array.order)]))
    return Spread(jnp.asarray(array), shape, tuple(axes))


def _own_order(array: Spread) -> Order:
    """Return the order in which a broadcast array needs no transposition: new axes follow their logical predecessors."""
    lying = list(array.axes)
    for axis in range(len(array.shape)):
        if axis not in array.axes:
            lying.insert(lying.index(axis - 1) + 1 if axis else 0, axis)
    return _inverse(tuple(lying))


# --- what can be computed in any order


def _elementwise(equation: Any, given: list[Any]) -> Any:
    spread = [array for array in given if isinstance(array, Spread)]
    if spread and all(isinstance(array, Spread) or not _has_axes(array) for array in given):
        if len({(each.shape, each.axes, each.value.shape) for each in spread}) == 1:
            values = [array.value if isinstance(array, Spread) else array for array in given]
            return Spread(_bind(equation, values)[0], spread[0].shape, spread[0].axes)
    order = _wanted_order(given)
    values = [_in_order(array, order) if _has_axes(array) else array for array in given]
    return _laid(_bind(equation, values)[0], order)


def _wanted_order(given: list[Any]) -> Order:
    """Return the order of axes to compute in.

    It is that of a whole array which is not in plain order; else, without whole ones, that of the largest small one. A
    matrix is mostly a weight's gradient, needed in the weight's own, plain order.
    """
    whole = [array for array in given if _has_axes(array) and not isinstance(array, Spread)]
    laid = [array for array in whole if isinstance(array, Laid)]
    spread = [array for array in given if isinstance(array, Spread)]
    ndim = len((whole or spread)[0].shape)
    if ndim <= 2 or (whole and not laid):
        return _identity(ndim)
    return laid[0].order if laid else _own_order(max(spread, key=lambda array: array.value.size))


def _has_axes(array: Any) -> bool:
    return bool(array.shape if isinstance(array, (Laid, Spread)) else jnp.shape(array))


def _is_product(equation: Any) -> bool:
    """Whether an equation multiplies two matrices."""
    (left, right), batch = equation.params["dimension_numbers"]
    return [atom.aval.ndim for atom in equation.invars] == [2, 2] and len(left) == len(right) == 1 and batch == ((), ())


def _product(equation: Any, given: list[Any]) -> Product:
    (left, right), _ = equation.params["dimension_numbers"]
    matrices, along = [], []
    for array, axis in zip(given, (left[0], right[0]), strict=True):
        laid = isinstance(array, Laid)  # a transposed matrix is multiplied along its other axis
        matrices.append(array.value if laid else _plain(array))
        along.append(array.order[axis] if laid else axis)
    return Product(equation, (matrices[0], matrices[1]), (along[0], along[1]))


def _reduce(equation: Any, given: list[Any]) -> Any:
    array = given[0]
    axes = equation.params["axes"]
    made = _bind(equation, [array.value], axes=tuple(sorted([array.order[axis] for axis in axes])))[0]
    left = [place for axis, place in enumerate(array.order) if axis not in axes]
    return _laid(made, tuple([sorted(left).index(place) for place in left]))


def _slice(equation: Any, given: list[Any]) -> Any:
    array = given[0]
    lying = _inverse(array.order)
    changed = {
        name: None if equation.params[name] is None else tuple([equation.params[name][axis] for axis in lying])
        for name in ("start_indices", "limit_indices", "strides")
    }
    return Laid(_bind(equation, [array.value], **changed)[0], array.order)


def _pad(equation: Any, given: list[Any]) -> Any:
    array, value = given
    config = tuple([equation.params["padding_config"][axis] for axis in _inverse(array.order)])
    return Laid(_bind(equation, [array.value, _plain(value)], padding_config=config)[0], array.order)


def _reverse(equation: Any, given: list[Any]) -> Any:
    array = given[0]
    axes = tuple([array.order[axis] for axis in equation.params["dimensions"]])
    return Laid(_bind(equation, [array.value], dimensions=axes)[0], array.order)


def _concatenate(equation: Any, given: list[Any]) -> Any:
    order = given[0].order
    values = [_in_order(array, order) for array in given]
    return Laid(_bind(equation, values, dimension=order[equation.params["dimension"]])[0], order)


def _reshape(equation: Any, given: list[Any]) -> Any:
    """Split or merge axes, as far as those to merge are adjacent in memory."""
    array, shape = given[0], equation.params["new_sizes"]
    groups = _groups(array.shape, shape)
    lying: list[tuple[int, list[int]]] = []  # (the group's first axis in memory, the axes it becomes)
    for before, after in groups:
        places = [array.order[axis] for axis in before]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        lying.append((places[0], after))
    axes = [axis for _, after in sorted(lying) for axis in after]
    value = lax.reshape(array.value, tuple([shape[axis] for axis in axes]))
    return _laid(value, _inverse(tuple(axes)))


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of old axes and the new axes that hold the same elements; every group has an old axis."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old):
        before, after = [i], []
        have, want = old[i], 1
        i += 1
        while have != want or (i < len(old) and j == len(new)):
            if have < want or j == len(new):
                have *= old[i]
                before.append(i)
                i += 1
            else:
                want *= new[j]
                after.append(j)
                j += 1
        groups.append((before, after))
    if j < len(new):  # axes of length 1 at the end
        groups[-1][1].extend(range(j, len(new)))
    return groups


def _squeeze(equation: Any, given: list[Any]) -> Any:
    array, gone = given[0], equation.params["dimensions"]
    value = lax.squeeze(array.value, tuple([array.order[axis] for axis in gone]))
    left = [place for axis, place in enumerate(array.order) if axis not in gone]
    return _laid(value, tuple([sorted(left).index(place) for place in left]))


HANDLERS: dict[str, Callable[[Any, list[Any]], Any]] = {
    **dict.fromkeys(REDUCTIONS, _reduce), "slice": _slice, "pad": _pad, "rev": _reverse, "concatenate": _concatenate,
    "reshape": _reshape, "squeeze": _squeeze,
}  # fmt: skip
