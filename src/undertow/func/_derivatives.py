"""Derivatives of functions: `grad`, `vjp`, `jvp`, which nest in each other and in `vmap`.

Inside a vmap, derivatives are computed for all examples at once. The tensors are made whole, so that each example has
its own input. Since examples do not depend on each other, one backward pass gives each its gradient.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CodeType
from typing import Any

from undertow._src.base.modes import inference_mode, local
from undertow._src.engine.transforms.levels import Level, Pushed, PushLevel, input_edge, pull, requires_grad
from undertow._src.engine.transforms.tangents import refuse_without_formula
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore, wrap
from undertow.func._vmapping import from_whole, open_levels, to_whole
from undertow.utils import _pytree as pytree

Function = Callable[..., Any]


class Transform:
    """One open derivative: its level, and the vmaps around it."""

    def __init__(self, function: Function, kind: type[Level] = Level) -> None:
        self.level = kind()
        self.maps = open_levels()
        self.begun = False
        self.captured = _captured_by(function)

    def begin(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the inputs for the function, and the edges that receive their gradients."""
        local.modes.transforms += 1
        local.modes.captured += (self.captured,)
        self.begun = True
        inside, edges = [], []
        for value in values:
            if not isinstance(value, TensorCore):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
            whole = to_whole(value, self.maps)
            if whole.is_inference():
                whole = wrap(whole._array)
            alias = self.level.begin(whole)
            edges.append(input_edge(alias))
            inside.append(from_whole(alias, self.maps))
        return inside, edges

    def close(self) -> None:
        """Close the level after the function has run."""
        self.level.close()
        if self.begun:
            local.modes.transforms -= 1
            local.modes.captured = local.modes.captured[:-1]

    def whole(self, values: Sequence[Any]) -> list[Any]:
        return [to_whole(value, self.maps) for value in values]

    def finish(self, values: Sequence[Any]) -> list[Any]:
        """Convert whole results to tensors outside the transform."""
        return [from_whole(self.level.release(value), self.maps) for value in values]

    def release(self, tree: Any) -> Any:
        """Convert the function's nested results to tensors outside the transform."""

        def released(value: Any) -> Any:
            if not isinstance(value, TensorCore):
                raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
            return from_whole(self.level.release(to_whole(value, self.maps)), self.maps)

        return pytree.tree_map(released, tree)


def _captured_by(function: Any) -> list[Any]:
    """Return the tensors that a function refers to by name: variables around it, of functions in them, and globals."""
    tensors, waiting, seen = [], [function], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, TensorCore):
            tensors.append(value)
            continue
        value = inspect.unwrap(value.func if isinstance(value, functools.partial) else value)
        code = getattr(value, "__code__", None)
        if not isinstance(code, CodeType) or value in seen:
            continue
        seen.add(value)
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # the variable has no value yet
                waiting.append(cell.cell_contents)
        waiting += [*(value.__defaults__ or ()), *[value.__globals__.get(name) for name in code.co_names]]
    return tensors


# --- grad


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Return the gradient of a function with a scalar result, as a function of the same arguments.

    argnums: the arguments to differentiate (nests of tensors are fine). has_aux: func returns (result, anything), and
    the gradient comes as (gradient, anything).

    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Return a function like that of `grad`, which returns (gradient, result)."""

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return both


def _grad_and_value(func: Function, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
    transform = Transform(func)
    chosen = chosen_of(args, argnums)
    leaves, spec = pytree.tree_flatten(chosen)
    try:
        with inference_mode(False):  # so that ops are recorded
            inside, edges = transform.begin(leaves)
            output = func(*with_chosen(args, argnums, spec.unflatten(inside)), **kwargs)
            aux: Any = ()
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError(
                        "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux), given "
                        "has_aux=True"
                    )
                output, aux = output
            _check_scalar(output)
            (whole,) = transform.whole([output])
            found = pull(transform.level, [whole], edges, [creation.ones_like(whole.detach())], retain=True)
            gradients = spec.unflatten(transform.finish(found))
            output, aux = transform.release(output), transform.release(aux)
    finally:
        transform.close()
    return gradients, (output, aux) if has_aux else output


def _check_scalar(output: Any) -> None:
    if not isinstance(output, TensorCore):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor of "
            f"{output.dim()} dims. "
            "For outputs of many elements there are vjp and jacrev."
        )
    if output.is_complex():
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")


def check_argnum(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def _places(args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    if isinstance(argnums, int):
        return (check_argnum(argnums, len(args)),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    places = tuple([check_argnum(argnum, len(args)) for argnum in argnums])
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def chosen_of(args: tuple[Any, ...], argnums: Any) -> Any:
    """Return the arguments to differentiate: one, or a tuple of them."""
    places = _places(args, argnums)
    return args[places[0]] if isinstance(argnums, int) else tuple([args[place] for place in places])


def with_chosen(args: tuple[Any, ...], argnums: Any, replacements: Any) -> list[Any]:
    """Return the arguments with the chosen ones replaced."""
    places = _places(args, argnums)
    given = list(args)
    for place, value in zip(places, (replacements,) if isinstance(argnums, int) else replacements, strict=True):
        given[place] = value
    return given


# --- vector-Jacobian products


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals), and a function that multiplies a vector by its Jacobian and returns a tuple like primals.

    >>> value, pull_back = torch.func.vjp(torch.sin, torch.tensor(0.0))
    >>> pull_back(torch.tensor(2.0))
    (tensor(2.),)
    """
    return vjp_of(func, None, has_aux, primals)


