"""Reductions."""

from __future__ import annotations

from typing import Any

from undertow.rules.rule import Spec, op


def spread(xp: Any, g: Any, spec: Spec, dim: tuple[int, ...], keepdim: bool) -> Any:
    """A reduced gradient stretched back over the axes that were reduced."""
    if not keepdim and g.ndim != spec.ndim:
        g = xp.reshape(g, tuple([1 if axis in dim else n for axis, n in enumerate(spec.shape)]))
    return xp.broadcast_to(g, spec.shape)


sum = op("sum", lambda xp, self, *, dim, keepdim: xp.sum(self, axis=dim, keepdims=keepdim), promote="same",
         node="SumBackward1",
         self=lambda xp, g, self_spec, dim, keepdim: spread(xp, g, self_spec, dim, keepdim))  # fmt: skip

sum_all = op("sum", lambda xp, self: xp.sum(self), promote="same",
             self=lambda xp, g, self_spec: xp.broadcast_to(g, self_spec.shape))  # fmt: skip
