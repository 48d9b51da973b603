"""Functions with several results: named tuples, and `out=` for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._core import TensorCore
from undertow.autograd.apply import apply
from undertow.autograd.outputs import into, write_out
from undertow.modes import local
from undertow.ops.arguments import must_be
from undertow.rules.rule import Rule


def run(name: str, out: Any, rule: Rule, *inputs: Any, **statics: Any) -> Any:
    """Applies a rule with one result, into `out` if given."""
    if out is None:
        return apply(rule, *inputs, **statics)
    if not isinstance(out, TensorCore):
        raise must_be("Tensor", out, name, "out")
    if not differentiable(rule):
        write_out(out, apply(rule, *inputs, **statics), same_dtype=True)
        return out
    return into(out, lambda: apply(rule, *inputs, **statics), inputs, name, same_dtype=True)


def differentiable(rule: Rule) -> bool:
    return rule.joint is not None or any(gradient is not None for gradient in rule.gradients)


def run_named(kind: Any, name: str, out: Any, rule: Rule, *inputs: Any, **statics: Any) -> Any:
    """Applies a rule with several results, which get names."""
    if out is None:
        return kind(apply(rule, *inputs, **statics))
    return into_all(kind, name, out, lambda: apply(rule, *inputs, **statics), inputs)


def into_all(kind: Any, name: str, out: Any, compute: Callable[[], Sequence[Any]], inputs: Sequence[Any]) -> Any:
    """`out=` with a tensor per result."""
    if not isinstance(out, (tuple, list)):
        raise must_be("tuple of Tensors", out, name, "out")
    modes = local.modes
    if modes.grad_enabled and any(isinstance(given, TensorCore) and given._requires_grad for given in (*inputs, *out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    before, modes.grad_enabled = modes.grad_enabled, False
    try:
        results = compute()
    finally:
        modes.grad_enabled = before
    for target, result in zip(out, results, strict=True):
        write_out(target, result, same_dtype=True)
    return kind(out)
