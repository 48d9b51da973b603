"""Straight-line code for a rule's backward, written out once per rule when the rule first records something.

`RuleNode.run` handles every case by looking things up in the rule. For the usual case (raw arrays, every edge wanted,
no chores) the lookups cost more than the arithmetic, so they are done here, ahead of time. For `mul` this writes

    def run(node, xp, g, needs):
        if needs is not None or node.chores or xp.RECORDED:
            return general(node, xp, g, needs)
        saved = node.saved
        if saved.__class__ is Freed:
            raise freed(node)
        v_self, v_other = saved
        if isinstance(v_self, SavedTensor):
            v_self = v_self.raw(node)
        if isinstance(v_other, SavedTensor):
            v_other = v_other.raw(node)
        e_self, e_other = node.edges
        return (d_self(g, v_other) if e_self is not None else None,
                d_other(g, v_self) if e_other is not None else None)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.autograd.saved import Freed, SavedTensor
from undertow.rules.rule import Rule


def can_specialise(rule: Rule) -> bool:
    """Rules with one gradient per input and one output; joint rules do enough work of their own."""
    return rule.joint is None and not rule.variadic and rule.outputs == 1 and not rule.hidden


def specialised_run(rule: Rule, general: Callable[..., Any], freed: Callable[[Any], Exception]) -> Callable[..., Any]:
    """The `run` method for a rule's node class."""
    scope: dict[str, Any] = {"general": general, "freed": freed, "Freed": Freed, "SavedTensor": SavedTensor}
    lines = [
        "def run(node, xp, g, needs):",
        "    if needs is not None or node.chores or xp.RECORDED:",
        "        return general(node, xp, g, needs)",
    ]
    if rule.saves:
        lines += [
            "    saved = node.saved",
            "    if saved.__class__ is Freed:",
            "        raise freed(node)",
            f"    {_targets('v_', rule.saves)} = saved",
        ]
        for name in rule.saves:
            lines += [f"    if isinstance(v_{name}, SavedTensor):", f"        v_{name} = v_{name}.raw(node)"]
    if rule.uses_specs:
        lines += [f"    {_targets('v_', [given + '_spec' for given in rule.inputs])} = node.specs"]
    if rule.statics:
        lines += [f"    {_targets('v_', rule.statics)} = node.statics"]
    results = []
    for given, gradient in zip(rule.inputs, rule.gradients, strict=True):
        if gradient is None:
            results.append("None")
            continue
        scope[f"d_{given}"] = gradient.formula
        arguments = ", ".join(name if name in ("xp", "g", "needs") else f"v_{name}" for name in gradient.names)
        results.append(f"d_{given}({arguments}) if e_{given} is not None else None")
    if len(rule.inputs) == 1:
        lines += [f"    return ({results[0].removesuffix(f' if e_{rule.inputs[0]} is not None else None')},)"]
    else:
        lines += [f"    {_targets('e_', rule.inputs)} = node.edges", f"    return ({', '.join(results)},)"]
    exec("\n".join(lines), scope)  # noqa: S102
    return scope["run"]


def _targets(prefix: str, names: Any) -> str:
    return ", ".join(prefix + name for name in names) + ","
