"""The backward pass under watch: nodes run PyTorch's operators, one offer for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._core import TensorCore, wrap
from undertow.autograd.node import CONJUGATE, FIT, UPCAST, RuleNode, _open
from undertow.dispatch.formulas import FORMULAS
from undertow.dispatch.joint_formulas import JOINT
from undertow.dispatch.offering import CLASSES, anybody
from undertow.dispatch.steps import Formula, do, sum_to
from undertow.dtypes import DTYPE_OF
from undertow.layouts import preserve_format
from undertow.modes import local
from undertow.rules.rule import Spec


def watches(gradients: Any) -> bool:
    """Whether a backward pass that starts with these gradients runs before somebody's eyes."""
    return bool(anybody(gradients)) or any(type(each) in CLASSES for each in gradients)


def gradients(node: RuleNode, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...] | None:
    """A node's gradients by PyTorch's operators; None if its own formula is to run, on tensors.

    A pass that is itself recorded runs undertow's formulas: they are differentiable, single operators here are not.
    """
    name = node.rule.node_name
    formula = FORMULAS.get(name) or JOINT.get(name)
    if formula is None or local.modes.grad_enabled or node.chores & (CONJUGATE | UPCAST):
        return None
    wanted = tuple([edge is not None and (needs is None or needs[nr]) for nr, edge in enumerate(node.edges)])
    if not anybody([part for part in (g if isinstance(g, (tuple, list)) else (g,)) if part is not None]):
        return None
    known = _known(node)
    if isinstance(formula, dict):
        results = _each(formula, node, g, wanted, known)
    else:
        results = _call(formula, {**known, "g": g, "needs": wanted})
    if results is None:
        return None
    if node.chores & FIT and node.specs:
        results = tuple([
            None if result is None or spec is None else _fit(result, spec)
            for result, spec in zip(results, node.specs, strict=False)
        ])
    return results


def _known(node: RuleNode) -> dict[str, Any]:
    """What a node kept, by name. A Python number among the operands is that number."""
    rule = node.rule
    node.unpack(False) if not isinstance(node.saved, tuple) else None  # raises the error of a freed graph
    known = {name: _opened(value, node) for name, value in zip(rule.saves, node.saved, strict=True)}
    if node.specs:
        known |= {f"{name}_spec": spec for name, spec in zip(rule.inputs, node.specs, strict=False)}
    return known | dict(zip(rule.statics, node.statics, strict=False))


def _opened(value: Any, node: RuleNode) -> Any:
    if isinstance(value, np.ndarray):
        numbers = node.statics[len(node.rule.statics) :]
        return numbers[0] if numbers else value.item()
    return _open(value, node)


def _each(
    formula: dict[str, Formula], node: RuleNode, g: Any, wanted: tuple[bool, ...], known: dict[str, Any]
) -> tuple[Any, ...] | None:
    several = isinstance(g, (tuple, list))
    if several and g[0] is None:
        return None
    known = {**known, "g": g[0] if several else g}
    names = [name for name, want in zip(node.rule.inputs, wanted, strict=False) if want]
    if not all(name in formula and _has_all(formula[name], known) for name in names):
        return None
    found = {name: _call(formula[name], known) for name in sorted(names)}  # in PyTorch's order
    if any(result is None for result in found.values()):
        return None
    return tuple([found.get(name) for name in node.rule.inputs[: len(wanted)]])


def _names(formula: Formula) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a formula takes, and what of it it cannot do without."""
    code = formula.__code__
    names = code.co_varnames[: code.co_argcount]
    return names, names[: code.co_argcount - len(formula.__defaults__ or ())]


def _has_all(formula: Formula, known: dict[str, Any]) -> bool:
    return all(name in known for name in _names(formula)[1])


def _call(formula: Formula, known: dict[str, Any]) -> Any:
    """A formula with those of the known values that it asks for; None if it asks for what the node does not have."""
    if not _has_all(formula, known):
        return None
    return formula(**{name: known[name] for name in _names(formula)[0] if name in known})


def _fit(g: Any, spec: Spec) -> Any:
    """Gives a gradient its input's shape and dtype."""
    if tuple(g.shape) != spec.shape:
        g = sum_to(g, spec.shape)
    if g._array.dtype != spec.dtype:
        g = do("_to_copy", g, dtype=DTYPE_OF[spec.dtype], layout=g.layout, device=g.device)
    return g


def seed(output: Any) -> Any:
    """The gradient that a pass starts with."""
    return do("ones_like", output, pin_memory=False, memory_format=preserve_format)


def accumulated(leaf: Any, grad: Any, g: Any) -> Any:
    """A leaf's gradient after a pass that is not recorded has brought `g`."""
    if grad is None:
        return do("detach", g)
    if not isinstance(g, TensorCore):
        g = wrap(g)
    return do("add_.Tensor", grad, g)
