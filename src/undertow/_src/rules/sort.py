"""Ordering: sort and selection by rank, distinct elements, counting into bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.elementwise import no_derivative
from undertow._src.rules.reduce import PICKED, route, same, share
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec


def placed(xp: Namespace, g: Any, indices: Array, self_spec: Spec, dim: int) -> Array:
    """Put gradients of values that kept their dim back to where the values came from."""
    return route(xp, g[0], indices, self_spec, dim, True)


def picked(xp: Namespace, g: Any, indices: Array, self_spec: Spec, dim: int, keepdim: bool) -> Array:
    return route(xp, g[0], indices, self_spec, dim, keepdim)


# --- values and their original indices

sort = op("sort", lambda xp, self, *, dim, descending: xp.sort(self, dim, descending, False), **PICKED,
          self=placed)  # fmt: skip

sort_stable = op("sort", lambda xp, self, *, stable, dim, descending: xp.sort(self, dim, descending, stable), **PICKED,
                 node="SortBackward1", self=placed)  # fmt: skip

argsort = op("argsort", lambda xp, self, *, stable, dim, descending: xp.sort(self, dim, descending, stable)[1])

topk = op("topk", lambda xp, self, *, k, dim, largest, sorted: xp.topk(self, k, dim, largest), **PICKED, self=placed)

kthvalue = op("kthvalue", lambda xp, self, *, k, dim, keepdim: xp.kthvalue(self, k, dim, keepdim), **PICKED,
              self=picked)  # fmt: skip

median = op("median", lambda xp, self, *, dim, keepdim: xp.median(self, dim, keepdim), **PICKED,
            node="MedianBackward1", self=picked)  # fmt: skip

nanmedian = op("nanmedian", lambda xp, self, *, dim, keepdim: xp.nanmedian(self, dim, keepdim), **PICKED,
               node="NanmedianBackward1", self=picked)  # fmt: skip

mode = op("mode", lambda xp, self, *, dim, keepdim: xp.mode(self, dim, keepdim), **PICKED, self=picked)

median_all = op("median", lambda xp, self: xp.median(xp.reshape(self, (-1,)), 0, False)[0],
                self=lambda xp, g, self, result: share(xp, g, same(xp, self, result), None))  # fmt: skip

nanmedian_all = op("nanmedian", lambda xp, self: xp.nanmedian(xp.reshape(self, (-1,)), 0, False)[0],
                   self=lambda xp, g, self, result: share(xp, g, same(xp, self, result), None))  # fmt: skip

# --- distinct elements

DISTINCT: dict[str, Any] = {"outputs": 3, "differentiable": 1, "materialize": False}

unique = op("unique2", lambda xp, self: xp.unique(self), **DISTINCT, self=no_derivative("_unique2"))

unique_dim = op(
    "unique_dim", lambda xp, self, *, dim: xp.unique(self, dim), **DISTINCT, self=no_derivative("unique_dim")
)

unique_consecutive = op("unique_consecutive", lambda xp, self, *, dim: xp.unique_consecutive(self, dim), **DISTINCT,
                        self=no_derivative("unique_consecutive"))  # fmt: skip

# --- bins: no gradients

bincount = op("bincount", lambda xp, self, weights, *, minlength: xp.bincount(self, weights, minlength))

histc = op("histc", lambda xp, self, *, bins, min, max: xp.histc(self, bins, min, max))

histogram = op("histogram", lambda xp, self, bins, weight, *, density: xp.histogram(self, bins, weight, density),
               outputs=2)  # fmt: skip

searchsorted = op("searchsorted", lambda xp, sorted_sequence, self, sorter, *, right, dtype:
                  xp.searchsorted(sorted_sequence, self, sorter, right, dtype))  # fmt: skip
