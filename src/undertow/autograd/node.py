"""Nodes of the backward graph: what computed a tensor, what it saved, and how gradients pass through it.

A node's `edges` lead to the nodes of its inputs, one (node, output number) per input, None where no gradient flows.
`RuleNode` runs a rule's gradients; `AccumulateGrad` is the end of every path, adding into a leaf's `.grad`. Hooks and
other rarities of a node live in `extras`, made when first wanted.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from undertow import errors, hooks
from undertow._core import TensorCore, making, wrap
from undertow.autograd.metadata import InputMetadata, note_ahead, output_specs
from undertow.autograd.saved import Freed, SavedOutput, SavedTensor, SavedValue
from undertow.autograd.shown_names import DERIVED, KEPT, WHOLE
from undertow.autograd.specialise import can_specialise, specialised_run
from undertow.dtypes import DTYPE_OF
from undertow.modes import local, special
from undertow.rules.rule import Gradient, Rule, Spec
from undertow.sites import format_stack, user_stack
from undertow.xp.device import DeviceArray

Edge = tuple["Node", int]


class Extras:
    """What few nodes have: hooks of their own, metadata, and in anomaly mode the stack that made them."""

    __slots__ = ("retained", "pre_hooks", "post_hooks", "metadata", "stack", "parent")

    def __init__(self) -> None:
        self.retained: dict[int, weakref.ref[Any]] = {}  # outputs that keep their gradient
        self.pre_hooks: OrderedDict[int, hooks.Hook] | None = None
        self.post_hooks: OrderedDict[int, hooks.Hook] | None = None
        self.metadata: dict[str, Any] = {}
        self.stack: Any = None
        self.parent: Node | None = None  # the node whose backward made this one, under create_graph


class Node:
    """A step of the backward pass."""

    __slots__ = ("edges", "sequence_nr", "tensor_hooks", "extras", "__weakref__")

    edges: tuple[Edge | None, ...]
    sequence_nr: int
    tensor_hooks: Any  # hooks on its output; by output number if there are several; None if there are none
    extras: Extras | None
    n_outputs: int = 1  # of the forward op: how many gradients come in

    def run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        """Gradients of the inputs, one per edge, from the gradient of the output (a list if there are several)."""
        raise AssertionError("every kind of node has its own run")

    def takes(self, g: Any) -> bool:
        """Whether there is a gradient to run on: most nodes turn an undefined one into undefined ones."""
        return g is not None if self.n_outputs == 1 else any(part is not None for part in g)

    def release(self, freed: Freed) -> None:
        """Gives back what was saved."""

    def output_specs(self) -> list[Spec] | None:
        """What the op computed, if the node knows."""
        return None

    def input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        """What the op computed it from, as far as the node knows; `outputs`: what it computed."""
        return ()

    # --- the public face, as PyTorch's nodes have it

    def name(self) -> str:
        """The node's name, such as MulBackward0; kinds that are no op's own carry PyTorch's namespace."""
        name = type(self).__name__
        return name if "Backward" in name and name != "CopyBackwards" else "torch::autograd::" + name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the inputs, with the output number each input was."""
        note_ahead(self)
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of the user's own, kept with the node; in anomaly mode it also tells where the node was made."""
        extras = self.get_extras()
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
        return self.sequence_nr

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        self.sequence_nr = sequence_nr

    def _register_hook_dict(self, tensor: Any) -> None:
        """Has a tensor's hooks fire at its node, which they do here from the start."""
        if not isinstance(tensor, TensorCore):
            raise TypeError("_register_hook_dict expected a variable")

    def get_extras(self) -> Extras:
        extras = self.extras
        if extras is None:
            extras = self.extras = Extras()
        return extras

    def hooked_outputs(self) -> dict[int, OrderedDict[int, hooks.Hook]]:
        """The tensor hooks on this node's outputs, by output number."""
        own = self.tensor_hooks
        return {} if own is None else own if self.n_outputs != 1 else {0: own}

    def register_hook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """hook(grad_inputs, grad_outputs) -> tuple or None; a result replaces grad_inputs. Runs after the node."""
        extras = self.get_extras()
        if extras.post_hooks is None:
            extras.post_hooks = OrderedDict()
        return hooks.add(extras.post_hooks, fn)

    def register_prehook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """hook(grad_outputs) -> tuple or None; a result replaces grad_outputs. Runs before the node."""
        extras = self.get_extras()
        if extras.pre_hooks is None:
            extras.pre_hooks = OrderedDict()
        return hooks.add(extras.pre_hooks, fn)

    def __call__(self, *grads: Any) -> Any:
        """Runs this node by hand, without hooks: `grad_fn(grad)`."""
        return _call_node(self, grads)

    def __lt__(self, other: object) -> bool:
        return False  # ready nodes with equal numbers keep the heap's order, which is PyTorch's

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def note_origin(node: Node) -> None:
    """In anomaly mode every new node remembers the lines that led to it, and in whose backward it was made."""
    extras = node.get_extras()
    extras.stack = user_stack()
    task = local.modes.backward_pass
    extras.parent = None if task is None else task.running


