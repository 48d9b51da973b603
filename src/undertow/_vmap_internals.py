"""`torch._vmap_internals`: the old home of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.func._vmap import vmap as vmap

__all__ = ["vmap"]


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Any:
    """`vmap`, under the name that PyTorch's own derivatives use."""
    return vmap(func, in_dims, out_dims)
