"""`torch._vmap_internals`: the former module of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.func._vmap import vmap as vmap

__all__ = ["vmap"]


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Any:
    """Call `vmap`, under the name that PyTorch's `autograd` uses."""
    return vmap(func, in_dims, out_dims)
