"""`vmap`: make a function of one example a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow.func import _rules_elementwise, _rules_layers, _rules_shape  # noqa: F401  (they register themselves)
from undertow.func._rules_random import random
from undertow.func._vmapping import LevelMode, MappedLevel, check_randomness, open_levels, transforming
from undertow.utils import _pytree as pytree


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Map func over a dim of its arguments; func gets tensors without that dim.

    in_dims: the mapped dim of each argument, nested like the arguments (None: shared by all examples); keyword arguments
    are shared. out_dims: the position of the dim in the results. randomness: what random functions do inside ("error",
    "same" for all examples, or "different"). chunk_size: the number of examples to compute at a time.

    >>> torch.vmap(torch.dot)(torch.ones(3, 4), torch.ones(3, 4))
    tensor([4., 4., 4.])
    """
    check_randomness(randomness)
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not all(place is None or isinstance(place, int) for place in pytree.tree_leaves(out_dims)):
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or nested "
                "ints: the position of the mapped dimension in each output."
            )
        dims, leaves, spec = _flat_inputs(in_dims, args, func)
        size = _size_of(dims, leaves)
        if chunk_size is None or chunk_size >= size:
            return _run(func, dims, leaves, spec, kwargs, size, out_dims, randomness)
        return _in_chunks(func, dims, leaves, spec, kwargs, size, out_dims, randomness, chunk_size)

    return mapped


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _flat_inputs(in_dims: Any, args: tuple[Any, ...], func: Any) -> tuple[list[Any], list[Any], pytree.TreeSpec]:
    """Return the leaves of the arguments and the dim to map of each."""
    name = _name(func)
    called = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a tuple, nested as the inputs are, not {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. There is nothing to map over: call the "
            "function without vmap, or give it a tensor."
        )
    leaves, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{called}: in_dims is not compatible with the structure of `inputs`: "
            f"{pytree.tree_structure(in_dims)} against {spec}."
        )
    for place, (value, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{called}: Got in_dim={dim} for an input, and that is neither an integer nor None.")
        if not isinstance(value, TensorCore):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but the input is of type {type(value)}. Only tensors can be "
                "mapped over: its in_dim must be None"
            )
        rank = value.dim()
        if not -rank <= dim < rank:
            raise ValueError(
                f"{called}: Got in_dim={dim} for some input, which has {rank} dims: "
                f"it must be at least -{rank} and less than {rank}."
            )
        dims[place] = dim % rank
    return dims, leaves, spec


def _size_of(dims: list[Any], leaves: list[Any]) -> int:
    sizes = [value.shape[dim] for value, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension; the sizes are {sizes} in that "
            "dimension"
        )
    return sizes[0]


def _run(
    func: Any, dims: list[Any], leaves: list[Any], spec: pytree.TreeSpec, kwargs: dict[str, Any], size: int,
    out_dims: Any, randomness: str,
) -> Any:  # fmt: skip
    """Call the function once, on examples."""
    level = MappedLevel(len(open_levels()) + 1, size, randomness)
    inside = [
        value if dim is None else level.wrap(value if dim == 0 else value.movedim(dim, 0), dim)
        for value, dim in zip(leaves, dims, strict=True)
    ]
    with LevelMode(level, random), transforming():
        outputs = func(*spec.unflatten(inside), **kwargs)
    found, out_spec = pytree.tree_flatten(outputs)
    places = _flat_out_dims(out_dims, out_spec, outputs, func)
    return out_spec.unflatten(
        [_finished(level, value, place, func) for value, place in zip(found, places, strict=True)]
    )


def _flat_out_dims(out_dims: Any, spec: pytree.TreeSpec, outputs: Any, func: Any) -> list[Any]:
    if isinstance(outputs, TensorCore) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    places = pytree._broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`: {pytree.tree_structure(out_dims)} against {spec}."
        )
    return places


def _finished(level: MappedLevel, value: Any, place: Any, func: Any) -> Any:
    """Return a result for the caller, with its mapped dim at the requested position."""
    name = _name(func)
    if place is None:
        if level.holds(value):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(value, TensorCore):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Other outputs need out_dims "
            "of None."
        )
    whole = level.whole(value)
    return whole if place == 0 else whole.movedim(0, place)


def _in_chunks(
    func: Any, dims: list[Any], leaves: list[Any], spec: pytree.TreeSpec, kwargs: dict[str, Any], size: int,
    out_dims: Any, randomness: str, chunk_size: int,
) -> Any:  # fmt: skip
    """Run `chunk_size` examples at a time, and join the results."""
    rows: list[list[Any]] = []
    places: list[Any] = []
    out_spec: pytree.TreeSpec = pytree.LeafSpec()
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        part = [
            value if dim is None else value.narrow(dim, start, length) for value, dim in zip(leaves, dims, strict=True)
        ]
        outputs = _run(func, dims, part, spec, kwargs, length, out_dims, randomness)
        found, out_spec = pytree.tree_flatten(outputs)
        places = _flat_out_dims(out_dims, out_spec, outputs, func)
        rows.append(found)
    joined = [
        column[0] if place is None else cat(list(column), place)
        for column, place in zip(zip(*rows), places, strict=True)
    ]
    return out_spec.unflatten(joined)
