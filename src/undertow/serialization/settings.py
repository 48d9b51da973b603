"""Settings for reading and writing checkpoints."""

from __future__ import annotations

import mmap
import threading
from enum import Enum
from typing import Any

from undertow.utils.serialization import config

_PRIVATE: int | None = getattr(mmap, "MAP_PRIVATE", None)  # Windows has neither name
_SHARED: int | None = getattr(mmap, "MAP_SHARED", None)


class LoadEndianness(Enum):
    """The byte order of files that do not specify it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings(threading.local):
    """The state of `skip_data`, per thread; all other settings are in `utils.serialization.config`."""

    skips_data = False


settings = _Settings()


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order assumed for files without a `byteorder` record; None means little-endian."""
    endianness: LoadEndianness | None = config.load.endianness
    return endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order assumed for files without a `byteorder` record."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness  # type: ignore[assignment]


def get_crc32_options() -> bool:
    """Whether `save` writes checksums."""
    return bool(config.save.compute_crc32)


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` writes checksums; other zip programs complain about files without."""
    config.save.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """Return how `load(mmap=True)` maps files: `mmap.MAP_PRIVATE` (writes stay in memory) or `mmap.MAP_SHARED`."""
    flags: int | None = config.load.mmap_flags
    return flags


class set_default_mmap_options:
    """Sets how `load(mmap=True)` maps files; in a `with` block, until its end."""

    def __init__(self, flags: int) -> None:
        if flags not in (_PRIVATE, _SHARED):
            raise ValueError(
                f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self.before = config.load.mmap_flags
        config.load.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        config.load.mmap_flags = self.before


class skip_data:
    """Skip the bytes of storages in `save` and `load` inside the block.

    Each storage has its usual offset in the file, so the bytes can be written or read separately.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self.before, settings.skips_data = settings.skips_data, True

    def __exit__(self, *exception: Any) -> None:
        settings.skips_data = self.before
