"""`pretend_torch`: make every `import torch` import undertow.

    with undertow.pretend_torch():
        import torch                     # undertow
        from torch.nn import functional  # undertow.nn.functional
        import some_package_for_pytorch

The modules are undertow's, under second names in `sys.modules`; `torch.__version__` is the version of PyTorch whose
behaviour undertow has. For a name that undertow does not have, the error gives the full name. A real PyTorch that was
imported before is set aside and restored at the end; packages that imported it keep it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Self

from undertow import torch_version, version
from undertow._src.base.lazy import TableFinder, WholeModule, present
from undertow._src.base.ownership import module_name
from undertow._src.compat import incidental_exports, missing_names

# A package named torch that only calls pretend_torch: spawned (not forked) child processes find it on sys.path.
FOR_CHILDREN = str(Path(missing_names.__file__).parent / "child_processes")


def own_name(name: str) -> str:
    """Return undertow's name of a module: `undertow.nn` for `torch.nn`."""
    return "undertow" + name.removeprefix("torch")


def torch_name(name: str) -> str:
    """Return torch's name of a module: `torch.nn` for `undertow.nn`."""
    return "torch" + name.removeprefix("undertow")


def _is(package: str, name: str) -> bool:
    return name == package or name.startswith(f"{package}.")


# Modules without a counterpart in PyTorch, which have undertow's names only.
_NOT_OF_TORCH = {"_src", "cli", "pretend", "why"}


def _is_of_torch(name: str) -> bool:
    """Whether a module, by undertow's or torch's name, may be imported from torch."""
    return _NOT_OF_TORCH.isdisjoint(name.split(".")[1:2])


def _modules(package: str) -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if _is(package, name)}


# --- names that undertow does not have


class _NameInFull:
    """The `__getattr__` of an undertow module that serves as torch: errors give the full name of what is missing."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module = module
        self.name = name
        self.before = present(module).get("__getattr__")

    def __call__(self, name: str) -> Any:
        if self.before is not None:
            try:
                return self.before(name)
            except AttributeError:
                pass
        module = self.module
        if name == "__path__" and missing_names.may_stand_in(self.name):
            return []  # a file here, a package in PyTorch: its submodules are missing, and are handled one by one
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
        frame = sys._getframe(1)
        if not missing_names.in_import_system(frame):  # the import system tries modules first, then asks again
            try:
                return incidental_exports.from_neighbour(self.name, name)
            except AttributeError:
                pass
        if missing_names.in_import_from(frame):
            allowed = missing_names.may_stand_in(f"{self.name}.{name}") or missing_names.is_mentioned(self.name, name)
            if allowed and not missing_names.is_prepared(frame):
                return missing_names.stand_in(f"{self.name}.{name}")
            raise ImportError(f"cannot import name {name!r} from {self.name!r} in undertow", name=self.name)
        if missing_names.is_mentioned(self.name, name):
            return missing_names.stand_in(f"{self.name}.{name}")
        raise AttributeError(f"module {self.name!r} has no attribute {name!r} in undertow", name=name, obj=module)


class _RegisteringLoader(Loader):
    """Loads an undertow module as usual, and registers it under torch's name."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.usual.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.usual
        module.__loader__ = self.usual
        self.usual.exec_module(module)
        _register(module.__name__, module)


def _register(name: str, module: ModuleType) -> None:
    _set_module_names(module)
    if not _is_of_torch(name):
        return
    sys.modules[torch_name(name)] = module
    here = present(module)
    if type(here.get("__getattr__")) is not _NameInFull:
        if type(module) is ModuleType and "__getattr__" in here:
            module.__class__ = WholeModule
        here["__getattr__"] = _NameInFull(module, torch_name(name))


def _unregister(module: ModuleType) -> None:
    here = present(module)
    answer = here.get("__getattr__")
    if type(answer) is _NameInFull:
        del here["__getattr__"]
        if answer.before is not None:
            here["__getattr__"] = answer.before
        if type(module) is WholeModule:
            module.__class__ = ModuleType  # type: ignore[assignment]


def _set_module_names(module: ModuleType) -> None:
    """Set `__module__` of classes to torch's module name, for printing and pickling; undertow-only classes keep theirs."""
    for value in present(module).values():
        if isinstance(value, type) and _is("undertow", home := module_name(value)) and _is_of_torch(home):
            _state.homes.append((value, home))
            value.__module__ = torch_name(home)


# --- imports


