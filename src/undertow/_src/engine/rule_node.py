"""Nodes that run a rule's gradients on what its forward saved, and what is done to those afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.namespaces import DeviceNamespace, is_batched, run_formula
from undertow._src.base import errors, tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.node import Edge, Node, wanted_spec
from undertow._src.engine.saved import Freed, SavedTensor, SavedValue
from undertow._src.engine.shown_names import DERIVED, KEPT, NEVER, ONE_KERNEL, WHOLE
from undertow._src.engine.specialise import can_specialise, specialised_run
from undertow._src.rules.rule import Rule, Spec
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace

_ARRAYS = (np.ndarray, np.generic, TensorCore, DeviceArray)
MATCH_INPUT, CONJUGATE, UPCAST = 1, 2, 4  # what is done to a rule's gradients afterwards, as flags


class RuleNode(Node):
    """Runs the gradients of a rule on what it saved."""

    __slots__ = ("saved", "statics", "specs", "post_grad")

    rule: ClassVar[Rule]
    saved: Any  # a value per name in rule.saves (None if not needed), or Freed

    def __init__(
        self, edges: tuple[Edge | None, ...] | None = None, sequence_nr: int = 0, saved: tuple[Any, ...] = (),
        statics: tuple[Any, ...] = (), specs: tuple[Any, ...] = (), post_grad: int = 0,
    ) -> None:  # fmt: skip
        if edges is None:
            raise TypeError(f"cannot create '{type(self).__name__}' instances")
        self._edges = edges
        self._order = sequence_nr
        self._extras = self._tensor_hooks = None
        self.saved = saved
        self.statics = statics
        self.specs = specs
        self.post_grad = post_grad

    def unpack(self, recorded: bool) -> list[Any]:
        """Return the saved values as arrays, or as tensors of the graph when the backward pass is itself recorded."""
        saved = self.saved
        if type(saved) is Freed:
            raise errors.freed_graph(self._node_name(), saved.at)
        if recorded:
            return [value if value is None else _open(value, self) for value in saved]
        return [_raw(value, self) if isinstance(value, (SavedValue, tuple)) else value for value in saved]

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        rule = self.rule
        if xp.RECORDED and slow_path.dispatcher is not None:
            found = slow_path.dispatcher.gradients(self, g, needs)
            if found is not None:
                return found
        saved = self.unpack(xp.RECORDED)
        if not xp.RECORDED:
            return self._results(xp, g, saved, needs)
        modes = local.modes
        one_kernel = rule.node_name in ONE_KERNEL and not (rule.recorded and isinstance(g, TensorCore))
        begun = next(modes.sequence) if one_kernel else 0
        modes.in_formula = True
        try:
            results = self._results(xp, g, self._recompute_hidden(xp, saved) if rule.hidden else saved, needs)
        finally:
            modes.in_formula = False
        if one_kernel:
            _rename_last(results, begun, rule)
        return results

    def _results(self, xp: Namespace, g: Any, saved: list[Any], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        """Return the gradients of the inputs."""
        rule = self.rule
        if rule.pushed is not None and local.modes.backward_pass is not None and local.modes.backward_pass.silent:
            rule = rule.pushed
        specs = self.specs
        if self.post_grad & MATCH_INPUT and slow_path.count:
            specs = tuple([spec and wanted_spec(edge, spec) for edge, spec in zip(self._edges, specs)])
        wanted = tuple([edge is not None and (needs is None or needs[at]) for at, edge in enumerate(self._edges)])
        chosen = needs, wanted, self.specs, specs, self.statics, self.post_grad
        results: Any = NotImplemented
        if type(xp) is DeviceNamespace and tracer.current is None:
            like = _plain(specs)
            own = like if specs is self.specs else _plain(self.specs)
            key = rule, self.statics, (needs, wanted, own, like, self.post_grad)
            results = run_formula(
                key, lambda xp, given: _gradients(rule, xp, given[0], given[1], *chosen), (g, saved), True
            )
        if results is NotImplemented:
            results = _gradients(rule, xp, g, saved, *chosen)
        return results

    def _input_specs(self, outputs: list[Spec]) -> Sequence[Spec | None]:
        if not self.specs and self.rule.promote is not None and not self.post_grad:
            return outputs * len(self._edges)
        return self.specs

    def _recompute_hidden(self, xp: Namespace, saved: list[Any]) -> list[Any]:
        """Recompute hidden results as part of the graph, if the gradient of the input they are made of is required.

        Other inputs that it does not save are None there: hidden results must not depend on them.
        """
        rule = self.rule
        known = dict(zip(rule.saves, saved, strict=True))
        if rule.inputs[0] not in known or rule.inputs[0] in rule.keeps:
            return saved
        statics = dict(zip(rule.statics, self.statics, strict=True))
        again = rule.forward(xp, *[known.get(name) for name in rule.inputs], **statics)
        for name, value in zip(rule.hidden, again[-len(rule.hidden) :], strict=True):
            if name in known and isinstance(value, TensorCore) and DTYPE_OF[xp.dtype_of(value)].is_inexact:
                known[name] = value
        return list(known.values())

    def _passed_by(self) -> None:
        if type(self.saved) is Freed:
            raise errors.freed_graph(self._node_name(), self.saved.at)

    def _release(self, freed: Freed) -> None:
        if self.saved:
            self.saved = freed


def _plain(specs: Any) -> Any:
    """Return specs as tuples, which compare by their values."""
    if type(specs) is tuple:
        return tuple([_plain(each) for each in specs])
    return specs and (specs.shape, specs.dtype)


def _gradients(
    rule: Rule, xp: Namespace, g: Any, saved: list[Any], needs: tuple[bool, ...] | None, wanted: tuple[bool, ...],
    specs: tuple[Any, ...], fitted: tuple[Any, ...], statics: tuple[Any, ...], post_grad: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of a rule's inputs that are wanted, in the dtypes and shapes of `fitted`."""
    if post_grad & UPCAST:
        saved = [_upcast(xp, value) for value in saved]
        g = _upcast(xp, g)
    if post_grad & CONJUGATE:  # a holomorphic formula, evaluated at the conjugates of what it depends on
        saved = [_conjugate(xp, value) for value in saved]
        statics = tuple([value.conjugate() if type(value) is complex else value for value in statics])
    values = (*saved, *specs, *statics) if rule.uses_specs else (*saved, *statics)
    if rule.joint is not None:
        results = rule.joint.formula(*rule.joint.pick((xp, g, wanted, *values)))
    else:
        values = (xp, g, needs, *values)
        as_ops = rule.recorded and xp.RECORDED and isinstance(g, TensorCore)
        results = tuple(
            [
                gradient.formula(*gradient.pick(values)) if want and gradient is not None else None
                for want, gradient in zip(wanted, rule.recorded if as_ops else rule.gradients)
            ]
        )
        if as_ops:
            return fit_all(xp, results, fitted) if post_grad & MATCH_INPUT else results
    if rule.stepwise and xp.RECORDED:
        results = tuple([None if r is None else xp.tied(r, saved) for r in results])
    if post_grad & MATCH_INPUT:
        results = fit_all(xp, results, fitted)
    return results


