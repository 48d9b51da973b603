"""An op's mathematics, written once: how to compute it, and its derivative with respect to each input.

    mul = op("mul", lambda xp, self, other: self * other,
             self=lambda g, other: g * other,
             other=lambda g, self: g * self)

The parameters of `forward` after `xp` are the op's tensor inputs; its keyword-only parameters are statics (dims, flags).
A gradient's parameter names are its save list: an input, `result`, a name from `names` or `hidden`, `<input>_spec`
(shape and dtype only), a static; plus `xp`, `g` (the incoming gradient, a tuple when the op has several outputs) and,
for joint gradients, `needs` (which inputs require one). Names are checked here, at import.

A rule never handles a Tensor, a hook or a mode. `xp` is NumPy, jax.numpy or undertow's own tensors (when the backward
pass is itself recorded), so rules are expressions over `xp.vocabulary`: no branching on values, no writing in place.
The engine does the rest: it sums a gradient to the input's shape, casts it to its dtype and conjugates for complex inputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from inspect import CO_VARARGS
from operator import itemgetter
from typing import Any

Formula = Callable[..., Any]


class Spec:
    """Shape and dtype of an input, for gradients that need no values."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size


class Gradient:
    """A gradient formula and the positions of its arguments among a node's values."""

    __slots__ = ("formula", "names", "pick")

    def __init__(self, formula: Formula, layout: dict[str, int], rule: str) -> None:
        code = formula.__code__
        self.formula = formula
        self.names = code.co_varnames[: code.co_argcount]
        unknown = [name for name in self.names if name not in layout]
        if unknown:
            raise TypeError(
                f"rule {rule!r}: a gradient's parameters {unknown} are unknown; the rule has {sorted(layout)}"
            )
        places = [layout[name] for name in self.names]
        self.pick: Callable[[Any], tuple[Any, ...]]
        if len(places) == 1:
            only = places[0]
            self.pick = lambda values: (values[only],)
        else:
            self.pick = itemgetter(*places)


class Rule:
    """What `op` makes. Data only; `engine/apply.py` runs it on tensors and `engine/node.py` runs its gradients."""

    __slots__ = (
        "name", "node_name", "forward", "inputs", "variadic", "statics", "promote", "outputs", "names", "differentiable",
        "hidden", "view", "holomorphic", "materialize", "gradients", "joint", "saves", "needed", "uses_specs", "node_class",
        "run", "slots", "accepts", "mask", "shows", "half", "stepwise", "keeps", "rows", "pushed",
        "recorded",
    )  # fmt: skip

    node_name: str
    promote: str | None
    accepts: str
    half: bool
    mask: str | None
    shows: dict[str, Any]
    outputs: int
    names: tuple[str, ...]
    differentiable: int
    hidden: tuple[str, ...]
    view: bool
    holomorphic: bool
    materialize: bool
    stepwise: bool
    rows: bool
    pushed: Rule | None
    keeps: frozenset[str]
    gradients: tuple[Gradient | None, ...]
    recorded: tuple[Gradient | None, ...]
    joint: Gradient | None
    saves: tuple[str, ...]
    needed: tuple[frozenset[str], ...]
    uses_specs: bool
    slots: int | None

    def __init__(self, name: str, forward: Formula) -> None:
        code = forward.__code__
        self.name = name
        self.forward = forward
        self.inputs: tuple[str, ...] = code.co_varnames[1 : code.co_argcount]
        first_static = code.co_argcount
        self.statics: tuple[str, ...] = code.co_varnames[first_static : first_static + code.co_kwonlyargcount]
        self.variadic = bool(code.co_flags & CO_VARARGS)  # forward takes *tensors
        if self.variadic:
            self.inputs += (code.co_varnames[first_static + code.co_kwonlyargcount],)
        self.node_class: Any = None  # made on first use by engine/rule_node.py
        self.run: Any = _first_run(self)  # runs it on tensors; engine/apply.py replaces it on first use

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


_specialise: Callable[[Rule], Callable[..., Any]]


def bind_specialiser(specialise: Callable[[Rule], Callable[..., Any]]) -> None:
    """Register the engine's function that makes `rule.run`."""
    global _specialise
    _specialise = specialise


def _first_run(rule: Rule) -> Callable[..., Any]:
    """Return what `rule.run` is until it is used."""
    return lambda *inputs, **statics: _specialise(rule)(*inputs, **statics)


