"""Functions that pick, place and order elements: gather and scatter, index_*, sort, topk, unique, bincount, one_hot."""

from __future__ import annotations

from math import inf, nan

from tests.oracle.sampling import EVERY, REAL, Table, distinct, index, mask, positive, signed, values

table = Table(
    "index",
    beyond="take argwhere msort kthvalue unique_consecutive index_fill index_reduce put select_scatter slice_scatter "
    "diagonal_scatter",
)
op, bad, expression = table.op, table.bad, table.expression

CALLS = "function method"
CALLS_OUT = "function method out"
THREE = "function method inplace"

ROWS = values([0, 2], "int64")
REPEATED = values([2, 0, 2], "int64")
INTO_ROWS = index(3, 2, 4)
EACH_ONCE = values([[0, 1, 2, 0], [2, 0, 1, 1]], "int64")

# --- gather and scatter ----------------------------------------------------------------------------------------------

op("gather", "dim_0", "a, 0, i", CALLS_OUT, dtypes=EVERY, a=signed(3, 4), i=INTO_ROWS)
op("gather", "dim_1", "a, 1, i", CALLS, a=signed(3, 4), i=index(4, 3, 6))
op("gather", "negative_dim", "a, -1, i", a=signed(2, 3, 4), i=index(4, 2, 2, 5))
op("gather", "keywords", "input=a, dim=0, index=i", a=signed(3, 4), i=INTO_ROWS)
op("gather", "zero_dim", "a, 0, i", a=signed(), i=values(0, "int64"))
op("gather", "empty", "a, 0, i", a=signed(3, 4), i=index(3, 0, 4))
op("gather", "sparse_grad_off", "a, 1, i, sparse_grad=False", a=signed(3, 4), i=index(4, 3, 2))
op("gather", "transposed", "a.t(), 0, i", a=signed(4, 3), i=INTO_ROWS)
bad("gather", "range", "a.gather(0, i + 3)", words=12, a=signed(3, 4), i=INTO_ROWS)
bad("gather", "negative", "a.gather(0, i - 3)", words=12, a=signed(3, 4), i=INTO_ROWS)
bad("gather", "dims", "a.gather(0, i)", words=12, a=signed(3, 4), i=index(3, 4))
bad("gather", "size", "a.gather(0, i)", words=12, a=signed(3, 4), i=index(3, 2, 5))
bad("gather", "dtype", "a.gather(0, a)", words=10, a=signed(3, 4))
bad("gather", "dim", "a.gather(2, i)", words=14, a=signed(3, 4), i=INTO_ROWS)

op(
    "scatter",
    "source",
    "a, 0, i, b",
    "function method inplace out",
    dtypes=EVERY,
    a=signed(3, 4),
    i=EACH_ONCE,
    b=signed(2, 4),
)
op("scatter", "value", "a, 0, i, 1.5", "function method inplace out", dtypes=REAL, a=signed(3, 4), i=INTO_ROWS)
op("scatter", "dim_1", "a, 1, i, b", THREE, a=signed(3, 4), i=values([[0, 3], [1, 2], [3, 1]], "int64"), b=signed(3, 2))
op("scatter", "larger_source", "a, 0, i, b", CALLS, first=False, a=signed(3, 4), i=EACH_ONCE, b=signed(5, 6))
op("scatter", "keywords", "a, dim=-2, index=i, src=b", a=signed(3, 4), i=EACH_ONCE, b=signed(2, 4))
op("scatter", "value_keyword", "a, dim=0, index=i, value=2", CALLS, a=signed(3, 4), i=INTO_ROWS)
op("scatter", "reduce_add", "a, 0, i, b, reduce='add'", THREE, first=False, a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))
op("scatter", "reduce_multiply", "a, 0, i, 2.0, reduce='multiply'", THREE, first=False, a=signed(3, 4), i=INTO_ROWS)
op("scatter", "zero_dim", "a, 0, i, b", a=signed(), i=values(0, "int64"), b=signed())
op("scatter", "empty", "a, 0, i, b", a=signed(3, 4), i=index(3, 0, 4), b=signed(0, 4))
bad("scatter", "range", "a.scatter(0, i + 3, b)", words=12, a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))
bad("scatter", "dtypes", "a.scatter(0, i, b)", words=10, a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4, dtype="float32"))
bad("scatter", "index_dtype", "a.scatter(0, a, a)", words=10, a=signed(3, 4))
bad("scatter", "small_source", "a.scatter(0, i, b)", words=12, a=signed(3, 4), i=INTO_ROWS, b=signed(1, 4))
bad("scatter", "reduce", "a.scatter(0, i, b, reduce='max')", words=10, a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))

