"""Which factors the dimensions of a traced step have: found by following them through its equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.jax.layout import ELEMENTWISE
from undertow._src.compile.errors import CompileError
from undertow._src.compile.lowering.traced_sizes import Factor, Layout, Link, Sizes, Step, Value


def infer_layouts(steps: list[Step], constants: list[Value], results: list[Value], sizes: Sizes) -> None:
    """Find the layouts of all dimensions, and refuse functions without a rule."""
    links: list[tuple[Step, list[Link]]] = []
    for step in steps:
        if not step.is_fixed():
            if step.name not in _LINKS and step.name not in ELEMENTWISE:
                raise step.refusal("has no rule for a size that varies (`dynamic`)")
            links.append((step, _links(step)))
    changed = True
    while changed:
        changed = False
        for step, pairs in links:
            for a, i, b, j in pairs:
                if a.layouts[i] is None and b.layouts[j] is not None:
                    a.layouts[i], changed = b.layouts[j], True
                elif b.layouts[j] is None and a.layouts[i] is not None:
                    b.layouts[j], changed = a.layouts[i], True
            if step.name == "reshape":
                changed = _infer_reshape(step, sizes) or changed
    for step, pairs in links:
        for value in (*step.given, *step.made):
            if None in value.layouts:
                raise step.refusal("has a dimension whose size is neither one that varies nor a multiple of it")
        for a, i, b, j in pairs:
            if a.layouts[i] != b.layouts[j]:
                raise step.refusal("combines dimensions that are padded in different ways")
        if step.name == "reshape" and _flat(step.given[0]) != _flat(step.made[0]):
            raise step.refusal("mixes a dimension that varies with others")
    for value in (*constants, *results):
        if None in value.layouts:
            raise CompileError(
                "undertow.compile: the step makes or returns a tensor one of whose sizes is neither one that varies "
                "(`dynamic`) nor made of it by a view. Compile without `dynamic`, which makes a program for each size."
            )


def _links(step: Step) -> list[Link]:
    if step.name in ELEMENTWISE:
        refuse_parameters(step)
        return [
            (value, dim, made, dim)
            for made in step.made
            for value in step.given
            for dim in range(len(value.shape))
            if value.shape[dim] == made.shape[dim]  # others are of size 1
        ]  # fmt: skip
    return _LINKS[step.name](step)


def _flat(value: Value) -> Layout:
    return _joined([factor for layout in value.layouts for factor in layout or ()])


def _joined(factors: Sequence[Factor]) -> Layout:
    """Return factors in their simplest form: adjacent known factors are multiplied."""
    joined: list[Factor] = []
    for factor in factors:
        if isinstance(factor, int) and joined and isinstance(joined[-1], int):
            joined[-1] *= factor
        elif factor != 1:
            joined.append(factor)
    return tuple(joined) or (1,)


def _infer_reshape(step: Step, sizes: Sizes) -> bool:
    (before,), (after,) = step.given, step.made
    for known, other in ((before, after), (after, before)):
        if None not in known.layouts and None in other.layouts:
            layouts = _cut(_flat(known), other, sizes)
            if layouts is None:
                raise step.refusal("mixes a dimension that varies with others")
            other.layouts[:] = layouts
            return True
    return False


def _cut(factors: Layout, value: Value, sizes: Sizes) -> list[Layout] | None:
    """Return the layouts of dimensions that a row of factors makes; None if the factors don't fit."""
    waiting, layouts = [*factors], []
    for dim in range(len(value.shape)):
        wanted = (value.shapes[0][dim], value.shapes[1][dim])
        taken: list[Factor] = []
        while sizes.of(tuple(taken)) != wanted:
            have = sizes.of(tuple(taken))
            if not waiting or any(size % had for size, had in zip(wanted, have)):
                return None
            rest = (wanted[0] // have[0], wanted[1] // have[1])
            factor = waiting.pop(0)
            if isinstance(factor, int):
                part = math.gcd(factor, *rest)
                if part == 1 and factor != 1:
                    return None
                if part != factor:
                    waiting.insert(0, factor // part)
                factor = part
            taken.append(factor)
        layouts.append(_joined(taken))
    return layouts if _joined(waiting) == (1,) else None


def refuse_parameters(step: Step, *sizes: str) -> None:
    """Refuse an equation whose parameters differ, apart from some that hold sizes."""
    for name in step.small:
        if name not in sizes and not _same(step.small[name], step.large[name]):
            raise step.refusal(f"has a parameter that depends on a size that varies (`{name}`)")


def _same(a: Any, b: Any) -> bool:
    if callable(a) and callable(b) and not isinstance(a, type):
        return True  # a callback: its operands are compared
    if hasattr(a, "eqns") or hasattr(a, "jaxpr"):
        consts = zip(getattr(a, "consts", ()), getattr(b, "consts", ()))
        return str(a) == str(b) and all(np.array_equal(x, y) for x, y in consts)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a is b or a == b)


def _of_broadcast(step: Step) -> list[Link]:
    refuse_parameters(step, "shape")
    (value,), (made,) = step.given[:1], step.made
    pairs = enumerate(step.large["broadcast_dimensions"])
    return [(value, dim, made, to) for dim, to in pairs if value.shape[dim] == made.shape[to]]


def _of_transpose(step: Step) -> list[Link]:
    refuse_parameters(step)
    return [(step.given[0], dim, step.made[0], to) for to, dim in enumerate(step.large["permutation"])]


def _without(value: Value, dims: Sequence[int], made: Sequence[Value]) -> list[Link]:
    """Link the dimensions of a result to those of an operand that remain."""
    kept = [dim for dim in range(len(value.shape)) if dim not in dims]
    return [(value, dim, each, to) for each in made for to, dim in enumerate(kept)]


def _of_squeeze(step: Step) -> list[Link]:
    refuse_parameters(step)
    return _without(step.given[0], step.large["dimensions"], step.made)


def _of_reduction(step: Step) -> list[Link]:
    refuse_parameters(step)
    return [link for value in step.given for link in _without(value, step.large["axes"], step.made)]


def _all_alike(step: Step) -> list[Link]:
    refuse_parameters(step)
    return [link for value in step.given for link in _without(value, (), step.made)]


def _each_alike(step: Step) -> list[Link]:
    refuse_parameters(step)
    return [link for value, made in zip(step.given, step.made) for link in _without(value, (), [made])]


def _of_product(step: Step) -> list[Link]:
    refuse_parameters(step)
    (left, right), (made,) = step.given, step.made
    (along, of_right), batch = step.large["dimension_numbers"]
    links = [(left, i, right, j) for i, j in (*zip(along, of_right), *zip(*batch))]
    rest = [
        [(value, dim) for dim in range(len(value.shape)) if dim not in (*gone, *common)]
        for value, gone, common in ((left, along, batch[0]), (right, of_right, batch[1]))
    ]
    sources = [*[(left, dim) for dim in batch[0]], *rest[0], *rest[1]]
    return links + [(value, dim, made, to) for to, (value, dim) in enumerate(sources)]


def _of_concatenation(step: Step) -> list[Link]:
    refuse_parameters(step)
    along = step.large["dimension"]
    return [link for value in step.given for link in _without(value, (), step.made) if link[1] != along]


def _of_stack(step: Step) -> list[Link]:
    refuse_parameters(step)
    axis = step.large["axis"]
    return [(*link[:3], link[3] + (link[3] >= axis)) for value in step.given for link in _without(value, (), step.made)]


def _of_tile(step: Step) -> list[Link]:
    refuse_parameters(step)
    times = step.large["reps"]
    if any(count != 1 and step.given[0].is_padded(dim) for dim, count in enumerate(times)):
        raise step.refusal("repeats a dimension that varies (`dynamic`)")
    return [link for link in _without(step.given[0], (), step.made) if times[link[1]] == 1]


def bounds(step: Step, dim: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a slice begins and ends along a dim, in both traces."""
    return tuple([(step.small[name][dim], step.large[name][dim]) for name in ("start_indices", "limit_indices")])  # type: ignore[return-value]


def _of_slice(step: Step) -> list[Link]:
    refuse_parameters(step, "start_indices", "limit_indices", "strides")
    return [link for link in _without(step.given[0], (), step.made) if link[0].is_full(link[1], *bounds(step, link[1]))]


def _of_pad(step: Step) -> list[Link]:
    refuse_parameters(step, "padding_config")
    configs = step.pair("padding_config")
    nothing = (0, 0, 0)
    return [link for link in _without(step.given[0], (), step.made) if configs[link[1]] == (nothing, nothing)]


def _of_gather(step: Step) -> list[Link]:
    refuse_parameters(step, "slice_sizes")
    (value, indices), (made,) = step.given, step.made
    numbers = step.large["dimension_numbers"]
    batch = [dim for dim in range(len(made.shape)) if dim not in numbers.offset_dims]
    links = [(indices, dim, made, to) for dim, to in enumerate(batch)]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [dim for dim in range(len(value.shape)) if dim not in gone]
    links += [
        (value, i, indices, j) for i, j in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    ]
    whole = zip(step.pair("slice_sizes"), *value.shapes)
    is_whole = [sizes == (less, more) for sizes, less, more in whole]
    return links + [(value, dim, made, to) for dim, to in zip(kept, numbers.offset_dims) if is_whole[dim]]


def _of_scatter(step: Step) -> list[Link]:
    refuse_parameters(step, "update_jaxpr", "update_consts")
    (value, indices, updates), (made,) = step.given, step.made
    numbers = step.large["dimension_numbers"]
    links = _without(value, (), [made])
    batch = [dim for dim in range(len(updates.shape)) if dim not in numbers.update_window_dims]
    links += [(indices, dim, updates, to) for dim, to in enumerate(batch)]
    links += [
        (value, i, indices, j) for i, j in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)
    ]
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [dim for dim in range(len(value.shape)) if dim not in gone]
    return links + [
        (value, dim, updates, to)
        for dim, to in zip(kept, numbers.update_window_dims)
        if all(shape[dim] == other[to] for shape, other in zip(value.shapes, updates.shapes))
    ]


def _without_links(*sizes: str) -> Callable[[Step], list[Link]]:
    def links(step: Step) -> list[Link]:
        refuse_parameters(step, *sizes)
        return []

    return links


def _except_along(name: str, *sizes: str) -> Callable[[Step], list[Link]]:
    """Return the links of a function along one dimension, which may not be padded."""

    def links(step: Step) -> list[Link]:
        refuse_parameters(step, *sizes)
        dims = step.large[name] if name else len(step.given[0].shape) - 1
        for dim in dims if isinstance(dims, tuple) else (dims,):
            if any(value.is_padded(dim) for value in step.given):
                raise step.refusal("works along a dimension that varies (`dynamic`)")
        return [link for value in step.given for link in _without(value, (), step.made) if link[1] != dims]

    return links


FOLDS = {  # the neutral element of a sum, and so on
    "reduce_sum": "zero", "reduce_prod": "one", "reduce_max": "lowest", "reduce_min": "highest", "reduce_and": "highest",
    "reduce_or": "lowest", "argmax": "lowest", "argmin": "highest",
    "cumsum": "zero", "cumprod": "one", "cummax": "lowest", "cummin": "highest", "cumlogsumexp": "lowest",
}  # fmt: skip
_LINKS: dict[str, Callable[[Step], list[Link]]] = {
    "broadcast_in_dim": _of_broadcast, "transpose": _of_transpose, "squeeze": _of_squeeze,
    "reshape": _without_links("new_sizes"), "iota": _without_links("shape"), "dot_general": _of_product,
    "concatenate": _of_concatenation, "slice": _of_slice, "pad": _of_pad, "gather": _of_gather,
    "scatter-add": _of_scatter, "optimization_barrier": _each_alike, "stack": _of_stack, "tile": _of_tile,
    "sort": _except_along("dimension"), "split": _except_along("axis"), "rev": _all_alike, "top_k": _except_along(""),
    **{name: _of_reduction if name[0] in "ra" else _all_alike for name in FOLDS},
}  # fmt: skip
