"""Compiled programs are kept on disk, so that the next process does not compile them again."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import jax

VARIABLE = "UNDERTOW_CACHE"  # a folder, or "off"


@cache
def keep_on_disk() -> None:
    """Tells JAX where to keep compiled programs, unless the user has told it already."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off" or jax.config.jax_compilation_cache_dir:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", chosen or str(home / "undertow" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