op(
    "scatter_add",
    "plain",
    "a, 0, i, b",
    "function method inplace out",
    dtypes=EVERY,
    a=signed(3, 4),
    i=INTO_ROWS,
    b=signed(2, 4),
)
op("scatter_add", "dim_1", "a, 1, i, b", THREE, a=signed(3, 4), i=index(4, 3, 5), b=signed(3, 5))
op("scatter_add", "one_dim", "a, 0, i, b", a=signed(3), i=index(3, 7), b=signed(7))
op("scatter_add", "keywords", "a, dim=-1, index=i, src=b", a=signed(3, 4), i=index(4, 3, 5), b=signed(3, 5))
op("scatter_add", "larger_source", "a, 0, i, b", first=False, a=signed(3, 4), i=INTO_ROWS, b=signed(3, 5))
op("scatter_add", "transposed", "a.t(), 0, i, b.t()", a=signed(4, 3), i=INTO_ROWS, b=signed(4, 2))
bad("scatter_add", "range", "a.scatter_add(0, i + 3, b)", words=12, a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))
bad(
    "scatter_add",
    "dtypes",
    "a.scatter_add(0, i, b)",
    words=10,
    a=signed(3, 4),
    i=INTO_ROWS,
    b=signed(2, 4, dtype="float32"),
)
bad("scatter_add", "dims", "a.scatter_add(0, i, b)", words=12, a=signed(3, 4), i=index(3, 4), b=signed(4))

for reduce in ["sum", "prod", "mean", "amax", "amin"]:
    inputs = {"a": distinct(3, 4), "i": INTO_ROWS, "b": positive(2, 4)}
    op(
        "scatter_reduce",
        reduce,
        f"a, 0, i, b, '{reduce}'",
        "function method inplace out",
        dtypes="float32 int64",
        **inputs,
    )
    op("scatter_reduce", f"{reduce}_fresh", f"a, 0, i, b, reduce='{reduce}', include_self=False", THREE, **inputs)
op(
    "scatter_reduce",
    "prod_zeros",
    "a, 0, i, b, 'prod'",
    second=False,
    a=positive(2),
    i=index(2, 4),
    b=values([0.0, 2.0, 3.0, 4.0]),
)
op(
    "scatter_reduce",
    "amax_ties",
    "a, 0, i, b, 'amax'",
    second=False,
    a=values([1.0, 5.0]),
    i=values([0, 0, 1], "int64"),
    b=values([3.0, 3.0, 5.0]),
)
bad("scatter_reduce", "name", "a.scatter_reduce(0, i, b, 'max')", a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))
bad("scatter_reduce", "missing", "a.scatter_reduce(0, i, b)", a=signed(3, 4), i=INTO_ROWS, b=signed(2, 4))

# --- whole slices ----------------------------------------------------------------------------------------------------

