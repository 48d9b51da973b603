"""Tables of PyTorch's legacy storage classes, by dtype and by name."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.typed_storage import BY_DTYPE, _LegacyStorage, _LegacyStorageMeta, warn_of_removal
from undertow._src.types import dtypes

__all__ = ["_LegacyStorage", "_LegacyStorageMeta"]


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    """Warn, once, that typed storages will be removed."""
    warn_of_removal()


def _dtype_to_storage_type_map() -> dict[dtypes.dtype, str]:
    return {kind: cls.__name__ for kind, cls in BY_DTYPE.items()}


def _storage_type_to_dtype_map() -> dict[str, dtypes.dtype]:
    return {cls.__name__: kind for kind, cls in BY_DTYPE.items()}


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> dtypes.dtype:
    """Return the dtype of a storage class by its name."""
    try:
        return _storage_type_to_dtype_map()[pickle_storage_type]
    except KeyError:
        raise KeyError(f'pickle storage type "{pickle_storage_type}" is not recognized') from None


def _isint(x: Any) -> bool:
    return isinstance(x, int)
