"""Constructors for the objects of a pickle read with weights_only=True, which do not trust their arguments.

Each function replaces the class or function that the file names, checks its arguments, and charges the limits for its
result.
"""

from __future__ import annotations

import _codecs
import math
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from operator import mul
from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device
from undertow._src.types.sizes import Size
from undertow.nn.parameter import Parameter
from undertow.serialization import rebuild
from undertow.serialization.limits import Limits
from undertow.serialization.locations import BoundStorage
from undertow.serialization.names import get_layout
from undertow.serialization.storages import TypedStorage

Maker = Callable[..., Any]

_LONGEST_NAME = 64
_MOST_DEVICES = 128
_LARGEST_META = 1 << 22  # bytes above which a tensor without values has no memory
ITEM = 16  # what an item of a dict or set costs,
_TENSOR = 256  # and a tensor: they are larger than what the file says of them


def _check(fits: bool, wanted: str) -> None:
    if not fits:
        raise pickle.UnpicklingError(f"the file has invalid arguments for {wanted}")


def _pairs(limits: Limits, target: dict[Any, Any], items: Any) -> None:
    _check(type(items) in (tuple, list, dict, OrderedDict, Counter), "a dict: expected a dict or a list of pairs")
    limits.spend(ITEM * len(items))
    for pair in items.items() if isinstance(items, dict) else items:
        _check(type(pair) in (tuple, list) and len(pair) == 2, "a dict: expected pairs")
        target[limits.key(target, pair[0])] = pair[1]


def _ordered_dict(limits: Limits, items: Any = ()) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    _pairs(limits, made, items)
    return made


def _counter(limits: Limits, counts: Any = ()) -> Counter[Any]:
    made: Counter[Any] = Counter()
    _pairs(limits, made, counts)
    return made


def _set(limits: Limits, items: Any = ()) -> set[Any]:
    _check(type(items) in (tuple, list, set), "a set: expected a list")
    limits.spend(ITEM * len(items))
    made: set[Any] = set()
    made.update(limits.key(made, item) for item in items)
    return made


def _bytearray(limits: Limits, content: Any = b"", encoding: Any = "latin-1") -> bytearray:
    _check(type(content) in (bytes, bytearray, str), "a bytearray: expected bytes")
    limits.spend(len(content))
    return bytearray(_encode(limits, content, encoding) if isinstance(content, str) else content)


def _bytes(limits: Limits) -> bytes:
    return b""  # empty bytes are written like this


def _encode(limits: Limits, text: Any, encoding: Any = "latin1") -> bytes:
    """Return bytes from their form in older pickles; other codecs would run code of the file's choice."""
    _check(
        type(text) is str and type(encoding) is str and encoding in ("latin1", "latin-1"),
        "bytes: expected text and latin1",
    )
    limits.spend(len(text))
    content: bytes = text.encode("latin1")
    return content


def _complex(limits: Limits, *parts: Any) -> complex:
    _check(len(parts) <= 2 and all(type(part) in (int, float, complex) for part in parts), "a complex number")
    return complex(*parts)


def _size(limits: Limits, sizes: Any = ()) -> Size:
    _check(type(sizes) in (tuple, list), "a size: expected integers")
    limits.spend(4 * len(sizes))
    _check(all(type(n) is int for n in sizes), "a size: expected integers")
    return Size(sizes)


def _device(limits: Limits, kind: Any, index: Any = None) -> device:
    fits = type(kind) is str and len(kind) <= _LONGEST_NAME
    _check(fits and (index is None or (type(index) is int and 0 <= index < _MOST_DEVICES)), "a device")
    return device(kind, index)


def _layout(limits: Limits, name: Any) -> Any:
    _check(type(name) is str and len(name) <= _LONGEST_NAME, "a layout")
    return get_layout(name)


def _parameter(limits: Limits, data: Any = None, requires_grad: Any = True) -> Any:
    limits.spend(_TENSOR)
    return rebuild.rebuild_parameter(data, requires_grad, None)


# --- tensors


def _tensor(function: Maker, metadata: int) -> Maker:
    """Return a constructor of tensors by a rebuild function; the argument of this number is the conj and neg metadata."""

    def make(limits: Limits, *args: Any) -> Any:
        limits.spend(_TENSOR)
        if len(args) > 2 and (_is_bound(args[0]) or (isinstance(args[-1], dict) and len(args) > metadata)):
            rebuild.check_layout(args[2], args[2], 0)
            limits.spend(math.prod(args[2]))  # all elements are computed, and a stride of 0 costs no bytes
        return function(*args)

    return make


def _is_bound(storage: Any) -> bool:
    memory = storage.untyped() if isinstance(storage, TypedStorage) else storage
    return isinstance(memory, BoundStorage)


def _sparse(limits: Limits, layout: Any, parts: Any) -> Any:
    _check(type(parts) is tuple and len(parts) in (3, 4), "a sparse tensor: expected three or four parts")
    _check(all(isinstance(part, TensorCore) for part in parts[:2]), "a sparse tensor: expected tensors")
    limits.spend(_TENSOR + parts[0].numel() + parts[1].numel())
    return rebuild.rebuild_sparse_tensor(layout, parts)


def _meta(limits: Limits, kind: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    rebuild.check_layout(size, stride, 0)
    limits.spend(_TENSOR + min(8 * max(math.prod(size), 1 + sum(map(mul, size, stride))), _LARGEST_META))
    return rebuild.rebuild_meta_tensor(kind, size, stride, requires_grad)


def _plain(function: Maker) -> Maker:
    def make(limits: Limits, *args: Any) -> Any:
        limits.spend(_TENSOR)
        return function(*args)

    return make


TENSOR_MAKERS: dict[Any, Maker] = {
    rebuild.rebuild_tensor: _tensor(rebuild.rebuild_tensor, 4),
    rebuild.rebuild_tensor_v2: _tensor(rebuild.rebuild_tensor_v2, 6),
    rebuild.rebuild_tensor_v3: _tensor(rebuild.rebuild_tensor_v3, 7),
    rebuild.rebuild_parameter: _plain(rebuild.rebuild_parameter),
    rebuild.rebuild_parameter_with_state: _plain(rebuild.rebuild_parameter_with_state),
    rebuild.rebuild_sparse_tensor: _sparse,
    rebuild.rebuild_meta_tensor: _meta,
}
MAKERS: dict[Any, Maker] = {
    **TENSOR_MAKERS,
    OrderedDict: _ordered_dict,
    Counter: _counter,
    set: _set,
    bytearray: _bytearray,
    bytes: _bytes,
    _codecs.encode: _encode,
    complex: _complex,
    Size: _size,
    device: _device,
    get_layout: _layout,
    Parameter: _parameter,
}
