"""`torch._functorch.vmap`: mapping a function over examples."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from undertow.autograd.graph import disable_saved_tensors_hooks
from undertow.func import vmap as vmap
from undertow.func._vmap import _name as _get_name
from undertow.func._vmapping import check_randomness as _check_randomness_arg

__all__ = [
    "_check_randomness_arg", "_get_name", "doesnt_support_saved_tensors_hooks", "get_chunk_sizes", "vmap", "vmap_impl",
]  # fmt: skip

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...] | None


def vmap_impl(
    func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Return a function mapped over its arguments, and called."""
    return vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **kwargs)


def get_chunk_sizes(total_elems: int, chunk_size: int) -> list[int]:
    """Return the sizes of parts, the last of which may be smaller."""
    sizes = [chunk_size] * (total_elems // chunk_size)
    return sizes + [total_elems % chunk_size] if total_elems % chunk_size else sizes


def _as_tuple(value: Any, num_elements: int, error_message_lambda: Callable[[], str]) -> tuple[Any, ...]:
    """Return a tuple of this length."""
    if not isinstance(value, tuple):
        return (value,) * num_elements
    if len(value) != num_elements:
        raise ValueError(error_message_lambda())
    return value


def _num_outputs(batched_outputs: Any) -> int:
    return len(batched_outputs) if isinstance(batched_outputs, tuple) else 1


def doesnt_support_saved_tensors_hooks(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function in which hooks on saved tensors are refused."""
    message = (
        "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Leave the block of hooks "
        "before the call."
    )

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        with disable_saved_tensors_hooks(message):
            return f(*args, **kwargs)

    return run
