"""The engine that is watched: real PyTorch or undertow, through the names that both offer.

What is asked for every operation is asked of undertow's own fields where these answer faster (`UndertowEngine`).
"""

from __future__ import annotations

import importlib
import weakref
from math import inf
from typing import Any

import numpy as np

from undertow._src.base.modes import local, slow_path
from undertow._src.base.ownership import is_own_module
from undertow.why.watch.patches import Patches

_LARGE = 4096


class Engine:
    """One torch-like package, and the questions that watching asks of it."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        package = torch.__name__
        self.name = "undertow" if is_own_module(torch) else "torch"
        self.overrides = importlib.import_module(f"{package}.overrides")
        self.nn = importlib.import_module(f"{package}.nn")
        self.module_file = importlib.import_module(f"{package}.nn.modules.module")
        self.optim = importlib.import_module(f"{package}.optim.optimizer")
        self.handles = importlib.import_module(f"{package}.utils.hooks")
        self.autograd = torch.autograd
        self.Tensor: Any = torch.Tensor
        self.Module: Any = self.nn.Module
        self.Parameter: Any = self.nn.Parameter
        self.vector_norm, self.aminmax = torch.linalg.vector_norm, torch.aminmax
        self.is_grad_enabled = torch.is_grad_enabled
        self._kinds: dict[Any, tuple[str, bool]] = {}
        # Attributes of tensors arrive as `descriptor.__get__`: which descriptor is which attribute.
        self.attributes: dict[int, str] = {}
        for cls in reversed(self.Tensor.__mro__):
            for name, value in vars(cls).items():
                if hasattr(type(value), "__set__"):
                    self.attributes[id(value)] = name

    def install(self, patches: Patches) -> None:
        """While a program is watched, `torch.compile` compiles nothing: compiled code would show nothing."""

        def uncompiled(compile: Any) -> Any:
            return lambda *args, **kwargs: compile(*args, **{**kwargs, "disable": True})

        patches.wrap(self.torch, "compile", uncompiled)

    def uninstall(self) -> None:
        """Undo `install`."""

    def name_of(self, function: Any) -> str:
        """`grad.get`, `data.set`, or a function's own name without what leads to it."""
        name = getattr(function, "__name__", None)
        if name == "__get__" or name == "__set__":
            attribute = self.attributes.get(id(getattr(function, "__self__", None)))
            if attribute is not None:
                return attribute + (".get" if name == "__get__" else ".set")
        return name if name is not None else type(function).__name__

    def tensors_in(self, value: Any, depth: int = 4) -> list[Any]:
        """Return the tensors in nested lists, tuples and dicts, in order."""
        if isinstance(value, self.Tensor):
            return [value]
        found: list[Any] = []
        if isinstance(value, (list, tuple, dict)):
            tensor = self.Tensor
            for part in value.values() if isinstance(value, dict) else value:
                if isinstance(part, tensor):
                    found.append(part)
                elif depth > 1 and isinstance(part, (list, tuple, dict)):
                    found += self.tensors_in(part, depth - 1)
        return found

    def kind_of(self, tensor: Any) -> tuple[str, bool]:
        """Return (the dtype's short name, whether it has gradients)."""
        dtype = tensor.dtype
        known = self._kinds.get(dtype)
        if known is None:
            floats = tensor.is_floating_point() or tensor.is_complex()
            known = self._kinds[dtype] = str(dtype).removeprefix("torch."), floats
        return known

    def shape(self, tensor: Any) -> tuple[int, ...]:
        """Return the lengths of a tensor's dimensions; a lazy module's parameter has none before the first call."""
        try:
            return tuple(tensor.shape)
        except RuntimeError:
            return (0,)

    def peak(self, tensor: Any) -> float | None:
        """Return the largest absolute value: 0 if all are zero, NaN or inf if any is; None if there are no values."""
        try:
            if not self.kind_of(tensor)[1] or not tensor.numel():
                return None
            if tensor.is_complex():
                return self._norm(tensor, inf)
            least, most = self.aminmax(tensor.detach())  # many times faster than the norm of order inf
            return max(most.item(), -least.item())
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, meta
            return None

    def norm(self, tensor: Any) -> float | None:
        """Return the length of a tensor as a vector."""
        return self._norm(tensor, 2)

    def _norm(self, tensor: Any, order: float) -> float | None:
        try:
            if not self.kind_of(tensor)[1] or not tensor.numel():
                return None
            return self.vector_norm(tensor.detach(), order).item()
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, meta
            return None

    def asks(self, tensor: Any) -> bool:
        """Whether a tensor asks for gradients."""
        return tensor.requires_grad

    def node(self, tensor: Any) -> Any:
        """Return a tensor's grad_fn; None also for a view that autograd has given up on."""
        try:
            return tensor.grad_fn
        except RuntimeError:
            return None

    def base(self, tensor: Any) -> Any:
        """Return the tensor that a view was taken from; None for others."""
        return tensor._base if tensor._is_view() else None

    def version(self, tensor: Any) -> int:
        """How often a tensor's memory was changed in place."""
        try:
            return tensor._version
        except RuntimeError:  # an inference tensor does not count
            return -1

    def address(self, tensor: Any) -> int | None:
        """Where a tensor's values lie; None for one without memory of its own: inside vmap and grad, a lazy module's."""
        try:
            return tensor.data_ptr()
        except (RuntimeError, ValueError):
            return None

    # --- nodes

    def number(self, node: Any, tag: str) -> int | None:
        """Return the number that a node was given: kept in its own `metadata`, which lives exactly as long as it does."""
        return node.metadata.get(tag)

    def set_number(self, node: Any, tag: str, number: int) -> None:
        node.metadata[tag] = number

    def children(self, node: Any) -> list[Any]:
        """Return the nodes that a node sends gradients to."""
        return [child for child, _ in node.next_functions if child is not None]

    def node_name(self, node: Any) -> str:
        return node.name().rpartition("::")[2]

    def listen(self, listener: Any) -> bool:
        """Notify a listener of each node that runs in backward, if the engine supports it; otherwise hooks are used."""
        return False

    def unlisten(self, listener: Any) -> None:
        pass

    # --- while library code runs, nobody needs to be asked about its operations

    def hush(self) -> Any:
        """Return a context manager that disables function modes."""
        return self.torch._C.DisableTorchFunction()

    def rest(self) -> None:
        """Note that the function mode is off."""

    def wake(self) -> None:
        """Note that it is on again."""


