"""Checks for optional packages."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType


def _check_module_exists(name: str) -> bool:
    """Whether a module can be imported; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.cache
def dill_available() -> bool:
    return _check_module_exists("dill")


@functools.cache
def import_dill() -> ModuleType | None:
    """Return dill, if it is installed, without its changes to pickle."""
    if not dill_available():
        return None
    dill = importlib.import_module("dill")
    dill.extend(use_dill=False)
    return dill