_renamed: dict[tuple[type, str], type] = {}
_WITH_NUMBER = frozenset("AddBackward0 DivBackward0 MulBackward0 SubBackward0".split())


def class_beside_number(rule: Rule) -> type:
    """Return the class of a node whose other operand is a number: in a recorded gradient, that of PyTorch's kernel."""
    kind = node_class(rule)
    if not local.modes.in_formula or kind.__name__ not in _WITH_NUMBER:
        return kind
    return _renaming(kind, kind.__name__.replace("0", "1"), {"next_functions": property(_recorded_inputs)})


def _recorded_inputs(node: Node) -> tuple[tuple[Node | None, int], ...]:
    """Return the nodes of the inputs that are tensors."""
    return tuple([edge for edge in node._edges if edge is not None])


def _rename_last(results: tuple[Any, ...], begun: int, rule: Rule) -> None:
    """Name the last nodes of a recorded gradient, numbered after `begun`, after PyTorch's one kernel for it."""
    for result in results:
        if result is not None and result._edge is not None and result._edge[0]._order > begun:
            node = result._edge[0]
            kind = node_class(node.rule) if isinstance(node, RuleNode) else type(node)
            node.__class__ = _renaming(kind, rule.node_name.replace("Backward0", "BackwardBackward0"), {})


def _renaming(kind: type, name: str, body: dict[str, Any]) -> type:
    """Return a node class under a different name."""
    made = _renamed.get((kind, name))
    if made is None:
        made = _renamed[kind, name] = type(name, (kind,), {"__slots__": (), "__module__": "builtins", **body})
    return made


class MultiOutputNode(RuleNode):
    """A rule node of an op with several outputs; it knows their shapes, to replace missing gradients."""

    __slots__ = ("_n_outputs", "outputs")

    _n_outputs: int
    outputs: list[Spec]

    def _output_specs(self) -> list[Spec]:
        return self.outputs

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self._n_outputs == 1:  # the engine passes a lone gradient without a list
            g = (g,)
        if self.rule.materialize:
            g = [xp.zeros(spec.shape, spec.dtype) if part is None else part for part, spec in zip(g, self.outputs)]
        return super()._run(xp, tuple(g), needs)


def node_class(rule: Rule) -> type:
    """Return the node class of a rule, named as in PyTorch; made when the rule first records something."""
    made = rule.node_class
    if made is None:
        base = RuleNode if rule.outputs == 1 else MultiOutputNode
        body = {"rule": rule, "__slots__": (), "__module__": "builtins"}
        body |= _shown_values(rule)
        prefix, _, short = rule.node_name.rpartition("::")
        if prefix:
            body["name"] = lambda node: rule.node_name
        if can_specialise(rule):
            body["_run"] = specialised_run(rule, RuleNode._run, _USED)
        made = rule.node_class = type(short, (base,), body)
    return made


