"""What a tensor is: an array, the storage it shares with its aliases, its view record, and its place in the graph.

Six slots, filled by position, because every op makes one of these:

    _array          the raw array. On NumPy a view is a real memory alias.
    _edge           (node, output number) that computed it; None for a leaf
    _requires_grad  whether gradients flow to it
    _storage        shared by all aliases of one memory and made when the first alias or write appears; counts writes
    _view           how it was taken from its base, if it is a view
    _meta           the rest: .grad, hooks, the accumulator of a leaf
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.placement import at_home
from undertow._src.base.modes import slow_path

if TYPE_CHECKING:
    from weakref import ref

ndarray = np.ndarray

# Held while state that all users of a tensor share is made: two threads that find it missing must not make it twice.
making = threading.Lock()


class Storage:
    """A buffer's version counter: how often it was written to. All aliases share it."""

    __slots__ = ("version", "writes", "__weakref__")

    def __init__(self) -> None:
        self.version = 0
        self.writes: Any = None  # in anomaly mode: the line of each write


class InferenceStorage(Storage):
    """The storage of tensors made in inference mode, which count no writes and never join a graph."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.version = -1  # an impossible version, so that saving such a tensor for backward is noticed


class View:
    """How a view was taken: from which base, by which steps, and whether it may be written to."""

    __slots__ = ("base", "steps", "whole", "version", "origin", "borrows")

    def __init__(self, base: TensorCore, steps: tuple[Any, ...], version: int, origin: str | None) -> None:
        self.base = base
        self.steps = steps  # from the base to the view, see engine/views.py, Step
        self.whole = base._array  # the base's array when the steps were taken
        self.borrows = False  # whether it requires gradients only because its base does, without a path for them
        self.version = version  # the storage's version at which the view's edge was valid
        self.origin = origin  # None, or why autograd refuses writes: "no_grad", "multi_output", "function", "inference"


class GradDtype:
    """The dtype that a leaf requires of its gradients, if not its own; None accepts any dtype.

    While any leaf requires one, every backward pass takes its general path.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        slow_path.enter()

    def __del__(self) -> None:
        slow_path.leave()


class Meta:
    """What few tensors have: a gradient, hooks, an accumulator."""

    __slots__ = ("grad", "hooks", "post_hooks", "accumulator", "retains", "grad_dtype")

    def __init__(self) -> None:
        self.grad: Any = None
        self.hooks: Any = None  # of a leaf; a computed tensor's hooks live on its node
        self.post_hooks: Any = None
        self.accumulator: ref[Any] | None = None
        self.retains = False
        self.grad_dtype: GradDtype | None = None  # of a leaf whose gradients may have a dtype other than its own


class TensorCore:
    """The state of a tensor. `_tensor.Tensor` adds the public methods."""

    __slots__ = ("_array", "_edge", "_requires_grad", "_storage", "_view", "_meta", "__weakref__", "__dict__")

    _array: Any
    _edge: Any
    _requires_grad: bool
    _storage: Storage | None
    _view: View | None
    _meta: Meta | None
    _is_strided = True  # whether there is an array: sparse tensors have none

    if TYPE_CHECKING:  # added by the public class and used by the code below it

        def __getattr__(self, name: str) -> Any: ...

    def _get_storage(self) -> Storage:
        storage = self._storage
        if storage is None:
            with making:
                storage = self._storage
                if storage is None:
                    storage = self._storage = Storage()
        return storage

    def _get_meta(self) -> Meta:
        meta = self._meta
        if meta is None:
            with making:
                meta = self._meta
                if meta is None:
                    meta = self._meta = Meta()
        return meta


_new = object.__new__
_tensor_class: Any = TensorCore
NOT_ARRAYS: set[type] = {type(None), list}  # gradients that are no arrays; tensor classes are added


def bind_tensor_class(cls: type[TensorCore]) -> None:
    """Register the public tensor class. Ops make instances of it but are imported before it: the only name bound late."""
    global _tensor_class
    _tensor_class = cls
    NOT_ARRAYS.add(cls)


def tensor_class() -> Any:
    """Return the public tensor class."""
    return _tensor_class


def wrap(array: Any, cls: Any = None) -> Any:
    """Return a new leaf tensor over an array (NumPy scalars become 0-d arrays)."""
    tensor = _new(cls or _tensor_class)
    if type(array) is not ndarray:
        if isinstance(array, (np.generic, int, float, complex)):
            array = np.asarray(array)
        elif hasattr(type(array), "BATCHED"):  # read from the type, because a device array would read its value
            return array.as_tensor()
        elif cls is None and hasattr(type(array), "without_values"):
            return importlib.import_module("undertow._src.tensor.meta_tensor").as_meta(array)
    if slow_path.count:
        array = at_home(array)
    tensor._array = array
    tensor._edge = None
    tensor._requires_grad = False
    tensor._storage = None
    tensor._view = None
    tensor._meta = None
    return tensor
