"""Tools on the graph: nodes, edges, hooks on saved values, hooks over several gradients."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from undertow._src.base import hooks
from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import local
from undertow._src.base.sites import user_site
from undertow._src.engine import writes
from undertow._src.engine.differentiate import GradientEdge as GradientEdge
from undertow._src.engine.differentiate import get_gradient_edge as get_gradient_edge
from undertow._src.engine.node import AccumulateGrad, edge_of
from undertow._src.engine.node import Node as Node
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._src.engine.engine import BackwardPass
    from undertow._tensor import Tensor

RemovableHandle = hooks.RemovableHandle


def _get_grad_fn_or_grad_acc(t: Any) -> Node:
    """Return the node that receives a tensor's gradient: its grad_fn, or for a leaf its accumulator."""
    return get_gradient_edge(t).node


class saved_tensors_hooks:
    """Replace every tensor saved for backward inside the block by pack_hook(tensor); unpack_hook restores it.

    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
    ...     x = torch.tensor([2.], requires_grad=True)
    ...     y = x * x
    >>> y.grad_fn._saved_self
    tensor([2.], requires_grad=True)
    """

    everything = False  # whether the hooks are shown values, too, that PyTorch does not save

    def __init__(self, pack_hook: hooks.Hook, unpack_hook: hooks.Hook) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        modes = local.modes
        if modes.saved_hooks_disabled is not None:
            raise RuntimeError(modes.saved_hooks_disabled)
        if not (callable(self.pack_hook) and callable(self.unpack_hook)):
            raise TypeError(
                "_push_saved_tensors_default_hooks(): incompatible function arguments. Two hooks are expected: pack and "
                "unpack."
            )
        modes.saved_hooks.append((self.pack_hook, self.unpack_hook, self.everything))
        if hooks.noted is not None:
            hooks.noted.append((user_site(), self.pack_hook, self.unpack_hook))

    def __exit__(self, *exc: object) -> None:
        if not local.modes.saved_hooks:
            raise RuntimeError(
                "There is no saved_tensors_hooks block to exit: it was exited before, or in a backward pass."
            )
        local.modes.saved_hooks.pop()


class all_saved_hooks(saved_tensors_hooks):
    """The same for undertow's tools, which must get every saved value, also those that PyTorch does not save."""

    everything = True


class save_on_cpu(all_saved_hooks):
    """Keep tensors saved inside the block in CPU memory; move them back to their device in backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Any]:
            return (tensor.device, tensor.clone() if pin_memory else tensor.cpu())

        def unpack(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Make `saved_tensors_hooks` raise with this message inside the block."""
    modes = local.modes
    if modes.saved_hooks:
        raise RuntimeError(error_message)
    before, modes.saved_hooks_disabled = modes.saved_hooks_disabled, error_message
    try:
        yield
    finally:
        modes.saved_hooks_disabled = before


# --- hooks over several gradients


class _MultiHandle(hooks.RemovableHandle):
    """Removes the hooks on all tensors of a multi-grad hook."""

    __slots__ = ("handles",)

    def __init__(self, handles: tuple[hooks.RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.handles

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.handles = state


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., None], *, mode: str = "all") -> RemovableHandle:
    """Call fn(grads) once a backward pass has computed all gradients; with mode="any", fn(grad) at the first one.

    Tensors that the pass does not reach have the gradient None. The result of fn is ignored.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "all":
        for tensor in tensors:
            if not tensor.requires_grad or edge_of(tensor) is None:
                raise AssertionError("Expected gradient function to be set")
        places = [_weak_place(tensor) for tensor in tensors]
        progress: weakref.WeakKeyDictionary[Any, tuple[int, list[Any]]] = weakref.WeakKeyDictionary()

        def collect(place: int, grad: Tensor) -> None:
            task = local.modes.backward_pass
            with lock:
                if task not in progress:
                    progress[task] = (sum(_will_run(task, place()) for place in places), [None] * len(places))
                left, grads = progress[task]
                grads[place] = grad
                progress[task] = (left - 1, grads)
                done = left == 1
            if done:
                del progress[task]
                hooks.fire(fn, grads)

        registered = [tensor.register_hook(functools.partial(collect, place)) for place, tensor in enumerate(tensors)]
    else:
        seen: weakref.WeakSet[Any] = weakref.WeakSet()

        def first(grad: Tensor) -> None:
            task = local.modes.backward_pass
            with lock:
                is_first = task not in seen
                seen.add(task)
            if is_first:
                try:
                    hooks.fire(fn, grad)
                except BaseException:
                    seen.discard(task)
                    raise

        registered = [tensor.register_hook(first) for tensor in tensors if tensor.requires_grad]
    return _MultiHandle(tuple(registered))


def _weak_place(tensor: TensorCore) -> Callable[[], Node | None]:
    """Return a function that finds a tensor's node and keeps neither alive: the node holds the hook that calls it."""
    if tensor._edge is not None:
        return weakref.ref(tensor._edge[0])
    leaf = weakref.ref(tensor)

    def accumulator() -> Node | None:
        found = leaf()
        return None if found is None else edge_of(found)[0]

    return accumulator


