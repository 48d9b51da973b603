"""Functions with several results: named tuples, and `out=` for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow import return_types
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import must_be, type_name
from undertow._src.engine.outputs import (
    into,
    manner_of,
    record_without_derivative,
    refuse_recording,
    refuse_shared,
    unrecorded,
    write_out,
)
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def run(name: str, out: Tensor | None, rule: Rule, *inputs: Any, **statics: Any) -> Tensor:
    """Apply a rule with one result, into `out` if given."""
    if out is None:
        return apply(rule, *inputs, **statics)
    if not isinstance(out, TensorCore):
        raise must_be("Tensor", out, name, "out")
    if not differentiable(rule):
        write_out(out, apply(rule, *inputs, **statics), name)
        return out
    return into(out, lambda: apply(rule, *inputs, **statics), inputs, name)


def differentiable(rule: Rule) -> bool:
    return rule.joint is not None or any(gradient is not None for gradient in rule.gradients)


def run_named(kind: Any, name: str, out: Any, rule: Rule, *inputs: Any, **statics: Any) -> Any:
    """Apply a rule with several results, which get names."""
    if out is None:
        return kind(apply(rule, *inputs, **statics))
    return into_all(kind, name, out, lambda: apply(rule, *inputs, **statics), inputs)


def into_all(kind: Any, name: str, out: object, compute: Callable[[], Sequence[Any]], inputs: Sequence[Any]) -> Any:
    """`out=` with a tensor per result."""
    if not isinstance(out, (tuple, list)):
        raise must_be("tuple of Tensors", out, name, "out")
    for place, target in enumerate(out):
        if not isinstance(target, TensorCore):
            raise TypeError(f"expected Tensor as element {place} in argument 'out', but got {type_name(target)}")
    undifferentiated = manner_of(name) == "undifferentiated"
    if undifferentiated:
        refuse_recording("aten::" + name, out)
    else:
        refuse_recording(name, (*inputs, *out))
    for target in out:
        refuse_shared(name, target, inputs)
    for target, result in zip(out, unrecorded(compute), strict=True):
        write_out(target, result, "" if name in ("max", "min") else name)  # which cast where there is one result
        if undifferentiated:
            record_without_derivative(target, inputs, "aten::" + name)
    return getattr(return_types, kind.__name__ + "_out", kind)(out)
