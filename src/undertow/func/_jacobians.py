"""Jacobians and Hessians of functions: all rows at once with `vjp`, or all columns with `jvp`."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

from undertow._src.engine.transforms.unit_vectors import columns, rows, unit_vectors
from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow.func._derivatives import Function, chosen_of, linearized, pulled_back, with_chosen
from undertow.func._rules_random import RefusesRandom
from undertow.func._vmapping import check_randomness
from undertow.utils import _pytree as pytree


def jacrev(
    func: Function, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:  # fmt: skip
    """Return the Jacobian of a function, by one backward pass for all elements of its result: shape output + input.

    For nested results, the Jacobians are nested like the results, and inside them like the arguments.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        _refuse_complex(pytree.tree_leaves(chosen_of(args, argnums)), "jacrev", "input")
        output, _, pull_rows, aux = pulled_back(func, argnums, has_aux, args)
        outputs, out_spec = pytree.tree_flatten(output)
        _refuse_complex(outputs, "jacrev", "output")
        in_spec = pytree.tree_structure(chosen_of(args, argnums))
        vectors = unit_vectors(outputs)
        chunks = [vectors] if chunk_size is None else zip(*[part.split(chunk_size) for part in vectors])
        pulled = [pull_rows(chunk) for chunk in chunks]
        wholes = pulled[0] if len(pulled) == 1 else [cat(list(column)) for column in zip(*pulled)]
        found = zip(*[rows(whole, outputs) for whole in wholes])
        result = out_spec.unflatten([in_spec.unflatten(list(row)) for row in found])
        return (result, aux) if has_aux else result

    return jacobian


def _refuse_complex(tensors: list[Any], name: str, kind: str) -> None:
    for place, tensor in enumerate(tensors):
        if isinstance(tensor, TensorCore) and tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {kind}s to be real but received complex tensor at flattened {kind} idx: {place}"
            )


def jacfwd(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return the Jacobian of a function, by forward products for all elements of its arguments: shape output + input."""

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        check_randomness(randomness)
        chosen = chosen_of(args, argnums)
        inputs, in_spec = pytree.tree_flatten(chosen)
        _refuse_complex(inputs, "jacfwd", "input")

        def of_chosen(*leaves: Any) -> Any:
            return func(*with_chosen(args, argnums, in_spec.unflatten(list(leaves))))

        with RefusesRandom() if randomness == "error" else nullcontext():
            output, push, aux = linearized(of_chosen, tuple(inputs), has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = pytree.tree_flatten(output)
        _refuse_complex(outputs, "jacfwd", "output")
        found = pytree.tree_leaves(push(unit_vectors(inputs), batched=True))
        result = out_spec.unflatten([in_spec.unflatten(columns(whole, inputs)) for whole in found])
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """Return the second derivatives of a function, as the Jacobian of its Jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)