op("index_select", "dim_0", "a, 0, i", CALLS_OUT, dtypes=EVERY, a=signed(3, 4), i=REPEATED)
op("index_select", "dim_1", "a, -1, i", CALLS, a=signed(2, 3, 4), i=index(4, 6))
op("index_select", "int32", "a, 0, i", a=signed(3, 4), i=values([1, 1], "int32"))
op("index_select", "keywords", "input=a, dim=0, index=i", a=signed(3, 4), i=ROWS)
op("index_select", "zero_dim_index", "a, 0, i", a=signed(3, 4), i=values(1, "int64"))
op("index_select", "zero_dim", "a, 0, i", a=signed(), i=values([0], "int64"))
op("index_select", "empty", "a, 0, i", a=signed(3, 4), i=index(3, 0))
op("index_select", "transposed", "a.t(), 0, i", a=signed(4, 3), i=ROWS)
bad("index_select", "range", "a.index_select(0, i + 3)", words=10, a=signed(3, 4), i=ROWS)
bad("index_select", "two_dims", "a.index_select(0, i)", words=10, a=signed(3, 4), i=index(3, 2, 2))
bad("index_select", "dtype", "a.index_select(0, a[0])", words=10, a=signed(3, 4))
bad("index_select", "dim", "a.index_select(2, i)", words=14, a=signed(3, 4), i=ROWS)

op(
    "index_add",
    "plain",
    "a, 0, i, b",
    "function method inplace out",
    dtypes=EVERY,
    a=signed(3, 4),
    i=REPEATED,
    b=signed(3, 4),
)
op("index_add", "alpha", "a, 1, i, b, alpha=2.5", THREE, a=signed(3, 4), i=index(4, 5), b=signed(3, 5))
op("index_add", "keywords", "a, dim=-2, index=i, source=b", a=signed(3, 4), i=ROWS, b=signed(2, 4))
op("index_add", "one_dim", "a, 0, i, b", a=signed(3), i=REPEATED, b=signed(3))
bad("index_add", "range", "a.index_add(0, i + 3, b)", words=10, a=signed(3, 4), i=ROWS, b=signed(2, 4))
bad("index_add", "counts", "a.index_add(0, i, b)", words=12, a=signed(3, 4), i=ROWS, b=signed(3, 4))
bad("index_add", "dtypes", "a.index_add(0, i, b)", words=10, a=signed(3, 4), i=ROWS, b=signed(2, 4, dtype="float32"))
bad("index_add", "slices", "a.index_add(0, i, b)", words=12, a=signed(3, 4), i=ROWS, b=signed(2, 5))

op(
    "index_copy",
    "plain",
    "a, 0, i, b",
    "function method inplace out",
    dtypes=EVERY,
    a=signed(3, 4),
    i=ROWS,
    b=signed(2, 4),
)
op("index_copy", "dim_1", "a, -1, i, b", THREE, a=signed(3, 4), i=values([3, 1], "int64"), b=signed(3, 2))
op("index_copy", "one_dim", "a, 0, i, b", a=signed(3), i=ROWS, b=signed(2))
bad("index_copy", "range", "a.index_copy(0, i + 3, b)", words=10, a=signed(3, 4), i=ROWS, b=signed(2, 4))
bad("index_copy", "counts", "a.index_copy(0, i, b)", words=12, a=signed(3, 4), i=ROWS, b=signed(3, 4))
bad("index_copy", "dtypes", "a.index_copy(0, i, b)", words=10, a=signed(3, 4), i=ROWS, b=signed(2, 4, dtype="float32"))

op("index_fill", "scalar", "a, 0, i, 1.5", THREE, dtypes=REAL, a=signed(3, 4), i=ROWS)
op("index_fill", "tensor", "a, 1, i, b", THREE, a=signed(3, 4), i=ROWS, b=signed())
bad("index_fill", "value_shape", "a.index_fill(0, i, a)", words=12, a=signed(3, 4), i=ROWS)
bad("index_fill", "range", "a.index_fill(0, i + 3, 1.0)", words=10, a=signed(3, 4), i=ROWS)

for reduce in ["prod", "mean", "amax", "amin"]:
    inputs = {"a": distinct(3, 4), "i": REPEATED, "b": positive(3, 4)}
    op("index_reduce", reduce, f"a, 0, i, b, '{reduce}'", THREE, dtypes="float32 int64", second=False, **inputs)
    op("index_reduce", f"{reduce}_fresh", f"a, 0, i, b, '{reduce}', include_self=False", THREE, second=False, **inputs)
