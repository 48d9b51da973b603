"""Whether a class or a module is undertow's own; under `pretend_torch` undertow's classes say that they are torch's."""

from __future__ import annotations

import enum
import functools
import importlib
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any

from undertow._src.base.sites import PACKAGE

_known: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def module_name(kind: type) -> str:
    """Return the module that a class says it is from; empty where `__module__` is no string (a descriptor, None)."""
    name = kind.__module__
    return name if isinstance(name, str) else ""


def is_own_module(module: ModuleType) -> bool:
    """Tell whether a module is one of undertow's, under whatever name."""
    return (getattr(module, "__file__", None) or "").startswith(PACKAGE)


def is_own_class(kind: type) -> bool:
    """Tell whether a class is one of undertow's, whether it says `undertow` or `torch`."""
    package, _, part = module_name(kind).partition(".")
    if package not in ("undertow", "torch"):  # checked first: a class of the user's need not be hashable
        return False
    known = _known.get(kind)
    if known is None:
        known = _known[kind] = _is_own(kind, part)
    return known


def own_part(kind: type) -> str:
    """Return the part of undertow that one of its classes is in: `optim.lr_scheduler`."""
    return module_name(kind).partition(".")[2]


def _is_own(kind: type, part: str) -> bool:
    home = f"undertow.{part}" if part else "undertow"
    if home in sys.modules and _found(sys.modules[home], kind.__qualname__) is kind:
        return True
    files = [each.__code__.co_filename for each in vars(kind).values() if isinstance(each, FunctionType)]
    # Generated code does not count (a dataclass's), nor what the enum module puts into each enumeration.
    written = [file for file in files if not file.startswith("<") and file != enum.__file__]
    if (
        written
    ):  # if not all are undertow's, the name was copied, or it is PyTorch's, maybe with a method that `why` wraps
        return all(file.startswith(PACKAGE) for file in written)
    if _found(_imported(home), kind.__qualname__) is kind:
        return True  # for example an error whose public module has not been imported yet
    return is_own_class(type(kind)) or any(map(is_own_class, kind.__bases__))


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _found(home: Any, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), home)
    except (AttributeError, ImportError):
        return None
