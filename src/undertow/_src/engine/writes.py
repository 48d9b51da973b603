"""Writing into a tensor: whether it may be written to, the write itself, and the history afterwards.

An in-place op computes its rule like any other, copies the result into the tensor's buffer and counts the write. If
gradients are recorded, the tensor's history is rebuilt: a plain tensor gets the op's node; for a view it is the base
that changed, so the base gets a `CopySlices` node that runs the op's node on the written part.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.quiet import quietly, silently
from undertow._src.base import errors
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.apply import FAST_DTYPES, NUMBERS, PLAIN, place_operands, tensor_among, with_numbers
from undertow._src.engine.node import Edge, Node, edge_of, note_origin
from undertow._src.engine.operands import checks_cast_first, common_dtype, operands, run_forward
from undertow._src.engine.outputs import bump, refuse_inference, refuse_overlap
from undertow._src.engine.record import KeptInputs, edges_of, make_node, pack_in_vain
from undertow._src.engine.rule_node import MATCH_INPUT, RuleNode
from undertow._src.engine.saved import Freed, SavedInput, SavedOutput, described_source
from undertow._src.engine.views import (
    AsStridedBackward0,
    Step,
    move_retained,
    refresh_view,
    refuse_overlap_of,
    steps_of,
    take_view,
    view_gradient,
)  # fmt: skip
from undertow._src.rules.rule import Rule
from undertow._src.tensor import lazy_conj
from undertow._src.tensor.core import InferenceStorage, TensorCore, ndarray
from undertow._src.types.dtypes import DTYPE_OF, dtype

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow._tensor import Tensor

guards: list[Any] = []  # called before a buffer is written; see graph.allow_mutation_on_saved_tensors


def apply_in_place(rule: Rule, target: Any, *others: Any, **statics: Any) -> Tensor:
    """Run a rule with `target` as its first input and write the result into it."""
    place_operands((target, *others))
    if tensor_among(statics):
        statics = with_numbers(rule, statics)
    inputs = (target, *others)
    if slow_path.dispatcher is not None and slow_path.dispatcher.takes(inputs):
        return slow_path.dispatcher.write(
            rule, target, others, statics, lambda: apply_in_place(rule, target, *others, **statics)
        )
    view = target._view
    if view is not None and view.origin is not None and view.base._requires_grad and local.modes.grad_enabled:
        raise errors.written_view(view.origin, described_source(target), through_another=False)
    edges = edges_of(rule, inputs)
    check_writable(target, edges is not None)
    for other in others:
        if isinstance(other, TensorCore):
            refuse_overlap_of(target, other)
    try:
        arrays, post_grad, half = quietly(operands, rule, inputs)
    except (
        NotImplementedError
    ) as error:  # whether the target can hold the result is checked before a kernel is looked for
        if checks_cast_first(rule, error):
            _refuse_cast(common_dtype(rule, inputs), DTYPE_OF[target._array.dtype])
        raise
    kept = None
    if edges is not None:
        kept = KeptInputs(inputs, arrays)
        if rule.inputs[0] in rule.saves:
            kept[0] = SavedInput(_snapshot(target))
        if slow_path.duals is not None:  # forward mode differentiates at the values before the write
            for place, given in enumerate(inputs[1:], 1):
                if isinstance(given, TensorCore) and np.may_share_memory(given._array, target._array):
                    kept[place] = SavedInput(_snapshot(given))
        kept.freeze(rule, edges)
    try:
        value = quietly(run_forward, rule, arrays, statics, half)
    except Exception as error:
        if local.modes.saved_hooks:
            pack_in_vain(rule, inputs, error)
        raise
    check_castable(value, half, target)
    quietly(write, target, value)
    if edges is not None:
        post_grad |= MATCH_INPUT
        rebase(target, make_node(rule, edges, inputs, kept, (target,), statics, post_grad))
    return target


def wrote_directly(ufunc: Any, target: TensorCore, *others: Any) -> bool:
    """Write ufunc(target, *others) into plain unrecorded floats; return whether it did.

    Most parameters are updated this way: no temporary, no copy. Everything else is left to `apply_in_place`.
    """
    array = target._array
    if slow_path.count or guards or type(array) is not ndarray or array.dtype not in FAST_DTYPES or 0 in array.strides:
        return False
    modes = local.modes
    recording, storage = modes.grad_enabled, target._storage
    if (
        modes.captured
        or (recording and (target._requires_grad or target._view is not None))
        or type(storage) is InferenceStorage
    ):
        return False
    operands = [array]
    for other in others:
        if type(other) not in NUMBERS:
            if type(other) not in PLAIN or (recording and (other._requires_grad or other._view is not None)):
                return False
            other = other._array
            if (
                type(other) is not ndarray
                or other.dtype is not array.dtype
                or (other.ndim and other.shape != array.shape)
            ):
                return False
            if np.may_share_memory(other, array):
                return False
        operands.append(other)
    try:
        silently(ufunc, *operands, array)  # type: ignore[call-arg]
    except (RuntimeError, ValueError, OverflowError):  # a second thread, a read-only buffer, a huge number
        return False
    if storage is None:
        storage = target._get_storage()
    storage.version += 1
    if lazy_conj.known:
        lazy_conj.sync(array)
    return True


def _snapshot(target: TensorCore) -> TensorCore:
    """Return the value before the write, with its node, for a gradient that needs it."""
    copy = object.__new__(type(target))
    copy._array = target._array.copy()
    copy._edge = target._edge
    copy._requires_grad = target._requires_grad
    copy._storage = copy._view = copy._meta = None
    return copy


def write(target: TensorCore, value: Any) -> None:
    """Copy a raw value into a tensor's buffer and count the write."""
    array = target._array
    shape = getattr(value, "shape", ())
    if shape != array.shape:
        if len(shape) > array.ndim or any(n != 1 and n != m for n, m in zip(reversed(shape), reversed(array.shape))):
            raise RuntimeError(f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}")
    refuse_overlap(array)
    for guard in guards:
        guard.before_write(target)
    np.copyto(array, value, casting="unsafe")
    bump(target)