bad("index_reduce", "name", "a.index_reduce(0, i, a, 'sum')", words=10, a=signed(3, 4), i=REPEATED)

op("index_put", "rows", "a, (i,), b", THREE, dtypes=EVERY, a=signed(3, 4), i=ROWS, b=signed(2, 4))
op("index_put", "elements", "a, (i, i), b", THREE, a=signed(3, 4), i=ROWS, b=signed(2))
op("index_put", "broadcast", "a, (i,), b", THREE, a=signed(3, 4), i=ROWS, b=signed())
op(
    "index_put",
    "accumulate",
    "a, (i,), b, accumulate=True",
    THREE,
    dtypes="float32 int64",
    a=signed(3, 4),
    i=REPEATED,
    b=signed(3, 4),
)
op(
    "index_put",
    "accumulate_broadcast",
    "a, (i, j), b, True",
    THREE,
    a=signed(3, 4),
    i=index(3, 2, 1),
    j=index(4, 5),
    b=signed(5),
)
op("index_put", "mask", "a, (m,), b", THREE, a=signed(3, 4), m=mask(3, 4), b=signed())
op("index_put", "keywords", "a, indices=(i,), values=b", a=signed(3, 4), i=ROWS, b=signed(4))
op("index_put", "negative", "a, (i - 3,), b", a=signed(3, 4), i=ROWS, b=signed(2, 4))
bad("index_put", "range", "a.index_put((i + 3,), b)", words=12, a=signed(3, 4), i=ROWS, b=signed(4))
bad("index_put", "shapes", "a.index_put((i,), b)", words=12, a=signed(3, 4), i=ROWS, b=signed(3, 4))
bad("index_put", "dtypes", "a.index_put((i,), b)", words=10, a=signed(3, 4), i=ROWS, b=signed(4, dtype="float32"))
bad("index_put", "too_many", "a.index_put((i, i, i), b)", words=10, a=signed(3, 4), i=ROWS, b=signed())

op("take_along_dim", "dim", "a, i, 0", CALLS_OUT, a=signed(3, 4), i=INTO_ROWS)
op("take_along_dim", "broadcast", "a, i, dim=1", CALLS, a=signed(3, 4), i=index(4, 1, 2))
op("take_along_dim", "flat", "a, i", CALLS, a=signed(3, 4), i=index(12, 5))
op("take_along_dim", "argsort", "a, a.argsort(1), 1", a=distinct(3, 4))
bad("take_along_dim", "dims", "torch.take_along_dim(a, i, 0)", words=12, a=signed(3, 4), i=index(3, 4))
bad("take_along_dim", "dtype", "torch.take_along_dim(a, a, 0)", words=10, a=signed(3, 4))
op("take", "plain", "a, i", CALLS_OUT, dtypes=EVERY, a=signed(3, 4), i=index(12, 2, 3))
op("put", "plain", "a, i, b", THREE, a=signed(3, 4), i=values([0, 7, -1], "int64"), b=signed(3))
op("put", "accumulate", "a, i, b, True", THREE, a=signed(3, 4), i=values([[0, 7], [7, -1]], "int64"), b=signed(2, 2))
bad("put", "range", "a.put_(i + 12, b)", words=10, a=signed(3, 4, grad=False), i=ROWS, b=signed(2, grad=False))
op("select_scatter", "plain", "a, b, 1, -1", CALLS, a=signed(3, 4), b=signed(3))
op("slice_scatter", "plain", "a, b, 1, 1, None, 2", CALLS, a=signed(3, 4), b=signed(3, 2))
op("slice_scatter", "whole", "a, b", a=signed(2, 2), b=signed(2, 2))
op("diagonal_scatter", "plain", "a, b, 1", CALLS, a=signed(3, 3), b=signed(2))
bad("select_scatter", "shape", "torch.select_scatter(a, b, 0, 0)", words=10, a=signed(3, 4), b=signed(3))
bad("take", "range", "a.take(i + 12)", words=10, a=signed(3, 4), i=ROWS)

