"""Rules without an operator in PyTorch: the operators that it runs instead, recorded step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.engine.apply import apply_generally
from undertow._src.overrides.dispatch.steps import do, like
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import SCALAR_DTYPE, get_default_dtype, uint8
from undertow._src.types.layouts import strided


def _rms_norm(rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    input, weight = inputs
    axes = list(range(-len(statics["normalized_shape"]), 0))
    scale = input.pow(2).mean(axes, keepdim=True).add_(statics["eps"]).rsqrt()
    result = input.mul(scale)
    return result if weight is None else result.mul(weight)


def _where(rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    """Make a tensor of a number to choose from, then run the rule."""
    if all(isinstance(each, TensorCore) for each in inputs):
        return NotImplemented
    return apply_generally(rule, tuple([_as_tensor(each) for each in inputs]), statics)


def _as_tensor(value: Any) -> Any:
    if isinstance(value, TensorCore):
        return value
    kind = get_default_dtype() if isinstance(value, float) else SCALAR_DTYPE[type(value)]
    return do("scalar_tensor", value, dtype=kind, layout=strided, device=cpu)


def _batch_norm(rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    """Dispatch the empty reserve tensor that PyTorch allocates for other libraries and never uses."""
    do("empty.memory_format", [0], dtype=uint8, layout=strided, device=cpu)
    return NotImplemented


# By the rule's name. NotImplemented: the preceding steps are done, the rule itself is dispatched.
COMPOSITES: dict[str, Callable[[Rule, tuple[Any, ...], dict[str, Any]], Any]] = {
    "rms_norm": _rms_norm,
    "where": _where,
    "native_batch_norm": _batch_norm,
}


def noise(input: Any, p: float, shape: tuple[int, ...] | None) -> Any:
    """Return the factor that dropout multiplies by."""
    keep = 1 - p
    drawn = do("empty_like", input) if shape is None else do("new_empty", input, list(shape), **like(input))
    drawn = do("bernoulli_.float", drawn, *([] if keep == 0.5 else [keep]))
    return do("div_.Scalar", drawn, keep)
