"""A file that is replaced at once or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once it is complete and safely on the disk.

    Until then it has a name of its own beside it, `file.name`.
    """
    target = os.path.realpath(path)  # what a link points to is replaced, not the link
    parent = os.path.dirname(target)
    if not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    try:
        old_mode: int | None = os.stat(target).st_mode
    except FileNotFoundError:
        old_mode = None
    if old_mode is not None and not stat.S_ISREG(old_mode):  # a pipe or a device cannot be replaced
        with open(target, "wb") as out:
            yield out
        return
    temporary = os.path.join(parent, f".{os.path.basename(target)}.{secrets.token_hex(6)}.saving")
    try:
        with open(temporary, "xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if old_mode is not None:
            os.chmod(temporary, stat.S_IMODE(old_mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    """Makes the new name itself survive a power cut, where the system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
