"""A file that is replaced at once or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from functools import cache
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once it is complete and safely on the disk.

    Until then it has a name of its own beside it, `file.name`. What saves that were killed have left there is removed.
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
        with open(target, "wb") as device:
            yield device
        return
    prefix = f".{_short(os.path.basename(target))}.{_machine()}-"
    _remove_abandoned(parent, prefix)
    out = _new_file(os.path.join(parent, prefix), 0o666 if old_mode is None else 0o600)
    try:
        with out:
            yield out
            out.flush()
            os.fsync(out.fileno())
            if old_mode is not None:
                os.chmod(out.name, stat.S_IMODE(old_mode))
            if fcntl is not None:  # renamed while it is locked, so that it cannot be taken for abandoned
                os.replace(out.name, target)
        if fcntl is None:
            os.replace(out.name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(out.name)
        raise
    _sync_folder(parent)


# --- files of saves that are under way: locked by their process, which the system undoes when it ends

_ENDING = ".saving"
_LONGEST_NAME = 200


@cache
def _machine() -> str:
    """A short name of this machine: whether a process of another one still lives cannot be told here."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _short(name: str) -> str:
    """A file's name, or what stands for it where no more letters would fit after it."""
    raw = os.fsencode(name)
    return name if len(raw) <= _LONGEST_NAME else hashlib.sha256(raw).hexdigest()


def _new_file(prefix: str, mode: int) -> IO[bytes]:
    """A new file that is locked. Another process may find it before it is, and remove it; then there is a next one."""
    while True:
        path = f"{prefix}{secrets.token_hex(6)}{_ENDING}"
        out = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))
        if _locked(out) and os.fstat(out.fileno()).st_nlink:
            return out
        out.close()
        with contextlib.suppress(OSError):
            os.unlink(out.name)


def _locked(file: IO[bytes]) -> bool:
    """Lock a file, unless another process has; true also where the system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _remove_abandoned(folder: str, prefix: str) -> None:
    """Remove what killed saves to the same place have left."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(_ENDING):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(path: str) -> None:
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return
    with open(path, "rb") as file:
        if fcntl is not None:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process lives
            os.unlink(path)
    if fcntl is None:
        os.unlink(path)


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
