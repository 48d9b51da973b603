"""Operators that move, choose, join and make elements."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.operator_tables.making import (
    ALL,
    FLOATS,
    INEXACT,
    NUMBERS,
    REAL,
    Calls,
    operator,
    seeded,
)
from tests.operator_tables.op_info import OpInfo
from undertow._tensor import Tensor

REAL_AND_BOOL = "bifhB"


def _method(name: str, letters: str, calls: Calls, **options: Any) -> OpInfo:
    """Return an operator that is a method of tensors only."""
    method = getattr(Tensor, name)
    return operator(name, letters, calls, op=lambda tensor, *args, **kwargs: method(tensor, *args, **kwargs),
                    method_variant=method, **options)  # fmt: skip


def _views() -> list[OpInfo]:
    both = "bifhBc"
    return [
        operator("transpose", both, lambda t: [(t(2, 3), 0, 1), (t(2, 3, 4), -1, 0)], aliases=("swapdims", "swapaxes")),
        operator("permute", both, lambda t: [(t(2, 3, 4), (2, 0, 1))]),
        operator("movedim", both, lambda t: [(t(2, 3, 4), 0, -1), (t(2, 3, 4), (0, 1), (1, 0))], aliases=("moveaxis",)),
        operator("reshape", both, lambda t: [(t(2, 6), (3, 4)), (t(2, 3), (-1,))]),
        operator("flatten", both, lambda t: [t(2, 3), (t(2, 3, 4), 1, 2)]),
        operator("unflatten", both, lambda t: [(t(6), 0, (2, 3)), (t(2, 6), 1, (-1, 2))]),
        operator("ravel", both, lambda t: [t(2, 3), t(3, 2)]), operator("t", both, lambda t: [t(2, 3), t(3)]),
        operator("squeeze", both, lambda t: [t(1, 3, 1), (t(1, 3), 0)]),
        operator("squeeze/multiple", both, lambda t: [(t(1, 3, 1), (0, 2))]),
        operator("unsqueeze", both, lambda t: [(t(3), 0), (t(2, 3), -1)]),
        operator("diagonal", both, lambda t: [t(3, 3), (t(2, 3, 4), 1, 0, 2)]),
        operator("narrow", both, lambda t: [(t(5, 2), 0, 1, 3), (t(5), -1, 2, 2)]),
        operator("select", both, lambda t: [(t(3, 4), 1, 2), (t(3), 0, -1)]),
        operator("chunk", both, lambda t: [(t(5, 2), 2), (t(2, 5), 3, 1)]),
        operator("split", both, lambda t: [(t(5, 2), 2), (t(2, 5), 3, 1)]),
        operator("split/list_args", both, lambda t: [(t(5), [2, 3])]),
        operator("split_with_sizes", both, lambda t: [(t(5), [2, 3]), (t(2, 5), [1, 4], 1)]),
        operator("tensor_split", both, lambda t: [(t(5), 2), (t(2, 6), (1, 4), 1)]),
        operator("hsplit", both, lambda t: [(t(2, 4), 2)]), operator("vsplit", both, lambda t: [(t(4, 2), 2)]),
        operator("dsplit", both, lambda t: [(t(2, 2, 4), 2)]),
        operator("unbind", both, lambda t: [t(3, 2), (t(2, 3), 1)]),
        operator("as_strided", both, lambda t: [(t(8), (2, 3), (1, 2)), (t(8), (2, 2), (3, 1), 1)]),
        operator("atleast_1d", both, lambda t: [t(), t(2)]), operator("atleast_2d", both, lambda t: [t(), t(2)]),
        operator("atleast_3d", both, lambda t: [t(), t(2)]),
        operator("view_as_real", "c", lambda t: [t(3)], test_conjugated_samples=False),
        operator("view_as_complex", "f", lambda t: [t(3, 2)]), operator("imag", "c", lambda t: [t(3)]),
        operator("resolve_conj", both, lambda t: [t(3)]), operator("resolve_neg", both, lambda t: [t(3)]),
        operator("broadcast_to", both, lambda t: [(t(3), (2, 3)), (t(2, 1), (2, 4))]),
        _method("expand", both, lambda t: [(t(3), (2, 3)), (t(2, 1), (-1, 4))]),
        _method("expand_as", both, lambda t: [(t(3), t(2, 3))]), _method("view", both, lambda t: [(t(2, 6), (3, 4))]),
        _method("view_as", both, lambda t: [(t(2, 6), t(3, 4))]),
        _method("reshape_as", both, lambda t: [(t(2, 6), t(3, 4))]),
        _method("unfold", both, lambda t: [(t(6), 0, 3, 2), (t(2, 5), 1, 2, 1)]),
        _method("contiguous", both, lambda t: [t(2, 3)]), _method("sum_to_size", both, lambda t: [(t(2, 3), (1, 3))]),
        _method("__getitem__", both, lambda t: [
            (t(3, 4), 1), (t(3, 4), (slice(None), 2)), (t(3, 4), t.given([0, 2])), (t(3, 4), t.flags(3, 4)), (t(3), None),
        ]),
    ]  # fmt: skip


def _arrangements() -> list[OpInfo]:
    return [
        operator("flip", ALL, lambda t: [(t(2, 3), (0,)), (t(2, 3), (0, 1))]),
        operator("fliplr", ALL, lambda t: [t(2, 3)]),
        operator("flipud", ALL, lambda t: [t(2, 3)]),
        operator("roll", ALL, lambda t: [(t(4), 1), (t(2, 3), (1, -1), (0, 1))]),
        operator("rot90", ALL, lambda t: [t(2, 3), (t(2, 3), 2, (1, 0))]),
        operator("tril", ALL, lambda t: [t(3, 4), (t(3, 3), -1)]),
        operator("triu", ALL, lambda t: [t(3, 4), (t(3, 3), 1)]), operator("diag", ALL, lambda t: [t(3), (t(3, 3), 1)]),
        operator("diag_embed", ALL, lambda t: [t(3), (t(2, 3), 1)]),
        operator("diagflat", ALL, lambda t: [t(3), (t(2, 2), -1)]),
        operator("tile", ALL, lambda t: [(t(2), (3,)), (t(2, 3), (2, 1, 2))]),
        _method("repeat", ALL, lambda t: [(t(2), (3,)), (t(2, 3), (2, 1, 2))]),
        operator("repeat_interleave", ALL, lambda t: [(t(3), 2), (t(2, 3), t.given([1, 2]), 0)]),
        operator("clone", ALL, lambda t: [t(2, 3)]), operator("block_diag", ALL, lambda t: [(t(2), t(2, 2))]),
        operator("combinations", ALL, lambda t: [t(4), (t(3), 2, True)]),
        operator("cartesian_prod", ALL, lambda t: [(t(2), t(3))]),
        operator("cat", ALL, lambda t: [([t(2, 3), t(1, 3)],), ([t(2), t(3)], 0)], aliases=("concat", "concatenate")),
        operator("stack", ALL, lambda t: [([t(2), t(2)],), ([t(2), t(2)], 1)]),
        operator("hstack", ALL, lambda t: [([t(2), t(3)],)]),
        operator("vstack", ALL, lambda t: [([t(2), t(2)],)], aliases=("row_stack",)),
        operator("dstack", ALL, lambda t: [([t(2), t(2)],)]),
        operator("column_stack", ALL, lambda t: [([t(2), t(2, 3)],)]),
        operator("meshgrid/variadic_tensors", ALL, lambda t: [(t(2), t(3), {"indexing": "ij"})]),
        operator("meshgrid/list_of_tensors", ALL, lambda t: [([t(2), t(3)], {"indexing": "xy"})]),
        operator("broadcast_tensors", ALL, lambda t: [(t(3), t(2, 1))]),
        operator("constant_pad_nd", ALL, lambda t: [(t(2, 3), (1, 2), 1)]),
        operator("sort", REAL_AND_BOOL, lambda t: [t(4), (t(2, 3), 0, True)]),
        operator("msort", REAL_AND_BOOL, lambda t: [t(4, 2)]),
        operator("argsort", REAL_AND_BOOL, lambda t: [t(4)], supports_autograd=False),
        operator("topk", REAL, lambda t: [(t(5), 2), (t(2, 4), 2, 1, False)]),
        operator("kthvalue", REAL, lambda t: [(t(5), 2), (t(2, 4), 1, 0)]),
        operator("unique", REAL_AND_BOOL, lambda t: [t(6), (t(6), {"return_inverse": True, "return_counts": True})],
                 supports_autograd=False),
        operator("unique_consecutive", REAL_AND_BOOL, lambda t: [t(6)], supports_autograd=False),
        operator("nonzero", ALL, lambda t: [t(2, 3)], supports_autograd=False),
        operator("argwhere", ALL, lambda t: [t(2, 3)], supports_autograd=False),
        operator("diff", ALL, lambda t: [t(4), (t(2, 4), 2, 1)]),
        operator("trace", NUMBERS, lambda t: [t(3, 4)]),
        operator("gradient", INEXACT, lambda t: [t(5), (t(4, 4), {"dim": 1})]),
        operator("trapezoid", INEXACT, lambda t: [t(4), (t(2, 4), t(4))], aliases=("trapz",)),
        operator("cumulative_trapezoid", INEXACT, lambda t: [t(4)]),
    ]  # fmt: skip


def _choices() -> list[OpInfo]:
    def gathered(t: Any) -> list[Any]:
        return [(t(3, 4), 1, t.whole(4, 3, 2)), (t(5), 0, t.whole(5, 3))]

    def scattered(t: Any) -> list[Any]:
        return [(t(3, 4), 1, t.given([[0, 1], [3, 2], [1, 0]]), t(3, 2)), (t(5), 0, t.given([4, 1]), t(2))]

    def reduced(how: str, t: Any) -> list[Any]:
        return [(*call, how) for call in scattered(t)]

    return [
        operator("gather", ALL, gathered), operator("scatter", ALL, scattered), operator("scatter_add", ALL, scattered),
        *[
            operator(f"scatter_reduce/{how}", REAL, partial(reduced, how))
            for how in ("sum", "prod", "mean", "amin", "amax")
        ],
        operator("index_select", ALL, lambda t: [(t(3, 4), 1, t.given([0, 2])), (t(3), 0, t.given([2, 2]))]),
        operator("index_add", ALL, lambda t: [(t(3, 2), 0, t.given([0, 2, 0]), t(3, 2))]),
        operator("index_copy", ALL, lambda t: [(t(3, 2), 0, t.given([0, 2]), t(2, 2))]),
        operator("index_fill", ALL, lambda t: [(t(3, 2), 0, t.given([0, 2]), 1)]),
        operator("index_put", ALL, lambda t: [
            (t(3, 2), (t.given([0, 2]),), t(2, 2)), (t(3), (t.given([0, 0]),), t(2), {"accumulate": True})]),
        operator("take", ALL, lambda t: [(t(3, 4), t.given([0, 11, 5]))]),
        operator("take_along_dim", ALL, lambda t: [(t(3, 4), t.whole(4, 3, 2), 1)]),
        operator("put", ALL, lambda t: [(t(3, 4), t.given([0, 5]), t(2))]),
        operator("masked_fill", ALL, lambda t: [(t(2, 3), t.flags(2, 3), 1), (t(2, 3), t.flags(3), 1)]),
        operator("masked_select", ALL, lambda t: [(t(2, 3), t.flags(2, 3))]),
        operator("masked_scatter", ALL, lambda t: [(t(2, 3), t.flags(2, 3), t(6))]),
        operator("select_scatter", "bifhB", lambda t: [(t(2, 3), t(3), 0, 1)]),
        operator("slice_scatter", "bifhB", lambda t: [(t(4, 3), t(2, 3), 0, 1, 3)]),
        operator("diagonal_scatter", ALL, lambda t: [(t(3, 3), t(3))]),
        operator("searchsorted", REAL, lambda t: [
            (t(4).sort()[0].detach(), t(3))], supports_autograd=False, method_variant=None),
        operator("bucketize", REAL, lambda t: [
            (t(3), t(4).sort()[0].detach())], supports_autograd=False, method_variant=None),
        operator("bincount", "i", lambda t: [t(5, low=0, high=6)]),
        operator("histc", "f", lambda t: [(t(5), 4)], supports_autograd=False),
        operator("isin", REAL, lambda t: [(t(4), t(3))], supports_autograd=False, method_variant=None),
        operator("renorm", INEXACT, lambda t: [(t(3, 4), 2, 0, 1.5)]),
    ]  # fmt: skip


def _made() -> list[OpInfo]:
    def plain(name: str, letters: str, calls: Calls, **options: Any) -> OpInfo:
        return operator(
            name, letters, calls, supports_autograd=False, method_variant=None, inplace_variant=None, **options
        )

    def like(t: Any) -> list[Any]:
        return [t(2, 3), (t(2), {"dtype": t.dtype})]

    return [
        *[plain(name, ALL, like) for name in ("empty_like", "zeros_like", "ones_like")],
        plain("full_like", ALL, lambda t: [(t(2, 3), 1)]),
        *[plain(name, INEXACT, like, has_nondeterministic_output=True) for name in ("randn_like",)],
        plain("rand_like", FLOATS, like, has_nondeterministic_output=True),
        *[
            plain(name, ALL, lambda t: [((2, 3), {"dtype": t.dtype, "device": t.device})], is_factory_function=True)
            for name in ("zeros", "ones", "empty")
        ],
        plain("full", ALL, lambda t: [((2, 3), 1, {"dtype": t.dtype})], is_factory_function=True),
        plain("eye", ALL, lambda t: [(3, {"dtype": t.dtype}), (2, 4, {"dtype": t.dtype})], is_factory_function=True),
        plain("arange", REAL, lambda t: [
            (5, {"dtype": t.dtype}), (1, 9, 2, {"dtype": t.dtype})], is_factory_function=True),
        plain("linspace", REAL, lambda t: [(1, 9, 5, {"dtype": t.dtype})], is_factory_function=True),
        plain("logspace", "f", lambda t: [(0, 2, 5, {"dtype": t.dtype})], is_factory_function=True),
        plain("randn", INEXACT, lambda t: [
            ((2, 3), {"dtype": t.dtype})], is_factory_function=True, has_nondeterministic_output=True),
        plain("tril_indices", "i", lambda t: [(3, 4)], is_factory_function=True),
        plain("triu_indices", "i", lambda t: [(3, 4)], is_factory_function=True),
        operator("bernoulli", FLOATS, lambda t: [t(4, low=0.1, high=0.9)], op=seeded("bernoulli")),
        operator("multinomial", FLOATS, lambda t: [(t(4, low=0.1, high=1), 2)], op=seeded("multinomial")),
    ]  # fmt: skip


def moving_operators() -> list[OpInfo]:
    """All of these."""
    return [*_views(), *_arrangements(), *_choices(), *_made()]