def check_castable(value: Any, half: Any, target: Tensor) -> None:
    """Refuse a result that the target's dtype can't hold."""
    computed = DTYPE_OF[value.dtype]
    computed = half if half is not None and half.opmath is computed else computed
    _refuse_cast(computed, DTYPE_OF[target._array.dtype])


def _refuse_cast(computed: dtype, own: dtype) -> None:
    if computed.category > own.category:
        raise RuntimeError(
            f"result type {computed.scalar_name} can't be cast to the desired output type {own.scalar_name}"
        )


def check_writable(target: TensorCore, recorded: bool) -> None:
    """Refuse writes whose gradient would be wrong or lost."""
    refuse_inference(target)
    if local.modes.captured and any(target is each for tensors in local.modes.captured for each in tensors):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to write in place to a "
            "tensor from outside, which has no derivative there. Pass the tensor to the function as an argument."
        )
    if not recorded or (slow_path.duals is not None and not local.modes.grad_enabled):
        return
    view = target._view
    if view is not None:
        if view.origin is not None:
            raise errors.written_view(view.origin, described_source(target), through_another=False)
        if _is_leaf(view.base) and target._requires_grad:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used here in an in-place operation. "
                "Write under torch.no_grad(), or to a clone() of the leaf."
            )
    elif slow_path.duals is not None and slow_path.duals.is_view_of_a_leaf(target):
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used here in an in-place operation. Make the "
            "dual of a clone() of the leaf."
        )
    elif _is_leaf(target) and target._requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. Its old value could not be "
            "differentiated any more: write under torch.no_grad() (as an optimizer does), or to a clone()."
        )


def _is_leaf(tensor: TensorCore) -> bool:
    return tensor._edge is None or tensor._edge[0]._begins