def tensor_hooks_of(node: Node, output_nr: int) -> OrderedDict[int, hooks.Hook]:
    """The hooks on one output of a node, for adding to."""
    own = node.tensor_hooks
    if node.n_outputs != 1:
        if own is None:
            own = node.tensor_hooks = {}
        return own.setdefault(output_nr, OrderedDict())
    if own is None:
        own = node.tensor_hooks = OrderedDict()
    return own


def keep_gradient(edge: Edge, tensor: Any) -> None:
    """From now on the gradient that arrives there is written to the tensor's `.grad`."""
    edge[0].get_extras().retained[edge[1]] = weakref.ref(tensor)


# --- nodes that run a rule

FIT, CONJUGATE, UPCAST = 1, 2, 4  # chores of a RuleNode, as flags


class RuleNode(Node):
    """Runs the gradients of a rule on what it saved."""

    __slots__ = ("saved", "statics", "specs", "chores")

    rule: ClassVar[Rule]
    saved: Any  # a value per name in rule.saves (None if not needed), or Freed
    statics: tuple[Any, ...]
    specs: tuple[Any, ...]
    chores: int

    def __init__(
        self,
        edges: tuple[Edge | None, ...] | None = None,
        sequence_nr: int = 0,
        saved: tuple[Any, ...] = (),
        statics: tuple[Any, ...] = (),
        specs: tuple[Any, ...] = (),
        chores: int = 0,
    ) -> None:
        if edges is None:
            raise TypeError(f"cannot create '{type(self).__name__}' instances")
        self.edges = edges
        self.sequence_nr = sequence_nr
        self.extras = self.tensor_hooks = None
        self.saved = saved
        self.statics = statics
        self.specs = specs
        self.chores = chores

    def unpack(self, recorded: bool) -> list[Any]:
        """The saved values as arrays, or as tensors of the graph when the backward pass is itself recorded."""
        saved = self.saved
        if type(saved) is Freed:
            raise errors.freed_graph(self.name(), saved.at)
        if recorded:
            return [_open(value, self) for value in saved]
        return [_raw(value, self) if isinstance(value, (SavedValue, tuple)) else value for value in saved]

    def run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        rule = self.rule
        if xp.RECORDED and special.dispatcher is not None:
            found = special.dispatcher.gradients(self, g, needs)
            if found is not None:
                return found
        saved = self.unpack(xp.RECORDED)
        if rule.hidden and xp.RECORDED:
            saved = self._recompute_hidden(xp, saved)
        chores = self.chores
        if chores & UPCAST:
            saved = [_upcast(xp, value) for value in saved]
            g = _upcast(xp, g)
        statics = self.statics
        if chores & CONJUGATE:  # a holomorphic formula, taken at the conjugates of what it depends on
            saved = [_conjugate(xp, value) for value in saved]
            statics = tuple([value.conjugate() if type(value) is complex else value for value in statics])
        edges = self.edges
        values = (xp, g, needs, *saved, *self.specs, *statics) if rule.uses_specs else (xp, g, needs, *saved, *statics)
        joint, gradients = rule.joint, cast("tuple[Gradient, ...]", rule.gradients)  # where there is an edge
        if joint is not None:
            wanted = tuple([
                edge is not None and (needs is None or needs[place]) for place, edge in enumerate(edges)
            ])
            results = joint.formula(*joint.pick((xp, g, wanted, *values[3:])))
        elif needs is None:
            results = tuple([
                gradient.formula(*gradient.pick(values)) if edge is not None else None
                for edge, gradient in zip(edges, gradients)
            ])
        else:
            results = tuple([
                gradient.formula(*gradient.pick(values)) if edge is not None and need else None
                for edge, gradient, need in zip(edges, gradients, needs)
            ])
        if rule.stepwise and xp.RECORDED:
            results = tuple([None if r is None else xp.tied(r, saved) for r in results])
        if chores & FIT:
            results = tuple([
                None if r is None or spec is None else fit(xp, r, spec)
                for r, spec in zip(results, self.specs)
            ])
        return results

    def input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        if not self.specs and self.rule.promote is not None and not self.chores:
            return outputs * len(self.edges)
        return self.specs

    def _recompute_hidden(self, xp: Any, saved: list[Any]) -> list[Any]:
        """Hidden results again, this time as part of the graph, if the gradient asks for the input they are made of.

        Further inputs that it does not ask for are None there: what is hidden may not depend on them.
        """
        rule = self.rule
        known = dict(zip(rule.saves, saved, strict=True))
        if rule.inputs[0] not in known or rule.inputs[0] in rule.keeps:
            return saved
        statics = dict(zip(rule.statics, self.statics, strict=True))
        again = rule.forward(xp, *[known.get(name) for name in rule.inputs], **statics)
        for name, value in zip(rule.hidden, again[-len(rule.hidden) :], strict=True):
            if name in known and isinstance(value, TensorCore) and DTYPE_OF[xp.dtype_of(value)].category >= 2:
                known[name] = value
        return list(known.values())

    def release(self, freed: Freed) -> None:
        if self.saved:
            self.saved = freed


