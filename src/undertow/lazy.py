"""Names that a package imports when they are first used, so that importing the package stays fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`. `homes` says which module has a name; a module names itself.

    A home of the form `module:attribute` has the thing under another name.

    >>> __getattr__, __dir__ = lazy_names("json", {"tool": "json.tool"})
    >>> __getattr__("tool").__name__
    'json.tool'
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, attribute = home.partition(":")
        module = importlib.import_module(home)
        found = module if home == f"{package}.{name}" else getattr(module, attribute or name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names


class LateMethod:
    """A method that is imported when it is first used, and then replaces itself in its class."""

    def __init__(self, cls: type, home: str, name: str, adopt: Callable[[Any, str], Any]) -> None:
        self.cls, self.home, self.name, self.adopt = cls, home, name, adopt

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = getattr(importlib.import_module(self.home), self.name)
        if vars(self.cls).get(self.name) is self:  # no other thread was faster
            setattr(self.cls, self.name, self.adopt(function, self.name))
        return getattr(owner if instance is None else instance, self.name)
