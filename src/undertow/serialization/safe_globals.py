"""The names allowed in files loaded with weights_only=True: containers, numbers, tensors and the user's additions."""

from __future__ import annotations

import _codecs
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from undertow._src.types import dtypes
from undertow._src.types.devices import device
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.nn.parameter import Parameter
from undertow.serialization.names import get_layout, torch_name
from undertow.serialization.rebuild import REBUILD
from undertow.serialization.storages import BY_NAME

SafeGlobal = Callable[..., Any] | tuple[Callable[..., Any], str]

_added: list[SafeGlobal] = []


def add_safe_globals(safe_globals: list[SafeGlobal]) -> None:
    """Allow files loaded with weights_only=True to use these classes or functions, which may then be called.

    An item is the class itself, or a pair of it and its full name in files.
    """
    for item in safe_globals:
        if item not in _added:
            _added.append(item)


def get_safe_globals() -> list[SafeGlobal]:
    """Return the classes and functions that were added."""
    return list(_added)


def clear_safe_globals() -> None:
    """Remove everything that was added."""
    _added.clear()


def remove_safe_globals(safe_globals: list[SafeGlobal]) -> None:
    """Remove some of what was added. Additions by other, overlapping blocks stay."""
    _added[:] = [item for item in _added if item not in safe_globals]


class safe_globals:
    """Add classes or functions inside the block: `with safe_globals([MyClass]): load(...)`."""

    def __init__(self, safe_globals: list[SafeGlobal]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception: Any) -> None:
        remove_safe_globals(self.safe_globals)


def added_by_name() -> dict[str, Any]:
    """Return what was added, by the name in files."""
    named = {}
    for item in _added:
        if isinstance(item, tuple):
            target, name = item
        else:
            target, name = item, ".".join(torch_name(item) or _own_name(item))
        named[name.removeprefix("builtins.")] = target
    return named


def _own_name(item: Any) -> tuple[str, str]:
    try:
        return item.__module__, item.__qualname__
    except AttributeError:
        raise TypeError(f"add_safe_globals takes classes and functions, not a {type(item).__name__}") from None


ALLOWED: dict[str, Any] = {
    **REBUILD,
    **BY_NAME,
    **{f"torch.{kind.name}": kind for kind in (*dtypes.ALL, *dtypes.FLOAT8)},
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "set": set,
    "complex": complex,
    "bytearray": bytearray,
    "bytes": bytes,
    "_codecs.encode": _codecs.encode,
    "torch.Size": Size,
    "torch.device": device,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.serialization._get_layout": get_layout,
}
