"""The backward pass under dispatch: nodes run PyTorch's operators, each dispatched."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.base.modes import local
from undertow._src.engine.rule_node import CONJUGATE, UPCAST, RuleNode, _open
from undertow._src.overrides.dispatch.calls import named
from undertow._src.overrides.dispatch.formulas import FORMULAS
from undertow._src.overrides.dispatch.joint_formulas import JOINT
from undertow._src.overrides.dispatch.offering import CLASSES, is_dispatched, offer
from undertow._src.overrides.dispatch.steps import Formula, do, like, sum_to
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.layouts import preserve_format

# Rules whose gradient is one operator of PyTorch's, with arguments that differ from undertow's formula.
WHOLE = {
    "mkldnn_rnn_layer": "mkldnn_rnn_layer_backward",
    "grid_sampler_2d": "grid_sampler_2d_backward",
    "grid_sampler_3d": "grid_sampler_3d_backward",
    "embedding_bag": "_embedding_bag_backward",
    "linalg_det": "_linalg_det_backward",
    "cdist": "_cdist_backward",
    "pdist": "_pdist_backward",
    "ctc_loss": "_ctc_loss_backward",
    **{
        f"{kind}_pad{rank}d": f"{kind}_pad{rank}d_backward"
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    },
    **{
        f"upsample_{kind}": f"upsample_{kind}_backward"
        for kind in "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d".split()
    },
}


def watches(gradients: Any) -> bool:
    """Whether a backward pass that starts with these gradients is dispatched."""
    return bool(is_dispatched(gradients)) or any(type(each) in CLASSES for each in gradients)


def gradients(node: RuleNode, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...] | None:
    """Return a node's gradients by PyTorch's operators; None if its own formula is to run, on tensors.

    A pass that is itself recorded runs undertow's formulas: they are differentiable, single operators here are not.
    """
    name = node.rule.node_name
    formula = FORMULAS.get(name) or JOINT.get(name)
    if local.modes.grad_enabled or node.post_grad & (CONJUGATE | UPCAST):
        return None
    if formula is None:
        return _whole(node, g, needs)
    wanted = tuple([edge is not None and (needs is None or needs[nr]) for nr, edge in enumerate(node._edges)])
    if not is_dispatched([part for part in (g if isinstance(g, (tuple, list)) else (g,)) if part is not None]):
        return None
    known = _known(node)
    if isinstance(formula, dict):
        results = _each(formula, node, g, wanted, known)
    else:
        results = _call(formula, {**known, "g": g, "needs": wanted})
    if results is None:
        return None
    return tuple([_fit(result, _spec_of(name, known)) for name, result in zip(node.rule.inputs, results, strict=False)])


def _spec_of(name: str, known: dict[str, Any]) -> Any:
    """Return the shape and dtype of an input, as far as its node knows them."""
    spec = known.get(f"{name}_spec")
    if spec is None and isinstance(known.get(name), TensorCore):
        spec = known[name]._array
    return spec


def _whole(node: RuleNode, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...] | None:
    """Dispatch a gradient that is a single operator of PyTorch's; undertow's formula computes it."""
    short = WHOLE.get(node.rule.name) or WHOLE.get(node.rule.node_name)
    if short is None:
        return None
    gradients = list(g) if isinstance(g, (tuple, list)) else [g]
    kept = [value for value in node.unpack(True) if isinstance(value, TensorCore)]
    if any(type(value) in CLASSES for value in (*gradients, *kept)):
        return None
    raw = [None if each is None else each._array for each in gradients]

    def compute() -> list[Any]:
        found = RuleNode._run(node, numpy_xp, raw[0] if node.rule.outputs == 1 else tuple(raw), needs)
        return [None if each is None else wrap(np.asarray(each)) for each in found]

    found = offer(named(short), (*gradients, *kept), {}, compute)
    return tuple(found)


def _known(node: RuleNode) -> dict[str, Any]:
    """Return a node's saved values by name. A Python number among the operands is that number."""
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
    """Return a formula's parameters, and which of them are required."""
    code = formula.__code__
    names = code.co_varnames[: code.co_argcount]
    return names, names[: code.co_argcount - len(formula.__defaults__ or ())]


def _has_all(formula: Formula, known: dict[str, Any]) -> bool:
    return all(name in known for name in _names(formula)[1])


def _call(formula: Formula, known: dict[str, Any]) -> Any:
    """Call a formula with the known values it takes; return None if the node lacks one of them."""
    if not _has_all(formula, known):
        return None
    return formula(**{name: known[name] for name in _names(formula)[0] if name in known})


def _fit(g: Any, spec: Any) -> Any:
    """Give a gradient its input's shape and dtype."""
    if g is None or spec is None:
        return g
    if tuple(g.shape) != spec.shape:
        g = sum_to(g, spec.shape)
    if g._array.dtype.kind == "c" and spec.dtype.kind != "c":
        g = do("select.int", do("view_as_real", g), -1, 0)
    if g._array.dtype != spec.dtype:
        g = do("_to_copy", g, dtype=DTYPE_OF[spec.dtype], layout=g.layout, device=g.device)
    return g


def seed(output: Any) -> Any:
    """Return the gradient that a pass starts with."""
    return do("ones_like", output, pin_memory=False, memory_format=preserve_format)


def accumulated(leaf: Any, grad: Any, g: Any, unshared: bool) -> Any:
    """Return a leaf's `.grad` after an unrecorded pass has delivered `g`.

    The first gradient is taken over if nothing else holds it and its strides are the leaf's; else it is copied.
    """
    if not isinstance(g, TensorCore):
        g = wrap(g)
    if grad is not None:
        return do("add_.Tensor", grad, g)
    if unshared and g.stride() == leaf.stride():
        return do("detach", g)
    fresh = do("new_empty_strided", g, list(leaf.shape), list(leaf.stride()), **like(g))
    return do("copy_", fresh, g)
