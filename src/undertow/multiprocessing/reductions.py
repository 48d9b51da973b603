"""`torch.multiprocessing.reductions`: pickling of tensors for other processes, and weak references to storages."""

from __future__ import annotations

import weakref
from typing import Any


class StorageWeakRef:
    """A weak reference to a storage."""

    __slots__ = ("cdata", "_ref")

    def __init__(self, storage: Any) -> None:
        memory = getattr(storage, "_untyped_storage", storage)
        self.cdata = memory._cdata
        self._ref = weakref.ref(memory.root)

    def expired(self) -> bool:
        """Whether the storage has been freed."""
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self._ref is other._ref  # ids are reused


def reduce_tensor(tensor: Any) -> Any:
    """Return the pickled form of a tensor: a copy of its values."""
    return tensor.__reduce_ex__(2)


def init_reductions() -> None:
    """Do nothing: tensors are copied between processes, which needs no registration."""
