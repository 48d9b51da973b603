"""Values that a node saves for its gradient, with the checks that make them trustworthy.

A saved input is the tensor itself and its version when saved. A saved output is its array and storage only: holding the
tensor would close a cycle (tensor -> node -> tensor) and keep a dead graph alive. Pack hooks replace either by what
they return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from undertow._src.base import errors, hooks
from undertow._src.base.modes import local, slow_path
from undertow._src.tensor.core import Storage, TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.base.sites import Site
    from undertow._src.engine.node import Edge, Node
    from undertow._src.types.sizes import Size


# Nodes of tensors that became plain ones when a forward-mode level ended, and may be used as such.
left_behind: WeakSet[Node] = WeakSet()


class Freed:
    """Replaces a node's saved values after a backward pass has freed them, and knows which pass did."""

    __slots__ = ("at",)

    def __init__(self, at: Site | None) -> None:
        self.at = at


class SavedValue:
    """A tensor saved for backward."""

    __slots__ = ("packed", "version")

    packed: Packed | None
    version: int

    def raw(self, node: Node) -> Any:
        """Return the saved array."""
        return self.open(node)._array

    def open(self, node: Node) -> TensorCore:
        """Return the saved tensor, with its place in the graph."""
        raise AssertionError("a saved tensor is an input or an output")

    def pack(self, node: Node, pack_hook: hooks.Hook, unpack_hook: hooks.Hook, detached: bool = False) -> None:
        """Replace the saved tensor by what pack_hook returns; unpack_hook turns that back when it is needed."""
        if self.packed is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Set them once, or leave the "
                "saved_tensors_hooks block that set them."
            )
        shown = self.open(node)
        self.packed = Packed(shown, shown.detach() if detached else shown, pack_hook, unpack_hook)
        self.forget(shown)

    def forget(self, shown: TensorCore) -> None:
        """Release the tensor, now that it is packed."""

    def held(self) -> TensorCore:
        """Return the stored tensor, unchecked."""
        raise AssertionError("a saved tensor is an input or an output")


class SavedInput(SavedValue):
    """An input of an op: the tensor itself, until a pack hook replaces it."""

    __slots__ = ("tensor", "edge")

    def __init__(self, tensor: TensorCore) -> None:
        self.tensor: Any = tensor  # None once it is packed
        self.edge = tensor._edge
        storage = tensor._storage
        self.version = version = 0 if storage is None else storage.version
        if version < 0 and not local.modes.transforms:  # transforms, which record in inference mode too
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. A tensor made in inference mode can't be part of a "
                "computation that is recorded: make a clone to get a normal tensor, or use `torch.no_grad()` instead."
            )
        self.packed = None

    def raw(self, node: Node) -> Any:
        tensor = self.tensor
        if tensor is None:
            return self.open(node)._array
        if tensor._edge is None and self.edge is not None and self.edge[0] not in left_behind:
            raise errors.detached(node._node_name())
        storage = tensor._storage
        if storage is not None and storage.version != self.version:
            view = tensor._view
            if view is not None and view.origin is not None and view.base._requires_grad:
                raise errors.written_view(view.origin, described_source(tensor), through_another=True)
            raise _overwritten(tensor._array, tensor._edge, storage, self.version, node)
        return tensor._array

    def open(self, node: Node) -> TensorCore:
        if self.packed is not None:
            with running(node):
                return self.packed.open(self.edge)
        tensor = self.tensor
        storage = tensor._storage
        if tensor._is_strided and (storage is None or storage.version != self.version or tensor._edge is None):
            self.raw(node)
        return tensor

    def forget(self, shown: TensorCore) -> None:
        self.tensor = None

    def held(self) -> TensorCore:
        return self.tensor


class SavedOutput(SavedValue):
    """A result of an op: its array and storage, not the tensor, which holds the node that holds this."""

    __slots__ = ("array", "storage", "output_nr")

    def __init__(self, tensor: TensorCore, output_nr: int = 0) -> None:
        self.array = tensor._array
        storage = tensor._storage
        if storage is None:  # the result is new, so no other thread can be making one
            storage = tensor._storage = Storage()
        self.storage = storage
        self.version = storage.version
        self.output_nr = output_nr
        self.packed = None

    def raw(self, node: Node) -> Any:
        if self.packed is not None:
            with running(node):
                return self.packed.open(None)._array
        if self.storage.version != self.version:
            raise _overwritten(self.array, (node, self.output_nr), self.storage, self.version, node)
        return self.array

    def place(self, node: Node) -> tuple[Node, int]:
        """Return the output's position in the graph, seen from the node that saved it."""
        return (node, self.output_nr)

    def open(self, node: Node) -> TensorCore:
        # Results that are hidden, or carry no gradient, come after those that do.
        place = self.place(node) if self.output_nr < node._n_outputs else None
        if self.packed is not None:
            with running(node):
                return self.packed.open(place)
        tensor = wrap(self.array if self.storage.version == self.version else self.raw(node))
        tensor._storage = self.storage
        if place is not None and tensor._array.dtype.kind in "fcV":
            tensor._edge, tensor._requires_grad = place, True
        return tensor

    def forget(self, shown: TensorCore) -> None:
        self.array = None
        shown._edge, shown._requires_grad = None, False  # a hook that returns its argument must not keep the graph

    def held(self) -> TensorCore:
        return wrap(self.array)


