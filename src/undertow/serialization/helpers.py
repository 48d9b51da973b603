"""Small functions of `torch.serialization` that packages call: versions of modules, names of storages and devices."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow._src.base.sites import warn
from undertow._src.tensor import tensor_types, typed_storage

__all__ = [
    "SourceChangeWarning", "StorageType", "check_module_version_greater_or_equal", "normalize_storage_type",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]  # fmt: skip


class SourceChangeWarning(Warning):
    """The source of a saved module has changed; PyTorch used to compare it."""


class StorageType:
    """The name of a storage class in a pickle."""

    def __init__(self, name: str) -> None:
        self._dtype = getattr(typed_storage, name).dtype

    @property
    def dtype(self) -> Any:
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's `__version__` is at least this one."""
    try:
        numbers = tuple(
            kind(part) for kind, part in zip(map(type, req_version_tuple), module.__version__.split("."), strict=False)
        )
        return numbers >= req_version_tuple
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with "
            f"tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warn(message + ", but continuing assuming that requirement is met")
        return True


def normalize_storage_type(storage_type: Any) -> Any:
    """Return the storage class with its name in `torch`."""
    return getattr(typed_storage, storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """Return the tensor type of a storage: `torch.FloatTensor` for `torch.FloatStorage`."""
    return getattr(tensor_types, type(storage).__name__.replace("Storage", "Tensor"))


def validate_cuda_device(location: Any) -> NoReturn:
    """Raise: there is no CUDA device."""
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. Load with "
        "map_location='cpu'."
    )


def validate_hpu_device(location: Any) -> NoReturn:
    """Raise: there is no HPU."""
    raise RuntimeError(
        "Attempting to deserialize object on a HPU device but there is none. Load with map_location='cpu'."
    )
