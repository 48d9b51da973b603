"""class Tensor: the public class, composed of the autograd methods, Python's protocols and the families of ops.

A family of ops is imported when one of its methods is first used: see METHODS in `_src/base/lazy_table.py`.
"""

from __future__ import annotations

import copyreg
from types import CellType, FunctionType
from typing import Any

from undertow._src.base.lazy import LackingMethod, LateMethod, lazy_names
from undertow._src.base.lazy_table import LACKING_METHODS, METHODS
from undertow._src.base.torch_named import pickled_class
from undertow._src.engine.apply import bind_tensor_class
from undertow._src.engine.methods import AutogradMethods
from undertow._src.ops.public import public_method
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.creation import CreationMethods
from undertow._src.tensor.from_data import legacy_tensor
from undertow._src.tensor.methods.convert import ConvertMethods
from undertow._src.tensor.methods.copy import CopyMethods
from undertow._src.tensor.methods.layout import LayoutMethods
from undertow._src.tensor.methods.python import PythonMethods
from undertow._src.types.dtypes import get_default_dtype


class _TensorMeta(type):
    """The metaclass of tensors."""

    __module__ = "torch._C"

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if type(vars(Tensor).get(name)) is not LackingMethod]


class Tensor(
    PythonMethods, LayoutMethods, AutogradMethods, ConvertMethods, CreationMethods, CopyMethods, metaclass=_TensorMeta
):
    """A multi-dimensional array that can record how it was computed.

    `Tensor(2, 3)` is an uninitialised tensor of that size, `Tensor([1, 2])` one of the default dtype with these values.
    Prefer `undertow.tensor` to make one.
    """

    __slots__ = ()
    __module__ = "torch"
    _repr_prefix = "tensor("
    __hash__ = PythonMethods.__hash__  # Python removes it from classes that define __eq__

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = legacy_tensor(args, kwargs, get_default_dtype(), strict=False)
        if cls is not Tensor:
            made.__class__ = cls
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        torch_function.register_class(cls)

    __torch_dispatch__ = staticmethod(torch_function.dispatch_disabled)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function on a subclass by default: unchanged, with results of its class."""
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        with torch_function.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result if func in _UNCONVERTED else torch_function.convert(result, cls)


_UNCONVERTED = {Tensor._base.__get__, Tensor.grad.__get__}


def _of_its_own(function: FunctionType, name: str) -> FunctionType:
    """Return a copy of a function as a separate object, which also refers to itself.

    `torch.add` and `Tensor.add` are one piece of code here, but `__torch_function__` must be able to tell them apart.
    """
    cells = []
    twin_cell = CellType()
    for cell in function.__closure__ or ():
        cells.append(twin_cell if cell.cell_contents is function else cell)
    twin = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, tuple(cells))
    twin.__kwdefaults__, twin.__doc__ = function.__kwdefaults__, function.__doc__
    twin.__dict__.update(function.__dict__)
    twin_cell.cell_contents = twin
    return _known_as(twin, name)


def _known_as(method: FunctionType, name: str) -> FunctionType:
    """Set the module and qualified name by which a method can be imported, for example by pickle."""
    method.__module__, method.__qualname__ = __name__, f"Tensor.{name}"
    return method


def _finish(cls: Any) -> None:
    """Give Tensor its own copies of public functions that are methods, and make autograd's methods overridable.

    Properties without a setter get one that raises PyTorch's error.
    """
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if type(value) is property:
                _refuse_writing(value, name)
            if type(value) is FunctionType and name not in vars(cls):
                if "." not in value.__qualname__:
                    setattr(cls, name, _of_its_own(value, name))
                elif base is AutogradMethods and (name[0] != "_" or name == "_is_view"):
                    setattr(cls, name, _known_as(public_method(value), name))


def _adopted(found: Any, name: str) -> Any:
    """Return the member of a family of ops for Tensor: a copy of a public function, or an overridable property."""
    if type(found) is property:
        _refuse_writing(found, name)
        torch_function.make_property_check(Tensor, found)
        return found
    return _of_its_own(found, name) if "." not in found.__qualname__ else found


def _refuse_writing(value: property, name: str) -> None:
    def refuse(self: Any, value: Any = None) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    if value.fset is None:
        value.__init__(value.fget, refuse, value.fdel or refuse, value.__doc__)  # type: ignore[misc]


_finish(Tensor)
for _home, _names in METHODS.items():
    for _name in _names.split():
        setattr(Tensor, _name, LateMethod(Tensor, _home, _name, _adopted))
for _name in LACKING_METHODS.split():
    setattr(Tensor, _name, LackingMethod(_name))
bind_tensor_class(Tensor)


copyreg.pickle(_TensorMeta, pickled_class)

__all__ = ["Tensor", "TensorCore", "wrap"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_convert": "undertow._src.overrides.torch_function:convert", "_rebuild_from_type": "undertow._utils",
        "_rebuild_from_type_v2": "undertow._utils", "get_default_nowrap_functions": "undertow.overrides",
    },
)  # fmt: skip
