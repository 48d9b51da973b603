"""Values that a node keeps for its gradient, with the checks that make them trustworthy.

A saved input is the tensor itself and the version it had. A saved output is its array and storage only: holding the
tensor would close a cycle (tensor -> node -> tensor) and keep a dead graph alive. Pack hooks replace either by what
they return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow import errors, hooks
from undertow._core import Storage, TensorCore, wrap
from undertow.dtypes import DTYPE_OF
from undertow.modes import local

if TYPE_CHECKING:
    from undertow.autograd.node import Node
    from undertow.sites import Site


class Freed:
    """Stands where a node's saved values were, and knows which backward pass released them."""

    __slots__ = ("at",)

    def __init__(self, at: Site | None) -> None:
        self.at = at


class SavedTensor:
    """A tensor saved for backward."""

    __slots__ = ("packed", "version")

    packed: Packed | None
    version: int

    def raw(self, node: Node) -> Any:
        """The saved array."""
        return self.open(node)._array

    def open(self, node: Node) -> Any:
        """The saved tensor, with its place in the graph."""
        raise AssertionError("a saved tensor is an input or an output")

    def register_hooks(self, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        """Replaces the saved tensor by what pack_hook returns; unpack_hook turns that back when it is needed."""
        raise AssertionError("a saved tensor is an input or an output")


class SavedInput(SavedTensor):
    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        storage = tensor._storage
        self.version = 0 if storage is None else storage.version
        self.packed = None

    def raw(self, node: Node) -> Any:
        tensor = self.tensor
        if tensor is None:
            return self.open(node)._array
        storage = tensor._storage
        if storage is not None and storage.version != self.version:
            raise _overwritten(tensor._array, tensor._edge, storage, self.version, node)
        return tensor._array

    def open(self, node: Node) -> Any:
        tensor = self.tensor
        if tensor is None:
            assert self.packed is not None
            return self.packed.open()
        self.raw(node)
        return tensor

    def register_hooks(self, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        _check_hooks(self.packed, pack_hook, unpack_hook)
        tensor = self.tensor
        self.packed = Packed(tensor, tensor, pack_hook, unpack_hook)
        self.tensor = None


class SavedOutput(SavedTensor):
    __slots__ = ("array", "storage", "output_nr")

    def __init__(self, tensor: Any, output_nr: int = 0) -> None:
        self.array = tensor._array
        self.storage = tensor._get_storage()
        self.version = self.storage.version
        self.output_nr = output_nr
        self.packed = None

    def raw(self, node: Node) -> Any:
        if self.packed is not None:
            return self.packed.open()._array
        if self.storage.version != self.version:
            raise _overwritten(self.array, (node, self.output_nr), self.storage, self.version, node)
        return self.array

    def open(self, node: Node) -> Any:
        array = self.raw(node)
        tensor = wrap(array)
        if self.packed is None:
            tensor._storage = self.storage
        if array.dtype.kind in "fcV":
            tensor._edge = (node, self.output_nr)
            tensor._requires_grad = True
        return tensor

    def register_hooks(self, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        _check_hooks(self.packed, pack_hook, unpack_hook)
        self.packed = Packed(None, _alias(self.array, self.storage), pack_hook, unpack_hook)
        self.array = None


class Packed:
    """What a pack hook made of a saved tensor, and where the tensor stood in the graph."""

    __slots__ = ("value", "unpack_hook", "edge", "leaf", "requires_grad")

    def __init__(self, tensor: Any, shown: Any, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        self.unpack_hook = unpack_hook
        self.edge = None if tensor is None else tensor._edge
        self.leaf = tensor if tensor is not None and tensor._edge is None and tensor._requires_grad else None
        storage = shown._get_storage()
        before = storage.version
        with _no_grad():
            self.value = hooks.fire(pack_hook, shown)
        if storage.version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                "not be modified by in-place operations as this can lead to unexpected side-effects. Return a changed "
                "copy instead: the hook's result is what gets saved."
            )

    def open(self) -> Any:
        with _no_grad():
            tensor = hooks.fire(self.unpack_hook, self.value)
        if not isinstance(tensor, TensorCore):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor)}"
            )
        if self.leaf is not None and tensor._array is self.leaf._array:
            return self.leaf
        result = wrap(tensor._array)
        if self.edge is not None:
            result._edge, result._requires_grad = self.edge, True
        elif self.leaf is not None:
            result._requires_grad = True
            result._get_meta().accumulator = self.leaf._get_meta().accumulator
        return result


class _no_grad:
    """Pack and unpack hooks run unrecorded."""

    def __enter__(self) -> None:
        from_modes = local.modes
        self.before = from_modes.grad_enabled
        from_modes.grad_enabled = False

    def __exit__(self, *exc: Any) -> None:
        local.modes.grad_enabled = self.before


def _alias(array: Any, storage: Storage | None) -> Any:
    tensor = wrap(array)
    tensor._storage = storage
    return tensor


def _check_hooks(packed: Packed | None, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
    if not (callable(pack_hook) and callable(unpack_hook)):
        raise TypeError("register_hooks() expects two callables, the pack hook and the unpack hook")
    if packed is not None:
        raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Set them once.")


def short_name(node: Node) -> str:
    """A node's name as errors about views and versions give it: Mul for MulBackward0."""
    return node.name().rstrip("0123456789").removesuffix("Backward")


def describe(array: Any) -> str:
    """`[torch.FloatTensor [2, 3]]`, as PyTorch names a tensor in errors."""
    return f"[torch.{DTYPE_OF[array.dtype].scalar_name}Tensor [{', '.join(map(str, array.shape))}]]"


def _overwritten(array: Any, edge: Any, storage: Storage, expected: int, node: Node) -> RuntimeError:
    source = f"output {edge[1]} of {short_name(edge[0])}" if edge is not None else None
    stack = node.extras.stack if node.extras is not None else None
    return errors.overwritten(describe(array), source, storage.version, expected, node.name(), stack, storage.writes)
