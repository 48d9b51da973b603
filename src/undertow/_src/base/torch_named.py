"""Classes that say they live in torch, as PyTorch's do: when one is pickled by name, it must not be looked for there."""

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
    """How a class is pickled: one of torch's names by where undertow has it, a program's own as any other."""
    module = cls.__module__
    if module == "torch" or module.startswith("torch."):
        return class_named, (module, cls.__qualname__)
    return cls.__qualname__


class TorchNamed(type):
    """The class of such classes."""


copyreg.pickle(TorchNamed, pickled_class)
