"""Things that are imported when they are first used, so that importing undertow stays fast.

Three kinds, all of them plain attributes from their first use on: names of a module (`lazy_names`), functions of a module
that is read too often to have a `__getattr__` (`late_function`), and methods of a class (`LateMethod`). Threads that want
a file at the same time all get the same thing: see `whole_module`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any, NoReturn


def whole_module(name: str) -> ModuleType:
    """Return a module whose packages are complete: another thread may be importing one, and this module as a part of it.

    Python locks each file by itself: two threads may each be in the middle of one that needs the other, and one of them
    would be given half a file. So one thread at a time begins with an import; one that is in the middle of an import
    goes on, since others may be waiting for it.
    """
    if _is_importing(sys._getframe(1)):
        return _import(name)
    with _beginning:
        return _import(name)


def _import(name: str) -> ModuleType:
    package = name.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    return importlib.import_module(name)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the code of a frame is run by an import."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`. `homes` says which module has a name; a module names itself.

    A home of the form `module:attribute` has the thing under another name. `from package import *` brings the late names
    along, but no modules.

    >>> __getattr__, __dir__ = lazy_names("json", {"tool": "json.tool"})
    >>> __getattr__("tool").__name__
    'json.tool'
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            if name == "__all__":
                return [name for name in names() if not name.startswith("_") and not is_internal(name)]
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, attribute = home.partition(":")
        module = whole_module(home)
        itself = home == f"{package}.{name}" and not attribute
        found = module if itself else getattr(module, attribute or name)
        setattr(sys.modules[package], name, found)
        return found

    def is_internal(name: str) -> bool:
        """Tell a module, or a function of this file, from the names that a package is for."""
        value = present(sys.modules[package]).get(name)
        late = homes.get(name) == f"{package}.{name}"
        return late or isinstance(value, ModuleType) or getattr(value, "__module__", "") == __name__

    def names() -> list[str]:  # without the files that happen to have been imported by now
        here = present(sys.modules[package]).copy()  # another thread may be importing
        own = {name for name in here if isinstance(here[name], ModuleType) and f"{package}.{name}" in sys.modules}
        return sorted({*homes, *(here.keys() - own)})

    return find, names


def present(module: ModuleType) -> dict[str, Any]:
    """Return what a module has by now; `vars(module)` of a `WholeModule` would bring the late names."""
    here: dict[str, Any] = vars(ModuleType)["__dict__"].__get__(module)
    return here


class LateName:
    """A late name of modules that a package gives to every object: it would be found there before it is looked for."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: ModuleType, owner: type) -> Any:
        return present(module)["__getattr__"](self.name)


class WholeModule(ModuleType):
    """A module with late names whose `__dict__` has them all, for programs that look through a whole module."""

    save = LateName()  # nnsight gives it to every object

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        here = present(self)
        for name in dir(self):
            if name not in here:
                with contextlib.suppress(AttributeError, ImportError):
                    getattr(self, name)
        return here

    def __dir__(self) -> list[str]:
        here = present(self)
        return here["__dir__"]() if "__dir__" in here else list(here)


def homes_of(package: str, table: str) -> dict[str, str]:
    """Return the homes of a package's names, for `lazy_names`: `module: name name; module: name`, the modules too.

    >>> homes_of("json", "decoder: JSONDecoder; tool")
    {'decoder': 'json.decoder', 'JSONDecoder': 'json.decoder', 'tool': 'json.tool'}
    """
    homes = {}
    for entry in table.split(";"):
        module, _, names = entry.partition(":")
        for name in (module.strip(), *names.split()):
            homes[name] = f"{package}.{module.strip()}"
    return homes


def late_function(module: str, home: str, name: str) -> Callable[..., Any]:
    """Stands in a module for a function of another one, which takes its place when it is first called.

    A module with a `__getattr__` is read more slowly, also where it has the name (by 18 ns in Python 3.11).
    """

    def late(*args: Any, **kwargs: Any) -> Any:
        function = getattr(whole_module(home), name)
        setattr(sys.modules[module], name, function)
        return function(*args, **kwargs)

    return late


class LateMethod:
    """A method or property that is imported when it is first used, and then replaces itself in its class.

    Its home is a module, or `module:Class` where that class has it. `adopt` makes it one of the class that it is for.
    """

    __slots__ = ("cls", "home", "name", "adopt", "found")

    def __init__(self, cls: type, home: str, name: str, adopt: Callable[[Any, str], Any]) -> None:
        self.cls, self.home, self.name, self.adopt = cls, home, name, adopt
        self.found: Any = None

    def find(self) -> Any:
        """Import the method and puts it into the class."""
        home, _, family = self.home.partition(":")
        module = whole_module(home)
        found = vars(getattr(module, family))[self.name] if family else getattr(module, self.name)
        with _adoption:
            if self.found is None:
                self.found = self.adopt(found, self.name)
            if vars(self.cls).get(self.name) is self:  # nobody put another one there
                setattr(self.cls, self.name, self.found)
        return self.found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.find().__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        self.find()
        object.__setattr__(instance, self.name, value)  # a property's setter, or an attribute of this instance

    def __delete__(self, instance: Any) -> None:
        self.find()
        object.__delattr__(instance, self.name)


class LackingMethod:
    """Stands in Tensor for a method of PyTorch's that undertow lacks: it is not there, and who asks is told so by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"undertow has no torch.Tensor.{self.name}", name=self.name, obj=instance)


_beginning = threading.RLock()
_adoption = threading.RLock()  # threads that use a method at the same time for the first time get the same one


class TableFinder:
    """Finds the modules that are rows of a table (`compat/name_tables.py`); Python asks it last."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        if name.startswith("undertow."):
            return importlib.import_module("undertow._src.compat.name_tables").find_spec(name)
        return None
