"""A cache of compiled programs on disk, so that the next process does not compile them again.

Its files are executed, so the folder must belong to this user alone. If it is full, the least recently used files go first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
from functools import cache
from pathlib import Path

import jax
from jax import monitoring

from undertow._src.base.sites import warn

VARIABLE = "UNDERTOW_CACHE"  # a folder, or "off"
SIZE_VARIABLE = "UNDERTOW_CACHE_MB"
_USUAL_SIZE = 1024  # in megabytes
_TRIMMED_EVERY = 64  # programs
_WRITTEN = "/jax/compilation_cache/cache_misses"  # JAX's event
_PROGRAM, _TIME = "-cache", "-atime"  # the suffixes of JAX's files


@cache
def keep_on_disk() -> None:
    """Set JAX's folder for compiled programs, unless the user has set one."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off" or jax.config.jax_compilation_cache_dir:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen).expanduser() if chosen else home / "undertow" / "xla"
    reason = not_to_be_trusted(folder, own=not chosen)
    if reason is not None:
        warn(f"compiled programs are not kept on disk: {reason}. Set {VARIABLE} to a folder of your own, or to 'off'.")
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # On a GPU even the small programs take a twentieth of a second each, and a step's first call needs dozens of them.
    least = 0.0 if jax.default_backend() == "gpu" else 0.5
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    most = _most_bytes()
    written = 0

    def count(event: str, **_: object) -> None:
        nonlocal written
        if event == _WRITTEN:
            written += 1
            if written % _TRIMMED_EVERY == 0:
                trim(folder, most)

    trim(folder, most)
    monitoring.register_event_listener(count)
    atexit.register(trim, folder, most)


def not_to_be_trusted(folder: Path, own: bool) -> str | None:
    """Return why a folder can't be trusted; None if it is this user's alone. A missing folder is made.

    Undertow's own folder is closed to other users; one that the user has chosen must be closed already.
    """
    try:
        made = _make(folder)
        found = folder.stat()
        if os.name != "posix":
            return None
        if found.st_uid != os.geteuid():
            return f"{folder} belongs to another user"
        if made or own:
            folder.chmod(0o700)
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"other users may write to {folder} (chmod go-w)"
    except OSError as error:
        return str(error)
    return None


def _make(folder: Path) -> bool:
    """Make a folder, and those above it, for this user only; return whether it was missing."""
    if folder.is_dir():
        return False
    if not folder.parent.is_dir():
        _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    return True


def _most_bytes() -> int:
    said = os.environ.get(SIZE_VARIABLE, "")
    return (int(said) if said.isdecimal() else _USUAL_SIZE) << 20


def trim(folder: Path, most: int) -> None:
    """Remove the least recently used programs until the others take up at most `most` bytes."""
    programs = []
    with contextlib.suppress(OSError):  # of a folder that is gone
        for entry in os.scandir(folder):
            if entry.name.endswith(_PROGRAM):
                with contextlib.suppress(OSError):  # of a file that another process has removed
                    found = entry.stat(follow_symlinks=False)
                    programs.append((max(found.st_atime, found.st_mtime), found.st_size, Path(entry.path)))
    total = sum(size for _, size, _ in programs)
    for _, size, path in sorted(programs):
        if total <= most:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            path.with_name(path.name.removesuffix(_PROGRAM) + _TIME).unlink(missing_ok=True)
        total -= size
