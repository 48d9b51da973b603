"""class Tensor: the public face, composed of the families of ops and the autograd methods."""

from __future__ import annotations

from typing import Any

from undertow import printing
from undertow._core import wrap
from undertow.autograd.apply import bind_tensor_class
from undertow.autograd.methods import AutogradMethods
from undertow.devices import cpu, device
from undertow.dtypes import DTYPE_OF, dtype
from undertow.ops.elementwise import ElementwiseMethods
from undertow.ops.reduce import ReduceMethods
from undertow.ops.shape import ShapeMethods
from undertow.sizes import Size, size_of


class Tensor(AutogradMethods, ElementwiseMethods, ReduceMethods, ShapeMethods):
    """A multi-dimensional array that can remember how it was computed."""

    __slots__ = ()

    # NumPy leaves operators with a tensor on the right to the tensor.
    __array_priority__ = 1000

    @property
    def shape(self) -> Size:
        """The size along each dim."""
        return size_of(self._array.shape)

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return DTYPE_OF[self._array.dtype]

    @property
    def device(self) -> device:
        """Where the tensor lives."""
        return cpu

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self._array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._array.tolist()

    def numpy(self) -> Any:
        """The same memory as a NumPy array."""
        return self._array

    def __repr__(self) -> str:
        notes = []
        if self.grad_fn is not None:
            notes.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        return printing.tensor_repr(self._array, notes=notes)


bind_tensor_class(Tensor)

__all__ = ["Tensor", "wrap"]