def op(
    name: str,
    forward: Formula,
    *,
    node: str | None = None,
    promote: str | None = None,
    accepts: str = "bifc",
    half: bool = False,
    mask: str | None = None,
    shows: dict[str, Any] | None = None,
    outputs: int = 1,
    names: tuple[str, ...] = (),
    differentiable: int | None = None,
    hidden: tuple[str, ...] = (),
    view: bool = False,
    holomorphic: bool = True,
    materialize: bool = True,
    stepwise: bool = False,
    keeps: tuple[str, ...] = (),
    rows: bool = False,
    joint: Formula | None = None,
    slots: int | None = None,
    pushed: Rule | None = None,
    recorded: dict[str, Formula] | None = None,
    **gradients: Formula,
) -> Rule:
    """Make a rule.

    node            the backward node's name (`MulBackward0` for "mul" unless given)
    promote         how inputs come to one dtype: None (left alone), "numeric", "float" (integers become floats), "same"
                    (they share one anyway, and gradients have their shapes already: they are not summed)
    accepts         the kinds of numbers it is defined for, before integers become floats: bool, int, float, complex
    half            on accelerators its functions take half precision directly, accumulating in float32 themselves
    mask            the input that is a mask of bools, which takes no part in promotion
    shows           what else the node shows as `_saved_<name>`: constants of a more general op
    outputs         how many results the op shows; 0: forward returns a tuple of any length
    names           of the results of an op with several, for gradients that save single ones
    differentiable  how many outputs have gradients, counted from the first (all unless given)
    hidden          names of further results of `forward`, kept for the gradient and not shown
    view            the result aliases the first input
    holomorphic     the formula is the plain derivative; conjugation for complex inputs is done around it
    materialize     gradients of unused outputs arrive as zeros (else as None)
    stepwise        the gradient depends on what it saves by steps only: in a recorded pass with derivative zero, as of
                    PyTorch's backward op that takes it, where a comparison alone would not be part of the graph
    keeps           inputs that are saved though no gradient reads them, because PyTorch's node saves them: programs see
                    that in `_saved_<name>`, in pack hooks, and when they write to such an input
    rows            the result is contiguous; other elementwise results have the layout of their inputs
    joint           one formula giving all inputs' gradients, as a tuple
    slots           how many inputs have an edge at the node: up to the last with a gradient unless given
    pushed          the rule that forward mode differentiates instead, where PyTorch's gradient is not the transpose of
                    its derivative; it must save the same values and use specs if the rule does
    recorded        gradients of inputs in a recorded pass, where PyTorch has one op for the gradient: they run the rule of
                    that op on tensors, so the graph has one node where the formula would make several
    """
    rule = Rule(name, forward)
    rule.node_name = node or _camel(name) + "Backward0"
    rule.promote = promote
    rule.accepts = accepts
    rule.half = half
    rule.mask = mask
    rule.shows = shows or {}
    rule.outputs = outputs
    rule.names = names
    rule.differentiable = outputs if differentiable is None else differentiable
    rule.hidden = hidden
    rule.view = view
    rule.holomorphic = holomorphic
    rule.materialize = materialize
    rule.stepwise = stepwise
    rule.rows = rows
    rule.keeps = frozenset(keeps)
    rule.slots = slots
    rule.pushed = pushed
    _wire(rule, joint, gradients, recorded or {})
    return rule


def _wire(rule: Rule, joint: Formula | None, gradients: dict[str, Formula], recorded: dict[str, Formula]) -> None:
    """Compute what a rule's nodes save, and the position of each gradient's arguments among a node's values."""
    stray = gradients.keys() - set(rule.inputs)
    if stray:
        raise TypeError(f"rule {rule.name!r} has gradients for {sorted(stray)}, but its inputs are {rule.inputs}")
    layout = _layout(rule, [formula for formula in (joint, *gradients.values()) if formula is not None])
    rule.joint = None if joint is None else Gradient(joint, layout, rule.name)
    rule.gradients = tuple(
        Gradient(gradients[given], layout, rule.name) if given in gradients else None for given in rule.inputs
    )
    rule.recorded = tuple(
        [
            Gradient(recorded[given], layout, rule.name) if given in recorded else gradient
            for given, gradient in zip(rule.inputs, rule.gradients)
        ]
        if recorded
        else ()
    )
    if rule.slots is None and joint is None:
        slots = max([0, *[place + 1 for place, gradient in enumerate(rule.gradients) if gradient is not None]])
        rule.slots = None if rule.variadic and slots == len(rule.inputs) else slots
    # For each input: which of the saved values its gradient reads.
    rule.needed = tuple(
        rule.keeps.union((rule.joint or gradient).names) if (rule.joint or gradient) else frozenset()  # type: ignore[union-attr]
        for gradient in rule.gradients
    )


def _layout(rule: Rule, formulas: list[Formula]) -> dict[str, int]:
    """Return the positions of a node's values: xp, g, needs, then what it saved, the input specs, the statics."""
    # In the order in which pack hooks see them; inputs that are results of an earlier op (`result1`) come last.
    inputs = sorted(rule.inputs, key=lambda given: (given.startswith("result"), given))
    saveable = (*inputs, *sorted(("result", *rule.names)), *rule.hidden)
    asked = set(rule.keeps)
    for formula in formulas:
        asked.update(formula.__code__.co_varnames[: formula.__code__.co_argcount])
    rule.saves = tuple(saved for saved in saveable if saved in asked)
    specs = tuple(f"{given}_spec" for given in rule.inputs)
    rule.uses_specs = any(spec in asked for spec in specs)
    names = ("xp", "g", "needs", *rule.saves, *(specs if rule.uses_specs else ()), *rule.statics)
    return {value: place for place, value in enumerate(names)}


def twin(rule: Rule, node: str, view: bool = False) -> Rule:
    """Return the same mathematics under a different node's name. `view`: the results are views, as the rule's are."""
    other = copy.copy(rule)
    other.node_name, other.view = node, view
    other.node_class, other.run = None, _first_run(other)
    return other


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
