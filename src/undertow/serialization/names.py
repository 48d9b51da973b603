"""Names in files are PyTorch's: the PyTorch name of an undertow object, and the object for a PyTorch name."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from undertow._src.types import dtypes
from undertow._src.types.layouts import layout
from undertow._tensor import Tensor
from undertow.serialization.rebuild import REBUILD, TorchFunction
from undertow.serialization.storages import BY_NAME, StorageType


def get_layout(name: str) -> layout:
    """Return the layout that prints as `name`."""
    found = getattr(sys.modules["undertow._src.types.layouts"], name.removeprefix("torch."), None)
    if not isinstance(found, layout):
        raise ValueError(f"there is no layout {name!r}")
    return found


# Names in files whose object is in a different module here, or is a replacement.
_ANSWERS: dict[str, Any] = {
    **REBUILD,
    **BY_NAME,
    **{f"torch.{kind.name}": kind for kind in (*dtypes.ALL, *dtypes.FLOAT8)},
    "torch.Tensor": Tensor,
    "torch.serialization._get_layout": get_layout,
}
# PyTorch's modules of compiled functions, and the modules of undertow's functions of those names.
_COMPILED = {"torch._C._nn": "undertow.nn.functional", "torch._C._special": "undertow.special"}

# The public modules of functions that undertow defines in a different module than PyTorch.
_PUBLIC = ("undertow", "undertow.nn.functional", "undertow.special", "undertow.linalg", "undertow.fft")


class UnknownName(AttributeError):
    """A file names an object of PyTorch that undertow does not have."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"undertow has no {module}.{name}")


def torch_name(obj: Any, name: str | None = None) -> tuple[str, str] | None:
    """Return PyTorch's (module, name) of an undertow object; None for anything else."""
    if isinstance(obj, (StorageType, TorchFunction)):
        return obj.module, obj.name
    module = getattr(obj, "__module__", None)
    root, _, path = module.partition(".") if isinstance(module, str) else ("", "", "")
    if root not in ("undertow", "torch"):  # some classes have a __module__ in torch
        return None
    name = name or getattr(obj, "__qualname__", None) or obj.__name__
    own = f"undertow.{path}" if path else "undertow"
    for home in (*_PUBLIC, own):
        if home in sys.modules and getattr(sys.modules[home], name, None) is obj:
            return "torch" + home.removeprefix("undertow"), name
    return ("torch" + own.removeprefix("undertow"), name) if root == "undertow" else None


def undertow_object(module: str, name: str) -> Any:
    """Return the object for a PyTorch name, importing undertow's module of that name if needed."""
    found = _ANSWERS.get(f"{module}.{name}")
    if found is not None:
        return found
    if name == "_VariableFunctionsClass":  # the class whose attributes PyTorch pickles functions such as torch.relu by
        return sys.modules["undertow"]
    home = _COMPILED.get(module, "undertow" + module.removeprefix("torch"))
    try:
        found = importlib.import_module(home)
    except ImportError:
        if not module.startswith("torch._"):
            raise UnknownName(module, name) from None
        found = sys.modules["undertow"]  # private modules of PyTorch whose functions are public elsewhere
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UnknownName(module, name) from None
    return found


def is_torch(module: str) -> bool:
    """Whether a module name in a file is PyTorch's."""
    return module == "torch" or module.startswith("torch.")