class MultiOutputNode(RuleNode):
    """A rule node of an op with several outputs; it knows their shapes, for gradients that never came."""

    __slots__ = ("n_outputs", "outputs")

    n_outputs: int
    outputs: list[Spec]

    def output_specs(self) -> list[Spec]:
        return self.outputs

    def run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self.n_outputs == 1:  # the engine hands over a lone gradient as it is
            g = (g,)
        if self.rule.materialize:
            g = [xp.zeros(spec.shape, spec.dtype) if part is None else part for part, spec in zip(g, self.outputs)]
        return super().run(xp, tuple(g), needs)


def node_class(rule: Rule) -> Any:
    """The node class of a rule, named as PyTorch names it; made when the rule first records something."""
    made = rule.node_class
    if made is None:
        base = RuleNode if rule.outputs == 1 else MultiOutputNode
        body = {"rule": rule, "__slots__": (), "__module__": "torch"}
        body |= _shown_values(rule)
        prefix, _, short = rule.node_name.rpartition("::")
        if prefix:
            body["name"] = lambda node: rule.node_name
        if can_specialise(rule):
            body["run"] = specialised_run(rule, RuleNode.run, _freed)
        made = rule.node_class = type(short, (base,), body)
    return made


def _shown_values(rule: Rule) -> dict[str, property]:
    """What a rule's nodes show as `_saved_<name>`."""
    kept = KEPT.get(rule.node_name, frozenset())
    shown = {}
    for place, name in enumerate(rule.saves):
        if name not in kept:
            shown["_saved_" + name] = _attribute(_shown, place)
            shown["_raw_saved_" + name] = _attribute(_raw_saved, place)
    for place, name in enumerate(rule.statics):
        if name not in kept:
            read = _unsigned if name in WHOLE else lambda value: value
            shown["_saved_" + name] = _attribute(lambda node, at: at[1](node.statics[at[0]]), (place, read))
    for place, name in enumerate(rule.inputs[:-1] if rule.variadic else rule.inputs):
        if any(gradient is not None and name + "_spec" in gradient.names for gradient in (rule.joint, *rule.gradients)):
            if f"{name}_sym_sizes" not in kept:
                shown[f"_saved_{name}_sym_sizes"] = _attribute(lambda node, place: node.specs[place].shape, place)
    for name, constant in rule.shows.items():
        shown["_saved_" + name] = _attribute(lambda node, constant: constant, constant)
    for name, derive in DERIVED.get(rule.node_name, {}).items():
        shown["_saved_" + name] = property(derive)
    return shown