class Packed:
    """What a pack hook returned for a saved tensor, and the tensor's position in the graph."""

    __slots__ = ("value", "unpack_hook", "leaf", "shape")

    def __init__(self, tensor: TensorCore, shown: TensorCore, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        self.unpack_hook = unpack_hook
        self.shape = tensor._array.shape
        self.leaf = tensor if tensor._edge is None and tensor._requires_grad else None
        storage = tensor._get_storage()
        before = storage.version
        modes = local.modes
        recording, modes.grad_enabled = modes.grad_enabled, False
        try:
            self.value = hooks.fire(pack_hook, shown)
        finally:
            modes.grad_enabled = recording
        if storage.version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Others may hold that tensor too. Return a "
                "changed copy instead: the hook's result is what gets saved."
            )

    def open(self, edge: object) -> TensorCore:
        """Return the unpacked tensor, in place of the saved one."""
        tensor = hooks.fire(self.unpack_hook, self.value)  # in the backward pass's own mode
        if not isinstance(tensor, TensorCore):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor; it returned {type(tensor).__name__}"
            )
        found, saved = tensor._array.shape, self.shape
        if found != saved:  # as long as it broadcasts, the formula may well accept it
            for a, b in zip(reversed(saved), reversed(found)):
                if a != b and 1 not in (a, b):
                    raise RuntimeError(
                        f"The size of tensor a ({a}) must match the size of tensor b ({b}): a saved tensor unpack hook "
                        f"returned shape {list(found)} for a tensor that was saved with shape {list(saved)}"
                    )
            if tensor._array.size == prod(saved):
                tensor = wrap(tensor._array.reshape(saved))
        if edge is None and self.leaf is None:
            return tensor
        if slow_path.dispatcher is not None and slow_path.dispatcher.is_class(type(tensor)):
            result = tensor.detach()  # it may have no buffer of its own
        else:
            result = wrap(tensor._array)
        if edge is not None:
            result._edge, result._requires_grad = edge, True
        elif self.leaf is not None:
            result._requires_grad = True
            result._get_meta().accumulator = self.leaf._get_meta().accumulator
        return result


@contextmanager
def running(node: Node) -> Iterator[None]:
    """Tell users' code inside the block, such as an unpack hook, which node the backward pass runs."""
    task = local.modes.backward_pass
    if task is None:
        yield
        return
    before, task.running = task.running, node
    try:
        yield
    finally:
        task.running = before


class SavedTensor:
    """`grad_fn._raw_saved_<name>`: a saved value, on which hooks can be registered."""

    __module__ = "undertow._C._autograd"  # where PyTorch has it

    __slots__ = ("node", "get")

    def __init__(self, node: Node | None = None, get: Callable[[], Any] | None = None) -> None:
        if node is None or get is None:
            raise RuntimeError(
                "Trying to create a SavedTensor object from Python is forbidden: a node makes it, see _raw_saved_<name>."
            )
        self.node = node
        self.get = get

    def register_hooks(self, pack_hook: hooks.Hook | None = None, unpack_hook: hooks.Hook | None = None) -> None:
        """Register pack_hook(tensor), whose result is kept in the tensor's place, and unpack_hook(packed), its inverse."""
        if pack_hook is None or unpack_hook is None or not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. Two hooks are expected: pack and unpack"
            )
        saved = self.get()
        if type(saved) is Freed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved tensors are freed by backward(): "
                "register before it. Specify retain_graph=True there to keep them."
            )
        if not isinstance(saved, SavedValue):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        saved.pack(self.node, pack_hook, unpack_hook, detached=True)

    @property
    def unpack_hook(self) -> hooks.Hook | None:
        """The hook that unpacks the tensor; None if it is not packed."""
        packed = getattr(self.get(), "packed", None)
        return None if packed is None else packed.unpack_hook

    @property
    def data(self) -> TensorCore | Size | None:
        """What is kept: the tensor, or a pack hook's result; None after it was freed. No hook runs."""
        saved = self.get()
        if not isinstance(saved, SavedValue):
            return None
        return saved.held() if saved.packed is None else saved.packed.value

    def __repr__(self) -> str:
        return f"<torch._C._autograd.SavedTensor object at {id(self):#x}>"


def short_name(node: Node) -> str:
    """Return a node's name as in errors about views and versions: Mul for MulBackward0."""
    head, found, number = node._node_name().rpartition("Backward")
    return head + number.removeprefix("0") if found else number


def described_source(tensor: TensorCore) -> str:
    """Return where a tensor comes from, as errors about views name it: `Output 0 of Mul`."""
    edge = tensor._edge
    return "This tensor" if edge is None else f"Output {edge[1]} of {short_name(edge[0])}"


def describe(array: Any) -> str:
    """Return PyTorch's name for a tensor in errors: `[torch.FloatTensor [2, 3]]`."""
    return f"[torch.{DTYPE_OF[array.dtype].scalar_name}Tensor [{', '.join(map(str, array.shape))}]]"


def _overwritten(array: Any, edge: Edge | None, storage: Storage, expected: int, node: Node) -> RuntimeError:
    source = f"output {edge[1]} of {short_name(edge[0])}" if edge is not None else None
    stack = node._extras.stack if node._extras is not None else None
    return errors.overwritten(
        describe(array), source, storage.version, expected, node._node_name(), stack, storage.writes
    )
