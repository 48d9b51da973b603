"""Names that are imported when they are first used, so that importing undertow stays fast.

There are three kinds, and each becomes a plain attribute at its first use: names of a module (`lazy_names`), functions
of a module that is read too often to have a `__getattr__` (`late_function`), and methods of a class (`LateMethod`).
Threads that need a file at the same time all get the same object: see `whole_module`.
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
    """Return a module, completely imported, even while a different thread is importing it or its package.

    Python locks each file separately: if two threads each import a file that needs the other's, one of them would get a
    half-imported module. So one thread at a time starts an import; a thread already inside an import continues, since
    others may be waiting for it.
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
    """Return a package's `__getattr__` and `__dir__`; `homes` maps each name to its module, and a module to itself.

    A home of the form `module:attribute` has the object under a different name. `from package import *` includes the
    late names, but no modules.

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
        """Whether a name is a module or a function of this file, not one of the package's own names."""
        value = present(sys.modules[package]).get(name)
        late = homes.get(name) == f"{package}.{name}"
        return late or isinstance(value, ModuleType) or getattr(value, "__module__", "") == __name__

    def names() -> list[str]:  # without the modules that happen to be imported already
        here = present(sys.modules[package]).copy()  # a different thread may be importing
        own = {name for name in here if isinstance(here[name], ModuleType) and f"{package}.{name}" in sys.modules}
        return sorted({*homes, *(here.keys() - own)})

    return find, names


def present(module: ModuleType) -> dict[str, Any]:
    """Return the names a module has now; `vars(module)` of a `WholeModule` would import the late names."""
    here: dict[str, Any] = vars(ModuleType)["__dict__"].__get__(module)
    return here


class LateName:
    """A late name of a module that a library also adds to every object; a lookup would find the library's first."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: ModuleType, owner: type) -> Any:
        return present(module)["__getattr__"](self.name)


class WholeModule(ModuleType):
    """A module whose `__dict__` includes all its late names, for programs that go through a whole module."""

    save = LateName()  # nnsight adds `save` to every object

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
    """Return the homes for `lazy_names` from a table `module: name name; module: name`; the modules are included.

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
    """Return a placeholder for a function of a different module, which replaces it at the first call.

    A module with a `__getattr__` is slower to read, even for names that it has (by 18 ns in Python 3.11).
    """

    def late(*args: Any, **kwargs: Any) -> Any:
        function = getattr(whole_module(home), name)
        setattr(sys.modules[module], name, function)
        return function(*args, **kwargs)

    return late


class LateMethod:
    """A method or property that is imported when it is first used, and then replaces itself in its class.

    Its home is a module, or `module:Class` where that class has it. `adopt` binds it to the class it is for.
    """

    __slots__ = ("cls", "home", "name", "adopt", "found")

    def __init__(self, cls: type, home: str, name: str, adopt: Callable[[Any, str], Any]) -> None:
        self.cls, self.home, self.name, self.adopt = cls, home, name, adopt
        self.found: Any = None

    def find(self) -> Any:
        """Import the method and put it into the class."""
        home, _, family = self.home.partition(":")
        module = whole_module(home)
        found = vars(getattr(module, family))[self.name] if family else getattr(module, self.name)
        with _adoption:
            if self.found is None:
                self.found = self.adopt(found, self.name)
            if vars(self.cls).get(self.name) is self:  # it has not been replaced
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
    """Stands in Tensor for a PyTorch method that undertow lacks: reading it raises an AttributeError that names it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        message = f"'Tensor' object has no attribute {self.name!r} in undertow"
        raise AttributeError(message, name=self.name, obj=instance)


_beginning = threading.RLock()
_adoption = threading.RLock()  # threads that first use a method at the same time get the same one


class TableFinder:
    """Finds the modules that are rows of a table (`compat/name_tables.py`); Python tries it last."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        if name.startswith("undertow."):
            return importlib.import_module("undertow._src.compat.name_tables").find_spec(name)
        return None