def _unsigned(value: Any) -> Any:
    """A number as PyTorch's nodes show it: negative ones as the unsigned that has the same bits."""
    if type(value) is tuple:
        return tuple([_unsigned(part) for part in value])
    value = getattr(value, "given", value)  # a dim as it was given
    return value + 2**64 if type(value) is int and value < 0 else value


def _attribute(get: Callable[[Any, Any], Any], which: Any) -> property:
    return property(lambda node: get(node, which))


def _shown(node: Any, place: int) -> Any:
    value = _held(node)[place]
    if isinstance(value, np.ndarray):  # a Python number among the operands, kept as given behind the statics
        return wrap(np.asarray(node.statics[-1] if len(node.statics) > len(node.rule.statics) else value))
    return _open(value, node)


def _raw_saved(node: Any, place: int) -> SavedTensor:
    return SavedTensor(node, lambda: node.saved if type(node.saved) is Freed else node.saved[place])


def _held(node: Any) -> tuple[Any, ...]:
    if type(node.saved) is Freed:
        raise _freed(node)
    return node.saved


def _freed(node: Any) -> RuntimeError:
    return errors.freed_graph(node.name(), node.saved.at)


_call_node: Callable[[Node, tuple[Any, ...]], Any]


def bind_node_caller(caller: Callable[[Node, tuple[Any, ...]], Any]) -> None:
    """Called by the engine, which knows how gradients given by hand travel: makes `grad_fn(grad)` work."""
    global _call_node
    _call_node = caller


def _raw(value: Any, node: Node) -> Any:
    if isinstance(value, SavedValue):
        return value.raw(node)
    return tuple([_raw(part, node) for part in value]) if type(value) is tuple else value


def _open(value: Any, node: Node) -> Any:
    if isinstance(value, SavedValue):
        return value.open(node)
    if isinstance(value, np.ndarray):  # a number among the operands
        return wrap(value)
    return tuple([_open(part, node) for part in value]) if type(value) is tuple else value


# --- chores around a rule's gradient


def fit(xp: Any, g: Any, spec: Spec) -> Any:
    """Gives a gradient its input's shape and dtype."""
    if g.shape != spec.shape:
        g = xp.sum_to_shape(g, spec.shape)
    if xp.dtype_of(g) != spec.dtype:
        if xp.dtype_of(g).kind == "c" and spec.dtype.kind != "c":
            g = xp.real(g)
        g = xp.astype(g, spec.dtype)
    return g


def _conjugate(xp: Any, value: Any) -> Any:
    if type(value) is tuple:
        return tuple([_conjugate(xp, part) for part in value])
    if isinstance(value, (np.ndarray, np.generic, TensorCore, DeviceArray)) and xp.dtype_of(value).kind == "c":
        return xp.conj(value)
    return value


def _upcast(xp: Any, value: Any) -> Any:
    if type(value) is tuple:
        return tuple([_upcast(xp, part) for part in value])
    if isinstance(value, (np.ndarray, np.generic, TensorCore, DeviceArray)):
        name = DTYPE_OF[xp.dtype_of(value)]
        return value if name.opmath is name else xp.astype(value, name.opmath.numpy)
    return value


# --- the end of a path


class AccumulateGrad(Node):
    """Adds what arrives into a leaf's `.grad`."""

    __slots__ = ("variable", "lock")

    edges: tuple[Edge | None, ...]

    def __init__(self, variable: Any) -> None:
        self.edges = ()
        self.sequence_nr = 2**64 - 1  # always first when ready
        self.extras = self.tensor_hooks = None
        self.variable = variable
        self.lock = threading.Lock()
        if special.anomaly:
            note_origin(self)

    def output_specs(self) -> list[Spec]:
        return [Spec(self.variable._array.shape, self.variable._array.dtype)]


def edge_of(tensor: Any) -> Any:
    """The edge that a gradient of this tensor goes along. A leaf holds its accumulator weakly: the graph keeps it alive.

    None if it goes nowhere: the tensor is a view that was not recorded and asks for gradients only as its base does.
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


__all__ = [
    "CONJUGATE", "FIT", "UPCAST", "AccumulateGrad", "Edge", "Extras", "MultiOutputNode", "Node", "RuleNode",
    "SavedOutput", "edge_of", "fit", "keep_gradient", "node_class", "note_origin", "tensor_hooks_of",
]  # fmt: skip
