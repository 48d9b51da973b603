"""`torch._functorch.eager_transforms`: derivatives as transforms of functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow.func import functional_call as functional_call
from undertow.func import grad as grad
from undertow.func import grad_and_value as grad_and_value
from undertow.func import hessian as hessian
from undertow.func import jacfwd as jacfwd
from undertow.func import jacrev as jacrev
from undertow.func import jvp as jvp
from undertow.func import linearize as linearize
from undertow.func import vjp as vjp
from undertow.func import vmap as vmap
from undertow.func._derivatives import check_argnum, chosen_of, vjp_of, with_chosen
from undertow.utils._pytree import tree_leaves

argnums_t = int | tuple[int, ...]


def _as_tuple(val: Any) -> Any:
    return val if isinstance(val, tuple) else (val,)


def _is_differentiable(maybe_tensor: Any) -> bool:
    return isinstance(maybe_tensor, TensorCore) and maybe_tensor.requires_grad


def _any_differentiable(tensor_or_tuple_of_tensors: Any) -> bool:
    return any(_is_differentiable(each) for each in _as_tuple(tensor_or_tuple_of_tensors))


def _check_unique_non_empty(argnums: Any) -> None:
    if isinstance(argnums, tuple):
        if len(argnums) == 0:
            raise RuntimeError("argnums must be non-empty")
        if len(set(argnums)) != len(argnums):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")


def _validate_and_wrap_argnum(argnum: int, num_args: int) -> int:
    """Return the place of an argument, counted from the first."""
    return check_argnum(argnum, num_args)


def _validate_and_wrap_argnums(argnums: Any, num_args: int) -> Any:
    if isinstance(argnums, int):
        return check_argnum(argnums, num_args)
    if isinstance(argnums, tuple):
        return tuple(check_argnum(argnum, num_args) for argnum in argnums)
    raise AssertionError("Should never get here")


def _slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """Return some of the arguments."""
    chosen = chosen_of(args, _validate_and_wrap_argnums(argnums, len(args)))
    return _as_tuple(chosen) if as_tuple else chosen


def _replace_args(old_args: tuple[Any, ...], new_args: tuple[Any, ...], argnums: Any) -> tuple[Any, ...]:
    """Arguments with some of them changed."""
    return tuple(with_chosen(old_args, argnums, new_args[0] if isinstance(argnums, int) else new_args))


def _safe_zero_index(x: tuple[Any, ...]) -> Any:
    if len(x) != 1:
        raise AssertionError(f"expected one item, got {len(x)}")
    return x[0]


def _vjp_with_argnums(func: Any, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """`vjp` with respect to some of the arguments."""
    return vjp_of(func, argnums, has_aux, primals)


def error_if_complex(func_name: str, args: Any, is_input: bool) -> None:
    """Refuse complex tensors."""
    for value in tree_leaves(args):
        if isinstance(value, TensorCore) and value.is_complex():
            kind = "inputs" if is_input else "outputs"
            raise RuntimeError(
                f"{func_name}: Expected all {kind} to be real but received complex tensor at flattened {kind[:-1]}"
            )


def lazy_dynamo_disallow(func: Any) -> Any:
    return func


@contextmanager
def enable_inplace_requires_grad(enabled: bool) -> Iterator[None]:
    """Return a block in which `requires_grad_` may be called inside a transform; here it may always."""
    yield