# --- history after a write


def rebase(target: TensorCore, node: Node) -> None:
    """Make `node` the history of the tensor just written."""
    view = target._view
    if view is None:
        set_edge(target, (node, 0))
        return
    base = view.base
    base_edge = edge_of(base) if base._requires_grad else None
    set_edge(base, (CopySlices(base_edge, node, steps_of(view)), 0))
    refresh_view(target)


def set_edge(tensor: TensorCore, edge: Edge) -> None:
    """Give a tensor a new history. Its hooks stay with the old node; a retained gradient is that of the new value."""
    old = tensor._edge
    tensor._edge = edge
    tensor._requires_grad = True
    if slow_path.duals is not None:
        slow_path.duals.note_write(tensor)
        if old is not None and old[0]._begins:  # written under no_grad, where a leaf stays a leaf
            slow_path.duals.set_requires_grad(tensor, True)
    meta = tensor._meta
    if meta is not None and meta.retains and old is not None:
        move_retained(tensor, old, edge)


class SavedViewOutput(SavedOutput):
    """The output of a write through a view, saved by the write's node: in the graph it is a view of the rewritten base."""

    __slots__ = ("whole", "steps")

    def __init__(self, saved: SavedOutput, whole: CopySlices) -> None:
        self.array, self.storage, self.version = saved.array, saved.storage, saved.version
        self.output_nr, self.packed = saved.output_nr, saved.packed
        self.whole = weakref.ref(whole)  # the base holds the node that holds this
        self.steps = whole.steps

    def place(self, node: Node) -> tuple[Node, int]:
        whole = self.whole()
        if whole is None:
            return (node, self.output_nr)
        return (AsStridedBackward0((whole, 0), next(local.modes.sequence), self.steps), 0)


class CopySlices(Node):
    """A write through a view, seen from the base: the op's node runs on the written part, the rest passes through."""

    __module__ = "builtins"  # as PyTorch shows it

    __slots__ = ("written", "steps", "freed")

    def __init__(self, base_edge: Edge | None, written: Node, steps: tuple[Step, ...]) -> None:
        self._edges = (base_edge, *written._edges[1:])
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self.written = written
        self.steps = steps
        self.freed: Freed | None = None
        if slow_path.anomaly:
            note_origin(self)
        if isinstance(written, RuleNode) and type(written.saved) is tuple:
            written.saved = tuple(
                [SavedViewOutput(saved, self) if type(saved) is SavedOutput else saved for saved in written.saved]
            )

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self.freed is not None:
            raise errors.freed_graph(self._node_name(), self.freed.at)
        inner_needs = None if needs is None else (needs[0] and self.written._edges[0] is not None, *needs[1:])
        part = take_view(xp, g, self.steps)
        results = self.written._run(xp, part, inner_needs)
        base = None
        if self._edges[0] is not None and (needs is None or needs[0]):
            inside = results[0] if results[0] is not None else xp.zeros_like(part)
            base = put_view(xp, g, self.steps, inside)
        return (base, *results[1:])

    def _release(self, freed: Freed) -> None:
        self.freed = freed
        self.written._release(freed)


def put_view(xp: Namespace, x: object, steps: tuple[Step, ...], value: Any) -> Any:
    """Return x with the part that the steps take replaced by value; x is unchanged."""
    if type(x) is ndarray:
        copy = np.array(x)
        part = take_view(xp, copy, steps)
        if np.may_share_memory(part, copy):
            part[...] = value
            return copy
    part_shape = value.shape
    spec = steps[0][2]
    if spec.dtype.kind == "c":  # a view may cover half of an element
        return x + view_gradient(xp, value - take_view(xp, x, steps), steps)
    mask = view_gradient(numpy_xp, np.ones(part_shape, spec.dtype), steps) != 0
    return xp.where(xp.constant(mask), view_gradient(xp, value, steps), x)
