"""Classes that say they live in torch, as PyTorch's do; when one is pickled by name, it must not be looked up there."""

from __future__ import annotations

import copyreg
import functools
import importlib
from typing import Any


def class_named(module: str, name: str) -> Any:
    """Return the class that undertow has under one of PyTorch's names."""
    home = importlib.import_module("undertow" + module.removeprefix("torch"))
    return functools.reduce(getattr, name.split("."), home)


def pickled_class(cls: Any) -> Any:
    """Return what a class is pickled as: one with a torch name by undertow's place for it, a program's own as usual."""
    module = cls.__module__
    if module == "torch" or module.startswith("torch."):
        return class_named, (module, cls.__qualname__)
    return cls.__qualname__


class TorchNamed(type):
    """The metaclass of such classes."""


copyreg.pickle(TorchNamed, pickled_class)