# --- where things are ------------------------------------------------------------------------------------------------

HOLES = values([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
op("nonzero", "plain", "a", CALLS_OUT, dtypes=EVERY, a=HOLES)
op("nonzero", "tuple", "a, as_tuple=True", CALLS, a=HOLES)
op("nonzero", "mask", "a", a=mask(3, 4))
op("nonzero", "three_dims", "a", a=mask(2, 3, 4))
op("nonzero", "zero_dim", "a", a=signed())
op("nonzero", "zero_dim_zero", "a", a=values(0.0))
op("nonzero", "empty", "a", a=signed(0, 3))
op("nonzero", "nan", "a", a=values([0.0, nan, -0.0, inf]))
expression("argwhere", "plain", "(torch.argwhere(a), a.argwhere())", a=HOLES)
bad("nonzero", "backward", "a.nonzero().sum().backward()", a=HOLES)

# --- order -----------------------------------------------------------------------------------------------------------

op("sort", "plain", "a", CALLS_OUT, dtypes=REAL, a=distinct(3, 4))
op("sort", "dim", "a, 0", CALLS, a=distinct(3, 4))
op("sort", "descending", "a, -1, descending=True", CALLS, dtypes="float32 int64 uint8", a=distinct(3, 4))
op("sort", "positional_descending", "a, 0, True", CALLS, a=distinct(3, 4))
op(
    "sort",
    "stable",
    "a, stable=True, dim=1",
    CALLS,
    a=values([[2.0, 1.0, 2.0, 1.0], [3.0, 3.0, 3.0, 0.0]]),
    second=False,
)
op("sort", "stable_descending", "a, stable=True, descending=True", a=values([2, 1, 2, 1, 3, 3], "int64"))
op("sort", "masks", "a, stable=True", a=values([True, False, True, False], "bool"))
op("sort", "nan", "a", second=False, a=values([2.0, nan, 1.0, inf, -inf]))
op("sort", "nan_descending", "a, descending=True", second=False, a=values([2.0, nan, 1.0, inf, -inf]))
op("sort", "zero_dim", "a", a=signed())
op("sort", "empty", "a", a=signed(0, 3))
op("sort", "transposed", "a.t(), 0", a=distinct(3, 4))
expression("sort", "fields", "(lambda r: (r.values, r.indices, type(r).__name__))(a.sort())", a=distinct(5))
bad("sort", "dim", "a.sort(2)", words=14, a=signed(3, 4))
bad("sort", "complex", "a.sort()", a=signed(3, dtype="complex64"))
op("msort", "plain", "a", CALLS, a=distinct(4, 3))
op("argsort", "plain", "a", CALLS, dtypes=REAL, a=distinct(3, 4))
op("argsort", "dim", "a, 0, descending=True", CALLS, a=distinct(3, 4))
op("argsort", "stable", "a, dim=-1, stable=True", a=values([2.0, 1.0, 2.0, 1.0]))
op("argsort", "zero_dim", "a", a=signed())
bad("argsort", "dim", "a.argsort(2)", words=14, a=signed(3, 4))
bad("argsort", "backward", "a.argsort().sum().backward()", a=signed(3))

op("topk", "plain", "a, 2", CALLS_OUT, dtypes=REAL, a=distinct(3, 5))
op("topk", "smallest", "a, 3, largest=False", CALLS, a=distinct(3, 5))
op("topk", "dim", "a, 2, 0", CALLS, a=distinct(4, 3))
op("topk", "keywords", "input=a, k=2, dim=-1, largest=True, sorted=True", a=distinct(3, 5))
op("topk", "all", "a, 5", a=distinct(5))
op("topk", "none", "a, 0", a=distinct(5))
op("topk", "zero_dim", "a, 1", a=signed())
op("topk", "nan", "a, 2", first=False, a=values([1.0, nan, 3.0]))
bad("topk", "k", "a.topk(6)", words=10, a=signed(3, 5))
bad("topk", "negative", "a.topk(-1)", words=10, a=signed(3, 5))
bad("topk", "dim", "a.topk(1, 2)", words=14, a=signed(3, 5))
bad("topk", "missing", "a.topk()", a=signed(3))
op("kthvalue", "plain", "a, 2", CALLS, a=distinct(3, 5))

# --- counting --------------------------------------------------------------------------------------------------------

SEVERAL = values([[3, 1, 3], [2, 1, 3]])
op("unique", "plain", "a", CALLS, dtypes=REAL, raises=None, a=SEVERAL)
op("unique", "floats", "a", CALLS, first=False, a=values([2.5, 1.5, 2.5]))
op("unique", "inverse", "a, return_inverse=True", CALLS, first=False, a=SEVERAL)
op("unique", "counts", "a, return_counts=True", CALLS, first=False, a=SEVERAL)
op("unique", "everything", "a, sorted=True, return_inverse=True, return_counts=True", first=False, a=SEVERAL)
op("unique", "dim", "a, dim=1", CALLS, first=False, a=values([[3, 1, 3], [2, 1, 2]]))
op(
    "unique",
    "dim_everything",
    "a, return_inverse=True, return_counts=True, dim=0",
    first=False,
    a=values([[1, 2], [0, 5], [1, 2]]),
)
op("unique", "empty", "a", first=False, a=signed(0))
op("unique", "zero_dim", "a, return_inverse=True", first=False, a=signed())
op("unique", "mask", "a, return_counts=True", a=mask(8))
bad("unique", "backward", "a.unique().sum().backward()", words=10, a=values([2.5, 1.5, 2.5]))
op("unique_consecutive", "plain", "a", CALLS, first=False, a=values([1, 1, 2, 2, 1], "int64"))
op("unique_consecutive", "everything", "a, return_inverse=True, return_counts=True", a=values([1, 1, 2, 2, 1], "int64"))

op("bincount", "plain", "a", CALLS, a=values([0, 2, 2, 5], "int64"))
op("bincount", "minlength", "a, minlength=8", CALLS, a=values([0, 2, 2, 5], "int32"))
op("bincount", "weights", "a, weights=b", CALLS, first=False, a=values([0, 2, 2, 5], "int64"), b=signed(4))
op("bincount", "float_weights", "a, b", first=False, a=values([0, 1, 1], "int64"), b=signed(3, dtype="float32"))
op("bincount", "whole_weights", "a, b", first=False, a=values([0, 1, 1], "int64"), b=signed(3, dtype="int32"))
op("bincount", "empty", "a", a=index(3, 0))
op("bincount", "empty_minlength", "a, minlength=3", a=index(3, 0))
bad("bincount", "negative", "torch.bincount(a - 1)", words=10, a=values([0, 1], "int64"))
bad("bincount", "two_dims", "torch.bincount(a)", words=10, a=index(3, 2, 2))
bad("bincount", "floats", "torch.bincount(a)", a=signed(3))
bad("bincount", "weights_shape", "torch.bincount(a, b)", words=10, a=index(3, 2), b=signed(3))
bad("bincount", "minlength", "torch.bincount(a, minlength=-1)", a=index(3, 2))

op("F.one_hot", "plain", "a", a=values([0, 2, 1], "int64"))
op("F.one_hot", "classes", "a, 5", a=values([[0, 2], [1, 1]], "int64"))
op("F.one_hot", "keyword", "a, num_classes=4", a=values([3, 0], "int64"))
op("F.one_hot", "zero_dim", "a, 3", a=values(2, "int64"))
op("F.one_hot", "empty_with_classes", "a, 3", a=index(3, 0))
bad("F.one_hot", "floats", "F.one_hot(a)", words=10, a=signed(3))
bad("F.one_hot", "negative", "F.one_hot(a - 1)", a=values([0, 1], "int64"))
bad("F.one_hot", "too_few_classes", "F.one_hot(a, 1)", a=values([0, 1], "int64"))
bad("F.one_hot", "empty", "F.one_hot(a)", words=10, a=index(3, 0))