def vjp_of(func: Function, argnums: Any, has_aux: bool, primals: tuple[Any, ...]) -> Any:
    """Return the vjp with respect to some arguments; all of them if argnums is None."""
    shown, pull_back, _, aux = pulled_back(func, argnums, has_aux, primals)
    return (shown, pull_back, aux) if has_aux else (shown, pull_back)


def pulled_back(func: Function, argnums: Any, has_aux: bool, primals: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return func(*primals), its vector-Jacobian product for one vector and for many (in flat lists), and aux."""
    transform = Transform(func)
    chosen = primals if argnums is None else chosen_of(primals, argnums)
    leaves, spec = pytree.tree_flatten(chosen)
    try:
        with inference_mode(False):  # so that ops are recorded
            inside, edges = transform.begin(leaves)
            given = spec.unflatten(inside)
            outputs = func(*(given if argnums is None else with_chosen(primals, argnums, given)))
            outputs, aux = _without_aux(outputs, has_aux, "vjp(f, *primals)")
            found, out_spec = _flat_outputs(outputs, "vjp(f, *primals)")
            _refuse_whole_numbers(found)
            wholes = transform.whole(found)
            shown, aux = transform.release(outputs), transform.release(aux)
    finally:
        transform.close()

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, seed_spec = pytree.tree_flatten(cotangents)
        if seed_spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as that of the function's outputs. "
                f"They are {pytree.treespec_pprint(seed_spec)} and {pytree.treespec_pprint(out_spec)}"
            )
        products = functools.partial(pull, transform.level, wholes, edges, retain=retain_graph or bool(open_levels()))
        return spec.unflatten(_in_newer_maps(transform, products, seeds))

    def pull_rows(seeds: Sequence[Any]) -> list[Any]:
        return _in_rows(transform, functools.partial(pull, transform.level, wholes, edges), seeds)

    return shown, pull_back, pull_rows, aux


def _in_newer_maps(transform: Transform, function: Function, values: Sequence[Any]) -> list[Any]:
    """Run a function of whole tensors in the vmaps that are open now, possibly more than when the transform began.

    The graph that the transform recorded lacks the newer ones: it gets their examples as a batch.
    """
    newer = open_levels()[len(transform.maps) :]
    if not newer:
        return transform.finish(function(transform.whole(values)))
    levels, own = [*transform.maps, *newer], len(transform.maps)
    front, back = tuple(range(len(newer))), tuple(range(own, own + len(newer)))
    sizes = [level.size for level in newer]
    flat = [to_whole(value, levels).movedim(back, front).flatten(0, len(newer) - 1) for value in values]
    return [
        from_whole(transform.level.release(whole).unflatten(0, sizes).movedim(front, back), levels)
        for whole in function(flat, batched=True)
    ]


def _in_rows(transform: Transform, function: Function, values: Sequence[Any]) -> list[Any]:
    """Run a function of whole tensors on values that have a batch dim in front, and so return results that have one."""
    own = len(transform.maps)
    wholes = [to_whole(value, transform.maps).movedim(own, 0) for value in values]
    return [
        from_whole(transform.level.release(whole).movedim(0, own), transform.maps)
        for whole in function(wholes, batched=True)
    ]


def _without_aux(outputs: Any, has_aux: bool, called: str) -> tuple[Any, Any]:
    if not has_aux:
        return outputs, ()
    if not (isinstance(outputs, tuple) and len(outputs) == 2):
        raise RuntimeError(f"{called}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return outputs


def _flat_outputs(outputs: Any, called: str) -> tuple[list[Any], pytree.TreeSpec]:
    found, spec = pytree.tree_flatten(outputs)
    for value in found:
        if not isinstance(value, TensorCore):
            raise RuntimeError(
                f"{called}: expected f(*primals) to return only tensors, got unsupported type {type(value)}"
            )
    return found, spec


def _refuse_whole_numbers(outputs: Sequence[Any]) -> None:
    for value in outputs:
        if not (value.dtype.is_floating_point or value.dtype.is_complex):
            raise RuntimeError(
                f"vjp(f, ...): All outputs of f must be floating-point or complex, but one is {value.dtype}. Return it as "
                "aux (has_aux=True)."
            )


# --- Jacobian-vector products


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return func(*primals), and the product of its Jacobian with tangents, which are nested like primals.

    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    called = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{called}: Expected primals to be a tuple. E.g. f(*primals) is to be a valid call.")
    directions, direction_spec = pytree.tree_flatten(tangents)
    leaves, spec = pytree.tree_flatten(primals)
    if spec != direction_spec:
        raise RuntimeError(
            f"{called}: Expected primals and tangents to have the same python structure. Each input has its "
            f"direction; the inputs are {spec}, the directions {direction_spec}"
        )
    for name, values in (("primals", leaves), ("tangents", directions)):
        if not values:
            raise RuntimeError(f"{called}: Expected {name} to contain at least one Tensor.")
        for value in values:
            if not isinstance(value, TensorCore):
                raise RuntimeError(f"{called}: Expected {name} to only contain Tensors, got {type(value)}")
    for value, direction in zip(leaves, directions, strict=True):
        if value.shape != direction.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than its Tensor is not "
                f"supported. The tensor is of size {list(value.shape)}, the forward gradient of size "
                f"{list(direction.shape)}."
            )
    shown, push, aux = linearized(func, primals, has_aux, called, strict)
    found = push(directions)
    return (shown, found, aux) if has_aux else (shown, found)


def linearized(
    func: Function, primals: Any, has_aux: bool, called: str, strict: bool = False
) -> tuple[Any, Function, Any]:
    """Return func(*primals), and its derivative as a function of flat tangents."""
    leaves, spec = pytree.tree_flatten(primals)
    transform = Transform(func, PushLevel)
    try:
        with inference_mode(False):  # so that ops are recorded
            inside, edges = transform.begin(leaves)
            outputs = func(*spec.unflatten(inside))
            outputs, aux = _without_aux(outputs, has_aux, called)
            found, out_spec = _flat_outputs(outputs, called)
            whole = transform.whole(found)
            refuse_without_formula(whole, edges)
            if strict and not all(map(requires_grad, whole)):
                raise RuntimeError(
                    f"{called[:-1]}, strict=True): The output of f is independent of the inputs, which is an error with "
                    "strict=True."
                )
            pushed = Pushed(transform.level, whole, edges)
            shown, aux = transform.release(outputs), transform.release(aux)
    finally:
        transform.close()

    def push(directions: Sequence[Any], batched: bool = False) -> Any:
        run = _in_rows if batched else _in_newer_maps
        with inference_mode(False):  # so that ops are recorded
            return out_spec.unflatten(run(transform, pushed.along, directions))

    return shown, push, aux


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """Return func(*primals), and its derivative there: a function of tangents that can be called many times."""
    shown, push, _ = linearized(func, primals, False, "linearize(f, *primals)")
    spec = pytree.tree_structure(primals)

    def derivative(*tangents: Any) -> Any:
        directions, given = pytree.tree_flatten(tangents)
        if given != spec:
            raise RuntimeError(
                "Expected the tangents to have the same structure as the primals, but got "
                f"{pytree.treespec_pprint(given)} for {pytree.treespec_pprint(spec)}"
            )
        for nr, (direction, primal) in enumerate(zip(directions, pytree.tree_leaves(primals), strict=True)):
            for name in ("shape", "dtype"):
                has, wanted = getattr(direction, name), getattr(primal, name)
                if has != wanted:
                    raise RuntimeError(
                        f"tangent:{nr} with {name} {has} in flattened pytree doesn't match the {name} {wanted} of the "
                        "corresponding primal."
                    )
        return push(directions)

    return shown, derivative
