"""The watched engine, PyTorch or undertow, through the names that both share.

`UndertowEngine` reads undertow's private fields for what every operation needs, because that is faster.
"""

from __future__ import annotations

import importlib
import weakref
from math import inf, isfinite
from typing import Any

import numpy as np

from undertow._src.base.modes import local, slow_path
from undertow._src.base.ownership import is_own_module
from undertow.why.watch.patches import Patches

_LARGE = 4096


class Engine:
    """One torch-like package, and the functions of it that watching needs."""

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
        # A function mode gets tensor attributes as `descriptor.__get__`. This maps descriptors to attribute names.
        self.attributes: dict[int, str] = {}
        for cls in reversed(self.Tensor.__mro__):
            for name, value in vars(cls).items():
                if hasattr(type(value), "__set__"):
                    self.attributes[id(value)] = name

    def install(self, patches: Patches) -> None:
        """Make `torch.compile` compile nothing: the watcher cannot observe compiled code."""

        def uncompiled(compile: Any) -> Any:
            return lambda *args, **kwargs: compile(*args, **{**kwargs, "disable": True})

        patches.wrap(self.torch, "compile", uncompiled)

    def uninstall(self) -> None:
        """Undo `install`."""

    def name_of(self, function: Any) -> str:
        """Return a function's name; for an attribute `grad.get` or `data.set`."""
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
        """Return (the dtype's short name, whether the dtype can have gradients)."""
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

    def level(self, tensor: Any) -> float | None:
        """Return 0 if all values are zero, NaN or inf if any is, and otherwise any positive number; None without values.

        A sum tells nearly always: if it is finite, all values are.
        """
        try:
            if not tensor.is_floating_point() or not tensor.numel():
                return self.peak(tensor)
            total = tensor.detach().sum().item()
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, meta
            return None
        return abs(total) if total and isfinite(total) else self.peak(tensor)

    def is_finite(self, tensor: Any) -> bool:
        """Whether a gradient has no NaN and no Inf; True where that cannot be told."""
        with self.torch._C.DisableTorchFunction():
            peak = self.peak(tensor)
        return peak is None or isfinite(peak)

    def norm(self, tensor: Any) -> float | None:
        """Return the Euclidean norm of a tensor."""
        return self._norm(tensor, 2)

    def _norm(self, tensor: Any, order: float) -> float | None:
        try:
            if not self.kind_of(tensor)[1] or not tensor.numel():
                return None
            return self.vector_norm(tensor.detach(), order).item()
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, meta
            return None

    def requires_grad(self, tensor: Any) -> bool:
        """Whether a tensor requires grad."""
        return tensor.requires_grad

    def node(self, tensor: Any) -> Any:
        """Return a tensor's grad_fn; None also where reading it raises, as for an invalid view."""
        try:
            return tensor.grad_fn
        except RuntimeError:
            return None

    def base(self, tensor: Any) -> Any:
        """Return the tensor that a view was taken from; None for others."""
        return tensor._base if tensor._is_view() else None

    def version(self, tensor: Any) -> int:
        """Return how often a tensor's memory was changed in place; -1 if that is not counted."""
        try:
            return tensor._version
        except RuntimeError:  # an inference tensor does not count
            return -1

    def address(self, tensor: Any) -> int | None:
        """Return the address of a tensor's memory; None for tensors without any: inside vmap and grad, in lazy modules."""
        try:
            return tensor.data_ptr()
        except (RuntimeError, ValueError):
            return None

    # --- nodes

    def number(self, node: Any, tag: str) -> int | None:
        """Return the number given to a node. It is in the node's `metadata`, which lives exactly as long as the node."""
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

    # --- library code runs without function modes

    def without_modes(self) -> Any:
        """Return a context manager that disables function modes."""
        return self.torch._C.DisableTorchFunction()

    def innermost_mode(self) -> Any:
        """Return the function mode that gets calls first; None without one."""
        return self.overrides._get_current_function_mode()

    def suspend_mode(self) -> None:
        """Prepare the engine for running without the function mode."""

    def resume_mode(self) -> None:
        """Undo `suspend_mode`: the function mode is on again."""


class UndertowEngine(Engine):
    """undertow, read through its private fields."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch)
        self._numbers: dict[int, tuple[Any, int]] = {}

    def install(self, patches: Patches) -> None:
        """Make compiled steps run as written, in eager mode."""
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

    def is_finite(self, tensor: Any) -> bool:
        peak = self.peak(tensor)
        return peak is None or isfinite(peak)

    def kind_of(self, tensor: Any) -> tuple[str, bool]:
        if not has_array(tensor):
            return super().kind_of(tensor)
        dtype = tensor._array.dtype
        known = self._kinds.get(dtype)
        if known is None:
            floats = tensor.is_floating_point() or tensor.is_complex()
            known = self._kinds[dtype] = str(tensor.dtype).removeprefix("torch."), floats
        return known

    def requires_grad(self, tensor: Any) -> bool:
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

    # A node with metadata takes a slow path in the engine, so nodes are numbered through weak references instead.
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

    def without_modes(self) -> Any:
        return _NoModes()

    def suspend_mode(self) -> None:
        slow_path.leave()

    def resume_mode(self) -> None:
        slow_path.enter()


class _NoModes:
    """A block in which undertow has no function modes, so that operations take their fast paths."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before, local.modes.function_modes = local.modes.function_modes, []
        slow_path.leave()

    def __exit__(self, *exception: Any) -> None:
        slow_path.enter()
        local.modes.function_modes = self.before


def has_array(tensor: Any) -> bool:
    """Whether a tensor has an array that may be read. Inside vmap it may not: the array holds all examples at once."""
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
    if array.dtype.kind not in "fc":  # bfloat16 and similar types
        array = array.astype(np.float32)
    if array.size > _LARGE and array.dtype.kind == "f":
        return float(max(array.max(), -array.min()))  # without a temporary array
    return float(np.maximum.reduce(np.absolute(array), axis=None))


def level_of(array: Any) -> float | None:
    """Return 0 if all values of an array are zero, NaN or inf if any is, and otherwise any positive number.

    The sum of the squares tells nearly always.
    """
    if type(array) is np.ndarray and array.dtype.char in "fd" and array.flags.forc:
        flat = array.ravel("K")
        square = float(np.dot(flat, flat))
        if 0 < square < inf:
            return square
    return peak_of(array)


def carried_level(gradient: Any) -> float | None:
    """Return the level of a gradient inside undertow's backward pass, an array or a tensor."""
    if gradient is None:
        return None
    return level_of(gradient if type(gradient) is np.ndarray else getattr(gradient, "_array", gradient))


def carried_norm(gradient: Any) -> float | None:
    """Return the norm of a gradient inside undertow's backward pass; None if it holds no floats."""
    array = gradient if type(gradient) is np.ndarray else getattr(gradient, "_array", gradient)
    if (
        not isinstance(array, (np.ndarray, np.generic)) or array.dtype.kind not in "fcV" or not array.size
    ):  # V: bfloat16 and similar
        return None
    flat = (np.abs(array) if array.dtype.kind == "c" else array).ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.dot(flat, flat)))


def engine_of(torch: Any) -> Engine:
    """Return the engine of a torch-like package."""
    return UndertowEngine(torch) if is_own_module(torch) else Engine(torch)
