"""`torch.utils.weak`: mappings with weak keys that are compared by identity.

Tensors compare elementwise, so the mappings of the standard library's `weakref` cannot hold them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any
from weakref import ref as WeakRef

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals others to the same object, even after the object is gone."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        one, two = self(), other() if isinstance(other, weakref.ref) else None
        return one is two if one is not None and two is not None else self is other


class _WeakHashRef(WeakIdRef):
    """A weak reference that equals others to an equal object, and keeps its hash after the object is gone."""

    __slots__ = ()

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)
        self._id = hash(key)

    __hash__ = WeakIdRef.__hash__

    def __eq__(self, other: object) -> bool:
        one, two = self(), other() if isinstance(other, weakref.ref) else None
        return bool(one == two) if one is not None and two is not None else self is other


WeakTensorRefKey = WeakIdRef


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose keys are compared by identity and held weakly."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        data = self.data

        def forget(key: Any) -> None:
            data.pop(key, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # it does not support weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Return a new mapping with the same keys and values."""
        return WeakIdKeyDictionary(self)


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.ref = WeakRef(tensor)

    def __call__(self) -> Any:
        """Return the tensor, or None after it has been freed."""
        return self.ref()
