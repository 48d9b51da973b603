"""Modules that hold settings: `install_config_module` makes one of a module whose variables are defaults.

Only names that the module defines can be set. `patch` sets some for a block, a function or a class of tests. As in
PyTorch, a value applies to the thread (or asyncio task) that set it, so threads cannot undo each other's blocks.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import os
import pickle
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any

__all__ = ["Config", "ConfigModule", "ContextDecorator", "SubConfigProxy", "get_tristate_env", "install_config_module"]

CONFIG_TYPES = (int, float, bool, type(None), str, list, set, tuple, dict)
_UNSET = object()


class _Config:
    """A setting that is more than a default: read from the environment, an alias, or deprecated."""

    def __init__(
        self, default: Any = _UNSET, justknob: str | None = None, env_name_default: Any = None, env_name_force: Any = None,
        value_type: type | None = None, alias: str | None = None, deprecated: bool = False,
        deprecation_message: str | None = None,
    ) -> None:  # fmt: skip
        if alias is not None and (default is not _UNSET or justknob or env_name_default or env_name_force):
            raise AssertionError("if alias is set, none of {default, justknob and env var} can be set")
        self.default, self.justknob, self.value_type, self.alias = default, justknob, value_type, alias
        self.env_name_default, self.env_name_force = _names(env_name_default), _names(env_name_force)
        self.deprecated, self.deprecation_message = deprecated, deprecation_message
        self.warned = False

    def first_value(self) -> Any:
        """Return the value of the setting until it is set."""
        for name in (*self.env_name_force, *self.env_name_default):
            found = _from_environment(name)
            if found is not None:
                return found
        return True if self.default is _UNSET else self.default


def Config(*args: Any, **kwargs: Any) -> Any:
    """Return the default of a setting, with its environment variables or alias."""
    return _Config(*args, **kwargs)


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _from_environment(name: str) -> bool | str | None:
    value = os.environ.get(name)
    return {"1": True, "0": False}.get(value, value) if value is not None else None


def get_tristate_env(name: str, default: Any = None) -> bool | None:
    """Return an environment variable as True (1), False (0) or the default."""
    value = os.environ.get(name)
    return True if value == "1" else False if value == "0" else default


class ConfigModule(ModuleType):
    """A module of settings."""

    _defaults: dict[str, Any]
    _special: dict[str, _Config]
    _config: dict[str, Any]  # both, in the order of the file
    _first: dict[str, Any]  # their values until they are set
    _set: ContextVar[dict[str, Any]]  # what was set in this context
    _open_ended = False  # whether names may be set that the module does not define

    def _absent(self, name: str) -> AttributeError:
        return AttributeError(f"{self.__name__.replace('undertow', 'torch', 1)}.{name} does not exist")

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        if "_set" not in held:
            raise self._absent(name)
        special = held["_special"].get(name)
        if special is None:
            for values in (held["_set"].get(), held["_first"]):
                if name in values:
                    return values[name]
            raise self._absent(name)
        if special.deprecated and not special.warned:
            special.warned = True
            warnings.warn(
                f"{self.__name__}.{name} is deprecated and {special.deprecation_message or 'is no longer needed'}. "
                "It will be removed in a future version of PyTorch.",
                FutureWarning,
                stacklevel=2,
            )
        if special.alias is not None:
            module, _, other = special.alias.rpartition(".")
            return getattr(importlib.import_module(module), other)
        return self._now()[name]

    def _now(self) -> dict[str, Any]:
        """Return all values in this context."""
        return {**self._first, **self._set.get()}

    def __setattr__(self, name: str, value: Any) -> None:
        special = self.__dict__.get("_special", {}).get(name)
        if special is not None and special.alias is not None:
            module, _, other = special.alias.rpartition(".")
            setattr(importlib.import_module(module), other, value)
        elif name.startswith("__"):
            self.__dict__[name] = value
        elif special is not None or name in self._defaults or self._open_ended:
            self._set.set({**self._set.get(), name: value})
        else:
            raise self._absent(name)

    def __delattr__(self, name: str) -> None:
        """Reset a setting; one that was not set here is removed."""
        for values in (self._set.get(), self._first, self.__dict__):
            if name in values:
                if values is self._set.get():
                    self._set.set({other: value for other, value in values.items() if other != name})
                else:
                    del values[name]
                return
        raise self._absent(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *[name for name in self._now() if "." not in name]})

    def _values(self) -> dict[str, Any]:
        """Return the current value of every setting that is not an alias."""
        values = self._now()
        return {name: values[name] for name in self._config if name in values}

    def _is_default(self, name: str) -> bool:
        default = self._defaults[name] if name in self._defaults else self._special[name].default
        return bool(self._values()[name] == default)

    def get_type(self, config_name: str) -> type:
        """Return the type of a setting's default."""
        special = self._special.get(config_name)
        if special is not None and special.value_type is not None:
            return special.value_type
        return type(self._defaults[config_name] if special is None else special.first_value())

    def get_config_copy(self) -> dict[str, Any]:
        """Return the current settings by name."""
        return copy.deepcopy(self._values())

    def get_serializable_config_copy(self) -> dict[str, Any]:
        """Return the settings that are saved to files."""
        ignored = self._values().get("_save_config_ignore", ())
        return {name: value for name, value in self.get_config_copy().items() if name not in ignored}

    def to_dict(self) -> dict[str, Any]:
        """Call `get_config_copy` (a deprecated name)."""
        return self._old("to_dict")

    def shallow_copy_dict(self) -> dict[str, Any]:
        """Call `get_config_copy` (a deprecated name)."""
        return self._old("shallow_copy_dict")

    def _old(self, name: str) -> dict[str, Any]:
        warnings.warn(
            f"`config.{name}()` has been deprecated. It no longer changes the underlying config: "
            "get_config_copy() returns a copy, and load_config() applies one",
            FutureWarning,
            stacklevel=3,
        )
        return self.get_config_copy()

    def save_config(self) -> bytes:
        """Return the settings as bytes that `load_config` reads."""
        return pickle.dumps(self.get_serializable_config_copy(), protocol=2)

    def save_config_portable(self, *, ignore_private_configs: bool = True, **_: Any) -> dict[str, Any]:
        """Return the settings that do not depend on the machine."""
        saved = self.get_serializable_config_copy()
        prefixes = tuple(self._values().get("_cache_config_ignore_prefix", ()))
        return {
            name: value
            for name, value in saved.items()
            if not (ignore_private_configs and name.startswith("_")) and not name.startswith(prefixes)
        }

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Restore the settings that `save_config` returned."""
        given = maybe_pickled_config
        for name, value in (pickle.loads(given) if isinstance(given, bytes) else given).items():
            if name in self._defaults or name in self._special:
                setattr(self, name, value)

    def codegen_config(self) -> str:
        """Return source code that sets what differs from the defaults."""
        changed = {name: value for name, value in self._values().items() if not self._is_default(name)}
        ignored = self._values().get("_save_config_ignore", ())
        return "\n".join(
            f"{self.__name__}.{name} = {value!r}" for name, value in changed.items() if name not in ignored
        )

    def get_hash(self) -> bytes:
        """Return a hash of all settings."""
        return hashlib.md5(repr(sorted(self.save_config_portable().items())).encode()).digest()

    def patch(self, arg1: Any = None, arg2: Any = None, **kwargs: Any) -> ContextDecorator:
        """Change settings for a block, a function or a class of tests: `patch(name=value)`, `patch("name", value)`."""
        if arg1 is not None and arg2 is not None and not isinstance(arg1, str):
            raise AssertionError("first argument must be a string when passing 2 positional args to patch")
        if isinstance(arg1, str):
            kwargs = {arg1: arg2}
        elif arg1 is not None:
            kwargs = dict(arg1)
        return _Patch(self, kwargs)

    def _make_closure_patcher(self, **changes: Any) -> Callable[[], Callable[[], None]]:
        """Return a function that changes these settings and returns a function that restores them."""

        def change() -> Callable[[], None]:
            patch = _Patch(self, changes)
            patch.__enter__()
            return lambda: patch.__exit__(None, None, None)

        return change


class ContextDecorator(contextlib.ContextDecorator):
    """For a `with` block, a function, or all the tests of a class."""

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __enter__")

    def __exit__(self, *exception: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __exit__")

    def __call__(self, func: Any) -> Any:
        if not isinstance(func, type):
            return super().__call__(func)
        if not issubclass(func, unittest.TestCase):
            return func
        before = func.setUpClass.__func__  # type: ignore[attr-defined]

        @functools.wraps(before)
        def set_up(cls: Any) -> None:
            self.__enter__()
            cls.addClassCleanup(self.__exit__, None, None, None)
            before(cls)

        func.setUpClass = classmethod(set_up)  # type: ignore[assignment]
        return func


class _Patch(ContextDecorator):
    def __init__(self, config: ConfigModule, changes: dict[str, Any]) -> None:
        self.config, self.changes = config, changes
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: _get_or(self.config, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.config, name, value)

    def __exit__(self, *exception: Any) -> None:
        for name, value in self.before.pop().items():
            if value is _UNSET:
                delattr(self.config, name)
            else:
                setattr(self.config, name, value)


def _get_or(config: ConfigModule, name: str) -> Any:
    """Return a setting; if any name may be set, one that is not set is `_UNSET`."""
    try:
        return getattr(config, name)
    except AttributeError:
        if not config._open_ended:
            raise
        return _UNSET


class SubConfigProxy:
    """The settings of a class inside a module of settings: `config.load.mmap` is the setting `load.mmap`."""

    def __init__(self, config: ConfigModule, prefix: str) -> None:
        self.__dict__.update(_config=config, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, self._prefix + name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._config, self._prefix + name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._config, self._prefix + name)


def install_config_module(module: ModuleType, open_ended: bool = False) -> None:
    """Turn a module whose variables are defaults into a module of settings."""
    defaults: dict[str, Any] = {}
    special: dict[str, _Config] = {}
    order: dict[str, Any] = {}
    for name, owner, value in list(_settings(module, "")):
        if isinstance(value, type):
            setattr(owner, name.rpartition(".")[2], SubConfigProxy(module, f"{name}."))  # type: ignore[arg-type]
            continue
        order[name] = value
        if isinstance(value, _Config):
            special[name] = value
        else:
            defaults[name] = value
        if owner is module:
            delattr(module, name)
    first = {name: copy.copy(value) for name, value in defaults.items()}
    first |= {name: each.first_value() for name, each in special.items() if each.alias is None}
    module.__dict__.update(
        _defaults=defaults,
        _special=special,
        _first=first,
        _set=ContextVar(f"{module.__name__} as set", default={}),  # noqa: B039  (it is never changed, only replaced)
        _open_ended=open_ended,
        _config=order,
    )
    module.__class__ = ConfigModule


def _settings(owner: Any, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every variable of a module, and of its classes, that is a setting or contains settings."""
    for name, value in list(vars(owner).items()):
        if name.startswith("__") or isinstance(value, (ModuleType, FunctionType)):
            continue
        if isinstance(value, type) and value.__module__ == getattr(owner, "__module__", owner.__name__):
            yield from _settings(value, f"{prefix}{name}.")
            yield f"{prefix}{name}", owner, value
        elif type(value) in CONFIG_TYPES or isinstance(value, _Config):
            yield f"{prefix}{name}", owner, value
