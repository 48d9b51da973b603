"""Small file helpers of `torch.serialization`, under PyTorch's names."""

from __future__ import annotations

import contextlib
import gzip
import io
import mmap
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

from undertow.serialization.loading import _check_seekable as check_seekable
from undertow.serialization.loading import _default_weights_only as _default_to_weights_only
from undertow.serialization.locations import restorer

STORAGE_KEY_SEPARATOR = ","
LONG_SIZE, INT_SIZE, SHORT_SIZE = (struct.calcsize(f"={letter}") for letter in "lih")
IS_WINDOWS = sys.platform == "win32"
MAP_SHARED, MAP_PRIVATE = (None, None) if IS_WINDOWS else (mmap.MAP_SHARED, mmap.MAP_PRIVATE)

__all__ = ["_default_to_weights_only"]


def _is_path(name_or_buffer: Any) -> bool:
    return isinstance(name_or_buffer, (str, os.PathLike))


def _maybe_decode_ascii(bytes_str: bytes | str) -> str:
    return bytes_str.decode("ascii") if isinstance(bytes_str, bytes) else bytes_str


def _is_zipfile(f: Any) -> bool:
    """Whether a file continues with the signature of a zip archive; its position is kept."""
    begin = f.tell()
    mark = f.read(4)
    f.seek(begin)
    return mark == b"PK\x03\x04"


def _is_compressed_file(f: Any) -> bool:
    return isinstance(f, gzip.GzipFile)


def _should_read_directly(f: Any) -> bool:
    """Whether a file has a file descriptor that reads its own bytes."""
    if _is_compressed_file(f):
        return False
    try:
        return f.fileno() >= 0
    except (io.UnsupportedOperation, AttributeError):
        return False


def _check_seekable(f: Any) -> bool:
    """Return True if a file is seekable; otherwise raise an error that says what to do."""
    check_seekable(f)
    return True


def _check_save_filelike(f: Any) -> None:
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")


def _open_file_like(name_or_buffer: Any, mode: str) -> contextlib.AbstractContextManager[Any]:
    """Open a path and close it at the end of the block; return an open file as it is, and leave it open."""
    if _is_path(name_or_buffer):
        return open(name_or_buffer, mode)
    if "r" in mode:
        check_seekable(name_or_buffer)
    elif "w" not in mode:
        raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")
    return contextlib.nullcontext(name_or_buffer)


def _get_restore_location(map_location: Any) -> Callable[[Any, str], Any]:
    """Return the function that `load` applies to each storage, given `map_location`."""
    return restorer(map_location)


def _is_meta_location(location: Any) -> bool:
    return str(location) == "meta"
