"""Nodes of the backward graph: what computed a tensor, what it saved, and how gradients pass through it.

A node's `edges` lead to the nodes of its inputs, one (node, output number) per input, None where no gradient flows.
`RuleNode`, in `rule_node.py`, runs a rule's gradients; `AccumulateGrad` is the end of every path, adding into a leaf's
`.grad`. Hooks and other rare state of a node live in `extras`, made on demand.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from undertow._src.base import hooks
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import format_stack, user_stack
from undertow._src.engine.metadata import InputMetadata, note_ahead, output_specs
from undertow._src.engine.saved import Freed
from undertow._src.rules.rule import Spec
from undertow._src.tensor.core import TensorCore, making

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace

Edge = tuple["Node", int]


class Extras:
    """What few nodes have: their own hooks, metadata, and in anomaly mode the stack that made them."""

    __slots__ = (
        "retained",
        "pre_hooks",
        "post_hooks",
        "before_post_hooks",
        "after_post_hooks",
        "metadata",
        "stack",
        "parent",
    )

    def __init__(self) -> None:
        self.retained: dict[int, weakref.ref[Any]] = {}  # outputs whose gradient is retained
        self.pre_hooks: OrderedDict[int, hooks.Hook] | None = None
        self.post_hooks: OrderedDict[int, hooks.Hook] | None = None
        self.before_post_hooks: tuple[Callable[[], None], ...] = ()  # undertow's own functions, around users' hooks
        self.after_post_hooks: tuple[Callable[[], None], ...] = ()
        self.metadata: dict[str, Any] = {}
        self.stack: Any = None
        self.parent: Node | None = None  # the node whose backward made this one, under create_graph


_SHOWN = frozenset(
    "_input_metadata _register_hook_dict _sequence_nr _set_sequence_nr metadata name next_functions register_hook "
    "register_prehook requires_grad variable".split()
)


class Node:
    """A step of the backward pass.

    Names with an underscore are the engine's; the others are PyTorch's, or attributes that custom functions set on
    their node, the `ctx`.
    """

    __module__ = "undertow.autograd.graph"  # where PyTorch has it

    __slots__ = ("_edges", "_order", "_tensor_hooks", "_extras", "__weakref__")

    _edges: tuple[Edge | None, ...]
    _order: int
    _tensor_hooks: Any  # hooks on its output; by output number if there are several; None if there are none
    _extras: Extras | None
    _n_outputs: int = 1  # of the forward op, and so of incoming gradients
    _tells_absence: bool = True  # whether hooks on an output without gradient fire if a different output has one
    _hides_inputs: bool = False  # whether what it was computed from is not known, so that it may lead to any input
    _begins: bool = False  # its output looks like a leaf: it is the input of a function that is differentiated

    def __dir__(self) -> list[str]:
        """Return the names that PyTorch's nodes have; the engine's own are left out."""
        return [
            name for name in super().__dir__() if name in _SHOWN or name.startswith(("__", "_saved_", "_raw_saved_"))
        ]

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        """Return the gradients of the inputs, one per edge, from the output's gradient (a list if there are several)."""
        raise AssertionError("every kind of node has its own run")

    def _takes(self, g: Any) -> bool:
        """Whether there is a gradient to run on: most nodes map an undefined one to undefined ones."""
        return g is not None if self._n_outputs == 1 else any(part is not None for part in g)

    def _passed_by(self) -> None:
        """React to a missing gradient: a node whose saved values were freed refuses nevertheless."""

    def _release(self, freed: Freed) -> None:
        """Free the saved values."""

    def _output_specs(self) -> list[Spec] | None:
        """Return the specs of the op's outputs, if the node knows them."""
        return None

    def _input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        """Return the specs of the op's inputs, as far as the node knows them; `outputs`: those of its outputs."""
        return ()

    # --- the public interface, as on PyTorch's nodes

    def name(self) -> str:
        """Return the node's name, such as MulBackward0; kinds that no op records carry PyTorch's namespace."""
        return self._node_name()

    def _node_name(self) -> str:
        name = type(self).__name__
        return name if "Backward" in name and name != "CopyBackwards" else "torch::autograd::" + name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the inputs, each with its output number."""
        note_ahead(self)
        return tuple((None, 0) if edge is None else edge for edge in self._edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's data, kept with the node; in anomaly mode it also says where the node was made."""
        extras = self._get_extras()
        metadata = extras.metadata
        if extras.stack is not None and "traceback_" not in metadata:
            metadata["traceback_"] = [format_stack(extras.stack)]
            if extras.parent is not None:
                metadata["parent_"] = extras.parent
        return metadata

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """The gradients that the node takes: shape, dtype and device of each."""
        return tuple([InputMetadata(spec) for spec in output_specs(self)])

    @property
    def requires_grad(self) -> bool:
        return True

    def _sequence_nr(self) -> int:
        return self._order

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        self._order = sequence_nr

    def _register_hook_dict(self, tensor: Any) -> None:
        """Do nothing but check the argument: a tensor's hooks fire at its node from the start."""
        if not isinstance(tensor, TensorCore):
            raise TypeError("_register_hook_dict expected a variable")

    def _get_extras(self) -> Extras:
        extras = self._extras
        if extras is None:
            extras = self._extras = Extras()
        return extras

    def _hooked_outputs(self) -> dict[int, OrderedDict[int, hooks.Hook]]:
        """Return the tensor hooks on this node's outputs, by output number."""
        own = self._tensor_hooks
        return {} if own is None else own if self._n_outputs != 1 else {0: own}

    def register_hook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Register hook(grad_inputs, grad_outputs) -> tuple or None, run after the node; a result replaces grad_inputs."""
        extras = self._get_extras()
        if extras.post_hooks is None:
            extras.post_hooks = hooks.CountedHooks()
        return hooks.add(extras.post_hooks, fn)

    def register_prehook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Register hook(grad_outputs) -> tuple or None, run before the node; a result replaces grad_outputs."""
        extras = self._get_extras()
        if extras.pre_hooks is None:
            extras.pre_hooks = hooks.CountedHooks()
        return hooks.add(extras.pre_hooks, fn)

    def _run_afterwards(self, function: Callable[[], None]) -> None:
        """Call a function of undertow's own after the node: after users' post-hooks if there is one now, else before.

        PyTorch keeps all post-hooks written in Python in one place, that of the first.
        """
        extras = self._get_extras()
        if extras.post_hooks is None:
            extras.before_post_hooks += (function,)
        else:
            extras.after_post_hooks += (function,)

    def __call__(self, *grads: Any) -> Any:
        """Run this node by hand, without hooks: `grad_fn(grad)`."""
        return _call_node(self, grads)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __lt__(self, other: object) -> bool:
        return False  # ready nodes with equal numbers keep the heap's order, which is PyTorch's

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