class UndertowEngine(Engine):
    """undertow, by its own fields."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch)
        self._numbers: dict[int, tuple[Any, int]] = {}

    def install(self, patches: Patches) -> None:
        """Compiled steps run as they were written."""
        slow_path.as_written += 1

    def uninstall(self) -> None:
        slow_path.as_written -= 1

    def peak(self, tensor: Any) -> float | None:
        if not has_array(tensor):
            return super().peak(tensor)
        return peak_of(tensor._array) if self.kind_of(tensor)[1] else None

    def norm(self, tensor: Any) -> float | None:
        length = carried_norm(tensor) if has_array(tensor) else None
        return super().norm(tensor) if length is None else length

    def kind_of(self, tensor: Any) -> tuple[str, bool]:
        if not has_array(tensor):
            return super().kind_of(tensor)
        dtype = tensor._array.dtype
        known = self._kinds.get(dtype)
        if known is None:
            floats = tensor.is_floating_point() or tensor.is_complex()
            known = self._kinds[dtype] = str(tensor.dtype).removeprefix("torch."), floats
        return known

    def asks(self, tensor: Any) -> bool:
        return tensor._requires_grad if tensor._view is None else tensor.requires_grad

    def node(self, tensor: Any) -> Any:
        if tensor._view is not None:
            return super().node(tensor)
        edge = tensor._edge
        return None if edge is None else edge[0]

    def base(self, tensor: Any) -> Any:
        return None if tensor._view is None else super().base(tensor)

    def version(self, tensor: Any) -> int:
        return 0 if tensor._storage is None else super().version(tensor)

    # A node with metadata is a special one to the engine, so nodes are known by weak references instead.
    def number(self, node: Any, tag: str) -> int | None:
        known = self._numbers.get(id(node))
        return known[1] if known is not None and known[0]() is node else None

    def set_number(self, node: Any, tag: str, number: int) -> None:
        self._numbers[id(node)] = weakref.ref(node), number

    def children(self, node: Any) -> list[Any]:
        return [edge[0] for edge in node._edges if edge is not None]

    def listen(self, listener: Any) -> bool:
        slow_path.listeners.append(listener)
        return True

    def unlisten(self, listener: Any) -> None:
        slow_path.listeners.remove(listener)

    def hush(self) -> Any:
        return _NoModes()

    def rest(self) -> None:
        slow_path.leave()

    def wake(self) -> None:
        slow_path.enter()


class _NoModes:
    """undertow without function modes for a block; a lone mode's absence lets operations take their fast paths."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before, local.modes.function_modes = local.modes.function_modes, []
        slow_path.leave()

    def __exit__(self, *exception: Any) -> None:
        slow_path.enter()
        local.modes.function_modes = self.before


def has_array(tensor: Any) -> bool:
    """Tell whether a tensor has a memory that may be read; inside vmap it holds all examples at once."""
    try:
        return tensor._array is not None
    except RuntimeError:
        return False


def peak_of(array: Any) -> float | None:
    """Return the largest absolute value of an undertow tensor's array."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if not array.size:
        return None
    if array.dtype.kind not in "fc":  # bfloat16 and its kind
        array = array.astype(np.float32)
    if array.size > _LARGE and array.dtype.kind == "f":
        return float(max(array.max(), -array.min()))  # no temporary
    return float(np.maximum.reduce(np.absolute(array), axis=None))


def carried_peak(gradient: Any) -> float | None:
    """Return the largest absolute value of a gradient as undertow's backward pass carries it: an array or a tensor."""
    if gradient is None:
        return None
    return peak_of(gradient if type(gradient) is np.ndarray else getattr(gradient, "_array", gradient))


def carried_norm(gradient: Any) -> float | None:
    """Return the length of a gradient as undertow's backward pass carries it; None where it is no array of floats."""
    array = gradient if type(gradient) is np.ndarray else getattr(gradient, "_array", None)
    if type(array) is not np.ndarray or array.dtype.kind not in "fcV" or not array.size:  # V: bfloat16 and its like
        return None
    flat = (np.abs(array) if array.dtype.kind == "c" else array).ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.dot(flat, flat)))


def engine_of(torch: Any) -> Engine:
    """Return the engine behind a torch-like package."""
    return UndertowEngine(torch) if is_own_module(torch) else Engine(torch)