class _AliasLoader(Loader):
    """Gives an undertow module a second name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(own_name(spec.name))
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has just overwritten it

    def get_code(self, fullname: str) -> CodeType | None:
        """Return a module's code, for `python -m`."""
        loader: Any = PathFinder.find_spec(
            own_name(fullname), sys.modules[own_name(fullname.rpartition(".")[0])].__path__
        )
        return loader.loader.get_code(own_name(fullname))


class _Finder(MetaPathFinder):
    """Finds undertow's modules under torch's names, and registers modules that undertow itself imports."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if _is("torch", fullname):
            # Loading happens later: the search holds a lock that other threads need to finish their imports.
            if _has_own_module(fullname):
                return ModuleSpec(fullname, _AliasLoader())
            if _may_be_placeholder(fullname, sys._getframe(1)):
                return ModuleSpec(fullname, missing_names.LackingLoader(), is_package=True)
            raise ModuleNotFoundError(f"No module named {fullname!r} in undertow", name=fullname)
        if _is("undertow", fullname):
            spec = PathFinder.find_spec(fullname, path, target) or TableFinder.find_spec(fullname)
            if spec is not None and spec.loader is not None:
                spec.loader = _RegisteringLoader(spec.loader)
            return spec
        return None

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """Return the distribution for `importlib.metadata.version("torch")`."""
        if getattr(context, "name", None) == "torch":
            yield _Distribution()


def _may_be_placeholder(name: str, importer: FrameType) -> bool:
    """Whether a missing module may be replaced by a placeholder: its import is not inside a `try`."""
    frame = missing_names.importing_frame(importer)
    return frame is not None and missing_names.may_stand_in(name) and not missing_names.is_prepared(frame)


def _has_own_module(name: str) -> bool:
    """Whether undertow has a module of this name; its parent packages are already imported."""
    if not _is_of_torch(name):
        return False
    own = own_name(name)
    folders = getattr(sys.modules.get(own.rpartition(".")[0]), "__path__", ())  # empty if the parent is missing
    spec = (PathFinder.find_spec(own, folders) or TableFinder.find_spec(own)) if folders else None
    # A spec without a loader is an empty folder, left over from a move.
    return own in sys.modules or (spec is not None and spec.loader is not None)


class _Distribution(importlib.metadata.Distribution):
    """The metadata of a package named torch."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {torch_version.__version__}\n"

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


# --- the switch


class _State:
    """The state of pretending, with what has to be restored at the end."""

    def __init__(self) -> None:
        self.users = 0
        self.finder = _Finder()
        self.real: dict[str, ModuleType] = {}
        self.versions: tuple[Any, ...] = ()
        self.homes: list[tuple[type, str]] = []  # classes, and their module names while undertow does not pretend

    def start(self) -> None:
        self.users += 1
        if self.users > 1:
            return
        self.real = _modules("torch")
        for name in self.real:
            del sys.modules[name]
        sys.meta_path.insert(0, self.finder)
        sys.path.insert(min(1, len(sys.path)), FOR_CHILDREN)
        for name, module in _modules("undertow").items():
            _register(name, module)
        package: Any = sys.modules["undertow"]
        self.versions = package.__version__, version.__version__
        package.__version__ = version.__version__ = torch_version.__version__
        package.__name__ = "torch"
        package.torch = package  # PyTorch has this name, too, and some programs write torch.torch

    def stop(self) -> None:
        self.users -= 1
        if self.users:
            return
        sys.meta_path.remove(self.finder)
        if FOR_CHILDREN in sys.path:
            sys.path.remove(FOR_CHILDREN)
        for name, module in _modules("torch").items():
            del sys.modules[name]
            if isinstance(module, missing_names.LackingModule):  # the import system has set it on its parent
                parent, _, last = name.rpartition(".")
                if own_name(parent) in sys.modules:
                    present(sys.modules[own_name(parent)]).pop(last, None)
        for module in _modules("undertow").values():
            _unregister(module)
        for kind, home in self.homes:
            kind.__module__ = home
        self.homes = []
        package: Any = sys.modules["undertow"]
        package.__version__, version.__version__ = self.versions
        package.__name__ = "undertow"
        del package.torch
        sys.modules.update(self.real)
        self.real = {}


_state = _State()


class pretend_torch:
    """Make every `import torch` import undertow, from now on; in a `with` block, until its end.

    >>> with undertow.pretend_torch():
    ...     import torch.nn.functional as F
    ...     torch is undertow, F is undertow.nn.functional
    (True, True)
    """

    def __init__(self) -> None:
        self._active = True
        _state.start()

    def __enter__(self) -> Self:
        if not self._active:
            self._active = True
            _state.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop pretending, like the end of a `with` block."""
        if self._active:
            self._active = False
            _state.stop()
