"""`torch.multiprocessing.reductions`: how tensors are sent to another process, and references to their memory."""

from __future__ import annotations

import weakref
from typing import Any


class StorageWeakRef:
    """Says whether a storage still lives, and whether two are the same, without keeping either."""

    __slots__ = ("cdata", "_ref")

    def __init__(self, storage: Any) -> None:
        memory = getattr(storage, "_untyped_storage", storage)
        self.cdata = memory._cdata
        self._ref = weakref.ref(memory.root)

    def expired(self) -> bool:
        """Whether nobody holds the memory any more."""
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self._ref is other._ref  # numbers are used again


def reduce_tensor(tensor: Any) -> Any:
    """Return what `pickle` keeps of a tensor: its values."""
    return tensor.__reduce_ex__(2)


def init_reductions() -> None:
    """Would have Python's multiprocessing share the memory of tensors; they are copied, and that needs nothing."""
