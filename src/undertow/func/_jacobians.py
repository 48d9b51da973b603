"""Jacobians and Hessians of functions, row by row with `vjp` or column by column with `jvp`."""

from __future__ import annotations

import functools
from typing import Any

from undertow._src.ops.join import stack
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore
from undertow.func._derivatives import Function, chosen_of, linearized, vjp_of, with_chosen
from undertow.func._vmapping import check_randomness
from undertow.utils import _pytree as pytree


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return the Jacobian of a function, by one backward pass per element of its result: shape output + input.

    Nested results give nests of Jacobians, and so do nested arguments, inside them.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        _refuse_complex(pytree.tree_leaves(chosen_of(args, argnums)), "jacrev", "input")
        found = vjp_of(func, argnums, has_aux, args)
        output, pull_back, aux = (*found, None)[:3]
        outputs, out_spec = pytree.tree_flatten(output)
        _refuse_complex(outputs, "jacrev", "output")
        inputs, in_spec = pytree.tree_flatten(chosen_of(args, argnums))
        rows = [_rows(nr, outputs, out_spec, inputs, pull_back) for nr in range(len(outputs))]
        result = out_spec.unflatten([in_spec.unflatten(row) for row in rows])
        return (result, aux) if has_aux else result

    return jacobian


def _refuse_complex(tensors: list[Any], name: str, kind: str) -> None:
    for place, tensor in enumerate(tensors):
        if isinstance(tensor, TensorCore) and tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {kind}s to be real but received complex tensor at flattened {kind} idx: {place}"
            )


def _rows(nr: int, outputs: list[Any], out_spec: pytree.TreeSpec, inputs: list[Any], pull_back: Function) -> list[Any]:
    """Return the Jacobians of one output with respect to every input."""
    output = outputs[nr]
    count = output.numel()
    seeds = [creation.zeros(tuple(one.shape), dtype=one.dtype, device=one.device) for one in outputs]
    columns: list[list[Any]] = [[] for _ in inputs]
    for place in range(count):
        basis = creation.zeros(count, dtype=output.dtype, device=output.device)
        basis[place] = 1
        row = [*seeds[:nr], basis.reshape(tuple(output.shape)), *seeds[nr + 1 :]]
        for column, part in zip(columns, pytree.tree_leaves(pull_back(out_spec.unflatten(row))), strict=True):
            column.append(part)
    return [
        (
            stack(column) if column else creation.zeros((0, *value.shape), dtype=value.dtype, device=value.device)
        ).reshape((*output.shape, *value.shape))
        for column, value in zip(columns, inputs, strict=True)
    ]


def jacfwd(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return the Jacobian of a function, by one forward product per element of its arguments: shape output + input."""

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        check_randomness(randomness)
        chosen = chosen_of(args, argnums)
        inputs, in_spec = pytree.tree_flatten(chosen)
        _refuse_complex(inputs, "jacfwd", "input")

        def of_chosen(*leaves: Any) -> Any:
            return func(*with_chosen(args, argnums, in_spec.unflatten(list(leaves))))

        output, push, aux = linearized(of_chosen, tuple(inputs), has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = pytree.tree_flatten(output)
        _refuse_complex(outputs, "jacfwd", "output")
        columns = [_columns(nr, inputs, outputs, push) for nr in range(len(inputs))]
        result = out_spec.unflatten([in_spec.unflatten(list(row)) for row in zip(*columns, strict=True)])
        return (result, aux) if has_aux else result

    return jacobian


def _columns(nr: int, inputs: list[Any], outputs: list[Any], push: Function) -> list[Any]:
    """Return the Jacobians of every output with respect to one input."""
    value = inputs[nr]
    directions = [creation.zeros(tuple(one.shape), dtype=one.dtype, device=one.device) for one in inputs]
    rows: list[list[Any]] = [[] for _ in outputs]
    for place in range(value.numel()):
        basis = creation.zeros(value.numel(), dtype=value.dtype, device=value.device)
        basis[place] = 1
        given = [*directions[:nr], basis.reshape(tuple(value.shape)), *directions[nr + 1 :]]
        for row, part in zip(rows, pytree.tree_leaves(push(given)), strict=True):
            row.append(part)
    return [
        (
            stack(row).movedim(0, -1) if row else creation.zeros((*one.shape, 0), dtype=one.dtype, device=one.device)
        ).reshape((*one.shape, *value.shape))
        for row, one in zip(rows, outputs, strict=True)
    ]


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """Return the second derivatives of a function, as the Jacobian of its Jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)
