"""Atomic replacement of a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from functools import cache
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` at the end of the block, once it is safely on disk.

    Until then it has a temporary name in the same folder. Leftovers of killed saves there are removed.
    """
    target, mode = _target(path)
    if mode is not None and not stat.S_ISREG(mode):  # a pipe or a device cannot be replaced
        with open(target, "wb") as device:
            yield device
        return
    with _claim(target, mode) as out:
        yield out
        out.flush()
        _put_in_place(out.name, out.fileno(), target, mode)


@contextlib.contextmanager
def replacing_by_name(path: str) -> Iterator[str]:
    """Do the same for a library that creates the file itself: yield the name to use, in a temporary folder."""
    target, mode = _target(path)
    if mode is not None and not stat.S_ISREG(mode):
        yield target
        return
    with _claim(target, mode) as claim:
        folder = claim.name + _FOLDER
        os.mkdir(folder, 0o700)
        try:
            name = os.path.join(folder, "content")
            yield name
            with open(name, "rb") as out:
                new_mode = os.fstat(claim.fileno()).st_mode if mode is None else mode
                _put_in_place(name, out.fileno(), target, new_mode)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _target(path: str) -> tuple[str, int | None]:
    """Return the file to be replaced, following links, and its mode if it exists."""
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    try:
        return target, os.stat(target).st_mode
    except FileNotFoundError:
        return target, None


def _put_in_place(name: str, descriptor: int, target: str, mode: int | None) -> None:
    os.fsync(descriptor)
    if mode is not None:
        os.chmod(name, stat.S_IMODE(mode))
    os.replace(name, target)
    _sync_folder(os.path.dirname(target))


# --- files of running saves: locked by their process; the system releases the lock when it ends

_ENDING = ".saving"
_FOLDER = ".files"  # a library's file, named after the locked one
_LONGEST_NAME = 200


@contextlib.contextmanager
def _claim(target: str, mode: int | None) -> Iterator[IO[bytes]]:
    """Create a locked file next to the target; it is removed if it still exists at the end of the block."""
    folder, name = os.path.split(target)
    prefix = f".{_short(name)}.{_machine()}-"
    _remove_abandoned(folder, prefix)
    file = _new_file(os.path.join(folder, prefix), 0o666 if mode is None else 0o600)
    try:
        with file:
            yield file
    finally:
        with contextlib.suppress(OSError):
            os.unlink(file.name)


@cache
def _machine() -> str:
    """Return a short name of this machine: processes of other machines cannot be checked here."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _short(name: str) -> str:
    """Return a file's name, or a short form of it if a longer name would not fit."""
    raw = os.fsencode(name)
    return name if len(raw) <= _LONGEST_NAME else hashlib.sha256(raw).hexdigest()


def _new_file(prefix: str, mode: int) -> IO[bytes]:
    """Return a new locked file; try the next name if another process removes it before it is locked."""
    while True:
        path = f"{prefix}{secrets.token_hex(6)}{_ENDING}"
        out = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))
        if _locked(out) and os.fstat(out.fileno()).st_nlink:
            return out
        out.close()
        with contextlib.suppress(OSError):
            os.unlink(out.name)


def _locked(file: IO[bytes]) -> bool:
    """Lock a file unless another process has; return True also if the system has no locks."""
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
    """Remove the leftovers of killed saves to the same path."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(_ENDING):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or (fcntl is not None and found.st_uid != os.geteuid()):
        return
    if fcntl is None:  # fails while its process is running
        os.unlink(path)
        shutil.rmtree(path + _FOLDER, ignore_errors=True)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # never blocks, even on a pipe
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process is running
        shutil.rmtree(path + _FOLDER, ignore_errors=True)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _sync_folder(folder: str) -> None:
    """Make the new name survive a power failure, if the system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