def _will_run(task: BackwardPass, node: Node | None) -> bool:
    """Whether a backward pass reaches a node."""
    if node is None or not task.reaches(node):
        return False
    if task.executed is None or node not in task.executed:
        return task.executed is None
    if isinstance(node, AccumulateGrad) and task.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(), for "
            "which that is not known."
        )
    return True


# --- writing to saved tensors


class _Kept:
    """The placeholder in the graph for a saved tensor under allow_mutation_on_saved_tensors."""

    __slots__ = ("__weakref__",)


_Memory = tuple[int, int]  # the id of a storage, and its version


class _AllowMutationOnSavedContext:
    """Copies saved tensors just before their memory is written. A tensor that is saved several times is kept once."""

    def __init__(self) -> None:
        self.original: weakref.WeakKeyDictionary[_Kept, Any] = weakref.WeakKeyDictionary()  # until they are written to
        self.cloned: weakref.WeakKeyDictionary[_Kept, Any] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[Any, _Kept] = weakref.WeakValueDictionary()
        self.sid_to_tid: dict[_Memory, set[Any]] = {}

    def clear(self) -> None:
        """Release every saved tensor."""
        for table in (self.original, self.cloned, self.tid_to_weakhandle, self.sid_to_tid):
            table.clear()

    def pack(self, tensor: TensorCore) -> _Kept:
        """Keep a tensor that is being saved."""
        storage = tensor._get_storage()
        memory = (id(storage), storage.version)
        which = (id(tensor._array), *memory)
        kept = self.tid_to_weakhandle.get(which)
        known = None if kept is None else self.original.get(kept)
        if kept is None or known is None or known._array is not tensor._array:  # the id of a freed array may be reused
            kept = self.tid_to_weakhandle[which] = _Kept()
            self.original[kept] = tensor.detach()
            self.sid_to_tid.setdefault(memory, set()).add(which)
        return kept

    def unpack(self, kept: _Kept) -> Any:
        """Return a tensor with the values it had when it was saved."""
        found = self.cloned.get(kept, self.original.get(kept))
        if found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "recorded. Call backward inside it."
            )
        return found

    def before_write(self, target: TensorCore) -> None:
        """Copy the kept tensors whose memory is about to change."""
        storage = target._get_storage()
        for which in self.sid_to_tid.get((id(storage), storage.version), ()):
            kept = self.tid_to_weakhandle.get(which)
            if kept is not None and kept in self.original:
                self.cloned[kept] = self.original.pop(kept).clone()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Allow writes to saved tensors inside the block: the saved value is copied before the write."""
    if writes.guards:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    guard = _AllowMutationOnSavedContext()
    writes.guards.append(guard)
    try:
        with all_saved_hooks(guard.pack, guard.unpack):
            yield guard
    finally:
        writes.guards.remove(guard)
        guard.clear()


class _unsafe_preserve_version_counter:
    """Restore the versions of tensors after the block, so that writes inside it are not counted."""

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, TensorCore) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError("tensors must be a tensor or a tuple of tensors")
        self.prev_versions = tuple([each._version for each in self.tensors])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        for each, version in zip(self.tensors, self.prev_versions, strict=True):
            each._get_storage().version = version


def increment_version(tensor: TensorCore | Iterable[TensorCore]) -> None:
    """Count a write that autograd could not observe, for one tensor or several."""
    if not isinstance(tensor, (TensorCore, Iterable)):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    several: Iterable[Any] = (tensor,) if isinstance(tensor, TensorCore) else tensor
    for each in several:
        writes.bump(each)


# --- streams of accelerators and compiled regions: there are none


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing: in PyTorch, set whether gradients on a different stream are warned about. The CPU has one stream."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Do nothing: the CPU has no streams to capture."""


def region_activation_memory_budget(budget: float) -> Any:
    """Raise, as PyTorch does outside compiled code: the budget limits what a compiled region saves for backward."""
    raise RuntimeError(
        "torch.autograd.graph.region_activation_memory_budget can only be used inside torch.compile and has no "
        "effect in eager mode."
    )


__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        "_engine_run_backward _get_sid _get_tid _register_logging_hooks_on_whole_graph".split(),
        "undertow._src.compat.autograd_steps",
    ),
)