_call_node: Callable[[Node, tuple[Any, ...]], Any]


def bind_node_caller(caller: Callable[[Node, tuple[Any, ...]], Any]) -> None:
    """Register the engine's function that runs a node by hand, so that `grad_fn(grad)` works."""
    global _call_node
    _call_node = caller


def note_origin(node: Node) -> None:
    """Record, in anomaly mode, the stack that made a node, and the node in whose backward it was made."""
    extras = node._get_extras()
    extras.stack = user_stack()
    task = local.modes.backward_pass
    extras.parent = None if task is None else task.running


# Names that make Node abstract: it cannot be instantiated, its subclasses can.
Node.__abstractmethods__ = frozenset(  # type: ignore[attr-defined]
    "_input_metadata _register_hook_dict _sequence_nr metadata name next_functions register_hook register_prehook".split()
)


def tensor_hooks_of(node: Node, output_nr: int) -> OrderedDict[int, hooks.Hook]:
    """Return the map of hooks on one output of a node."""
    own = node._tensor_hooks
    if node._n_outputs != 1:
        if own is None:
            own = node._tensor_hooks = {}
        return own.setdefault(output_nr, OrderedDict())
    if own is None:
        own = node._tensor_hooks = OrderedDict()
    return own


def keep_gradient(edge: Edge, tensor: object) -> None:
    """Write the gradient that arrives at an edge to the tensor's `.grad` from now on."""
    edge[0]._get_extras().retained[edge[1]] = weakref.ref(tensor)


# --- the end of a path


class AccumulateGrad(Node):
    """Adds the gradients that arrive into a leaf's `.grad`."""

    __module__ = "builtins"  # as PyTorch shows it

    __slots__ = ("variable", "lock")

    _edges: tuple[Edge | None, ...]

    def __init__(self, variable: Any) -> None:
        self._edges = ()
        self._order = 2**64 - 1  # always first when ready
        self._extras = self._tensor_hooks = None
        self.variable = variable
        self.lock = threading.Lock()
        if slow_path.anomaly:
            note_origin(self)

    def _output_specs(self) -> list[Spec]:
        return [Spec(self.variable._array.shape, self.variable._array.dtype)]


def wanted_spec(edge: Any, spec: Spec) -> Spec:
    """Return the spec of a gradient along an edge: its input's, or with the dtype that a leaf requires."""
    ends = edge is not None and type(edge[0]) is AccumulateGrad
    wanted = edge[0].variable._meta.grad_dtype if ends else None
    if wanted is None:
        return spec
    return Spec(spec.shape, None if wanted.dtype is None else wanted.dtype.numpy)


def edge_of(tensor: TensorCore) -> Any:
    """Return the edge for a tensor's gradient. A leaf holds its accumulator weakly: the graph keeps it alive.

    Return None if it leads nowhere: the tensor is a view that was not recorded, and requires gradients only because its
    base does.
    """
    edge = tensor._edge
    if edge is not None:
        return edge
    if tensor._view is not None and (tensor._view.borrows or not tensor._requires_grad):
        return None
    meta = tensor._meta or tensor._get_meta()
    reference = meta.accumulator
    node = None if reference is None else reference()
    if node is None:
        with making:
            reference = meta.accumulator
            node = None if reference is None else reference()
            if node is None:
                node = AccumulateGrad(tensor)
                meta.accumulator = weakref.ref(node)
    return (node, 0)