def _shown_values(rule: Rule) -> dict[str, property]:
    """Return the properties `_saved_<name>` of a rule's nodes."""
    kept = KEPT.get(rule.node_name, frozenset())
    shown = {}
    for place, name in enumerate(rule.saves):
        if name not in kept:
            shown["_saved_" + name] = _attribute(_shown, place)
            shown["_raw_saved_" + name] = _attribute(_raw_saved, place)
    for place, name in enumerate(rule.statics):
        if name not in kept and name not in NEVER:
            read = _unsigned if name in WHOLE else lambda value: getattr(value, "given", value)
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


def _unsigned(value: object) -> Any:
    """Return a number as PyTorch's nodes show it: a negative one as the unsigned number with the same bits."""
    if type(value) is tuple:
        return tuple([_unsigned(part) for part in value])
    value = getattr(value, "given", value)  # as given, which may be None
    return value + 2**64 if type(value) is int and value < 0 else value


def _attribute(get: Callable[[Any, Any], Any], which: object) -> property:
    return property(lambda node: get(node, which))


def _shown(node: RuleNode, place: int) -> Any:
    value = _held(node)[place]
    if isinstance(value, np.ndarray):  # a Python number among the operands, kept as given after the statics
        return wrap(np.asarray(node.statics[-1] if len(node.statics) > len(node.rule.statics) else value))
    return _open(value, node)


def _raw_saved(node: RuleNode, place: int) -> Any:
    if type(node.saved) is not Freed and type(node.saved[place]) is tuple:
        return tuple([_raw_part(node, place, at) for at in range(len(node.saved[place]))])
    return SavedTensor(node, lambda: node.saved if type(node.saved) is Freed else node.saved[place])


def _raw_part(node: RuleNode, place: int, at: int) -> SavedTensor:
    """Return one tensor of those that a node saved as a list."""
    return SavedTensor(node, lambda: node.saved if type(node.saved) is Freed else node.saved[place][at])


def _held(node: RuleNode) -> tuple[Any, ...]:
    if type(node.saved) is Freed:
        raise _freed(node)
    return node.saved


def _freed(node: RuleNode) -> RuntimeError:
    return errors.freed_graph(node._node_name(), node.saved.at)


def _raw(value: object, node: Node) -> Any:
    if isinstance(value, SavedValue):
        return value.raw(node)
    return tuple([_raw(part, node) for part in value]) if type(value) is tuple else value


def _open(value: object, node: Node) -> Any:
    if isinstance(value, SavedValue):
        return value.open(node)
    if isinstance(value, (np.ndarray, DeviceArray)):  # a number among the operands
        return wrap(value)
    return tuple([_open(part, node) for part in value]) if type(value) is tuple else value


# --- what is done around a rule's gradient


def fit(xp: Namespace, g: Any, spec: Spec) -> Any:
    """Give a gradient its input's shape and dtype."""
    if g.shape != spec.shape:
        g = xp.sum_to_shape(g, spec.shape)
    if spec.dtype is not None and xp.dtype_of(g) != spec.dtype:
        if xp.dtype_of(g).kind == "c" and spec.dtype.kind != "c":
            g = xp.real(g)
        g = xp.astype(g, spec.dtype)
    return g


def fit_all(xp: Namespace, gradients: tuple[Any, ...], specs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give gradients their inputs' shapes and dtypes."""
    return tuple([None if g is None or spec is None else fit(xp, g, spec) for g, spec in zip(gradients, specs)])


def _needed(edges: tuple[Edge | None, ...], needs: tuple[bool, ...]) -> list[Edge | None]:
    """Return the edges along which gradients are needed, with None in place of the others."""
    return [edge if need else None for edge, need in zip(edges, needs)]


def _conjugate(xp: Namespace, value: object) -> Any:
    if type(value) is tuple:
        return tuple([_conjugate(xp, part) for part in value])
    if (isinstance(value, _ARRAYS) or is_batched(value)) and xp.dtype_of(value).kind == "c":
        return xp.conj(value)
    return value


def _upcast(xp: Namespace, value: object) -> Any:
    if type(value) is tuple:
        return tuple([_upcast(xp, part) for part in value])
    if isinstance(value, _ARRAYS) or is_batched(value):
        name = DTYPE_OF[xp.dtype_of(value)]
        return value if name.opmath is name else xp.astype(value, name.opmath.numpy)
    return value


# The names used in the code of `specialised_run`.
_USED = {
    "MATCH_INPUT": MATCH_INPUT,
    "fitted": fit_all,
    "freed": _freed,
    "renamed": _rename_last,
    "needed": _needed,
    "opened": _open,
}
