"""`torch._functorch.apis`: `vmap` and `grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.func import grad as grad
from undertow.func import grad_and_value as grad_and_value
from undertow.func import vmap as vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]

argnums_t = int | tuple[int, ...]
in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...] | None


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """`vmap` that runs the function on the examples in `chunks` parts, one after the other."""
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        sizes = [arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if isinstance(dim, int)]
        size = -(-sizes[0] // chunks) if sizes else None
        return vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return mapped
