"""Functions that fold dimensions away, and running folds: sum, mean, extremes, spread, norms, cumulative sums."""

from __future__ import annotations

from math import inf, nan

from tests.oracle.sampling import COMPLEX, EVERY, FLOATS, REAL, Table, distinct, mask, signed, values

table = Table(
    "reduce",
    beyond="nansum nanmean count_nonzero aminmax std_mean mode quantile logcumsumexp cummax cummin diff nanmedian",
)
op, bad, expression = table.op, table.bad, table.expression

CALLS = "function method"
CALLS_OUT = "function method out"

# --- sum, mean, prod -------------------------------------------------------------------------------------------------

for name in ["sum", "mean", "prod"]:
    op(name, "all", "a", CALLS, dtypes=EVERY, a=signed(3, 4))
    op(name, "dim", "a, 1", CALLS_OUT, dtypes=EVERY, a=signed(3, 4))
    op(name, "negative_dim", "a, -2", a=signed(2, 3, 4))
    op(name, "keepdim", "a, 1, keepdim=True", CALLS, a=signed(2, 3, 4))
    op(name, "keywords", "input=a, dim=0, keepdim=False", a=signed(3, 4))
    op(name, "zero_dim", "a", CALLS, a=signed())
    op(name, "zero_dim_with_dim", "a, -1", a=signed())
    op(name, "empty", "a", a=signed(0, 3))
    op(name, "empty_dim", "a, 0", a=signed(0, 3))
    op(name, "empty_other_dim", "a, 1", a=signed(0, 3))
    op(name, "transposed", "a.t(), 0", a=signed(3, 4))
    op(name, "strided", "a[:, ::2], 1", a=signed(3, 6))
    op(name, "dtype", "a, dtype=torch.float32", second=False, tolerance=(1e-5, 1e-6), a=signed(3, 4))
    op(name, "dim_dtype", "a, 1, dtype=torch.float64", dtypes="float32 int64 bool", a=signed(3, 4))
    op(name, "special", "a, 1", first=False, a=values([[nan, 1.0], [inf, -inf], [inf, 2.0]]))
    bad(name, "dim", f"torch.{name}(a, 5)", words=14, a=signed(3, 4))
    bad(name, "string", f"torch.{name}('x')")
    bad(name, "dim_string", f"torch.{name}(a, 'x')", a=signed(3))
for name in ["sum", "mean", "amax", "amin", "logsumexp"]:
    numbers = distinct if name.startswith("a") else signed
    op(name, "dims", "a, (0, 2)", CALLS_OUT, a=numbers(2, 3, 4))
    op(name, "dims_keepdim", "a, (0, -1), keepdim=True", a=numbers(2, 3, 4))
    op(name, "dims_list", "a, dim=[1, 0]", a=numbers(2, 3, 4))
    bad(name, "repeated_dims", f"torch.{name}(a, (0, 0))", words=10, a=signed(3, 4))
    bad(name, "dims_out_of_range", f"torch.{name}(a, (0, 5))", words=14, a=signed(3, 4))
for name in ["sum", "mean", "std", "var"]:
    op(name, "dim_none", "a, dim=None", a=signed(3, 4))
    # torch reduces everything here, but differentiates var and std as if nothing were reduced, which gives inf.
    op(name, "no_dims", "a, dim=()", first=name in ("sum", "mean"), a=signed(3, 4))
op("sum", "none_keepdim", "a, dim=None, keepdim=True", a=signed(3, 4))
op("sum", "whole_overflow", "a", a=values([127, 127, 127], "int8"))
op("sum", "mask", "a, 0", a=mask(3, 4))
op("sum", "axis_spelling", "a, axis=1, keepdims=True", CALLS, a=signed(3, 4))
op("prod", "one_zero", "a", a=values([[1.0, 0.0], [2.0, 3.0]]))
op("prod", "two_zeros", "a, 1", a=values([[0.0, 0.0], [2.0, 3.0]]))
op("prod", "zero_in_dim", "a, 0", a=values([[1.0, 0.0], [2.0, 3.0]]))
bad("mean", "integers", "torch.mean(a)", a=signed(3, dtype="int64"))
bad("mean", "masks", "torch.mean(a, 0)", a=mask(3))
bad("prod", "dims", "torch.prod(a, (0, 1))", a=signed(3, 4))
op("nansum", "plain", "a", CALLS, second=False, a=values([[1.0, nan], [nan, 2.0]]))
op("count_nonzero", "plain", "a", CALLS, dtypes=EVERY, a=values([[0.0, 1.0], [2.0, 0.0]]))
op("count_nonzero", "dim", "a, 1", CALLS, a=values([[0.0, 1.0], [2.0, 0.0]]))

# --- extremes --------------------------------------------------------------------------------------------------------

for name in ["max", "min"]:
    op(name, "all", "a", CALLS, dtypes=EVERY, a=distinct(3, 4))
    op(name, "dim", "a, 1", CALLS_OUT, dtypes=REAL, a=distinct(3, 4))
    op(name, "negative_dim", "a, -2", CALLS, a=distinct(2, 3, 4))
    op(name, "keepdim", "a, 1, keepdim=True", CALLS, a=distinct(2, 3, 4))
    op(name, "keywords", "input=a, dim=0, keepdim=True", a=distinct(3, 4))
    op(name, "other", "a, b", CALLS_OUT, dtypes=REAL, a=distinct(3, 4), b=signed(4))
    op(name, "other_promotes", "a, b", a=distinct(3, dtype="int64"), b=signed(3, dtype="float32"))
    op(name, "zero_dim", "a", a=signed())
    op(name, "zero_dim_with_dim", "a, 0", a=signed())
    op(name, "empty_other_dim", "a, 1", a=signed(0, 3))
    op(name, "transposed", "a.t(), 0", a=distinct(3, 4))
    op(name, "ties", "a", second=False, a=values([2.0, 5.0, 5.0, 2.0]))
    op(name, "ties_dim", "a, 1", second=False, a=values([[2.0, 5.0, 5.0, 2.0], [1.0, 1.0, 1.0, 1.0]]))
    op(name, "nan", "a, 1", second=False, a=values([[2.0, nan, 5.0, nan], [1.0, 2.0, 0.0, 1.5]]))
    op(name, "nan_all", "a", first=False, a=values([2.0, nan, 5.0]))
    expression(
        name,
        "named_fields",
        f"(lambda r: (r.values, r.indices, len(r), r[0], type(r).__name__))(torch.{name}(a, 1))",
        a=distinct(3, 4),
    )
    bad(name, "empty", f"torch.{name}(a)", words=12, a=signed(0))
    bad(name, "empty_dim", f"torch.{name}(a, 0)", words=12, a=signed(0, 3))
    bad(name, "dim", f"torch.{name}(a, 2)", words=14, a=signed(3, 4))
    bad(name, "complex", f"torch.{name}(a)", a=signed(3, dtype="complex64"))
    bad(name, "other_shapes", f"torch.{name}(a, b)", words=12, a=signed(3), b=signed(4))
    bad(name, "string", f"torch.{name}(a, 'x')", a=signed(3))

for name in ["amax", "amin"]:
    op(name, "some_nan", "a, 1", second=False, a=values([[2.0, nan, 5.0, nan], [1.0, 2.0, 0.0, 1.5]]))
    op(name, "all", "a", CALLS, dtypes=REAL, a=distinct(3, 4))
    op(name, "dim", "a, 1", CALLS_OUT, dtypes=REAL, a=distinct(3, 4))
    op(name, "keepdim", "a, -1, True", CALLS, a=distinct(2, 3, 4))
    op(name, "ties", "a, 1", second=False, a=values([[2.0, 5.0, 5.0], [1.0, 1.0, 1.0]]))
    op(name, "ties_all", "a", second=False, a=values([[2.0, 5.0, 5.0], [1.0, 1.0, 1.0]]))
    op(name, "zero_dim", "a", a=signed())
    op(name, "empty_other_dim", "a, 1", a=signed(0, 3))
    op(name, "nan", "a, 1", first=False, a=values([[2.0, nan], [1.0, 2.0]]))
    bad(name, "empty", f"torch.{name}(a)", words=12, a=signed(0))
    bad(name, "empty_dim", f"torch.{name}(a, 0)", words=12, a=signed(0, 3))
    bad(name, "complex", f"torch.{name}(a)", a=signed(3, dtype="complex64"))

for name in ["argmax", "argmin"]:
    op(name, "all", "a", CALLS, dtypes=REAL, a=distinct(3, 4))
    op(name, "dim", "a, 1", CALLS_OUT, a=distinct(3, 4))
    op(name, "keepdim", "a, -2, keepdim=True", CALLS, a=distinct(2, 3, 4))
    op(name, "all_keepdim", "a, keepdim=True", a=distinct(2, 3))
    op(name, "ties", "a, 1", a=values([[5.0, 2.0, 5.0], [1.0, 1.0, 1.0]]))
    op(name, "nan", "a", a=values([2.0, nan, 5.0, nan]))
    op(name, "zero_dim", "a", a=signed())
    op(name, "transposed", "a.t()", a=distinct(3, 4))
    bad(name, "empty", f"torch.{name}(a)", words=12, a=signed(0))
    bad(name, "dim", f"torch.{name}(a, 2)", words=14, a=signed(3, 4))
    bad(name, "backward", f"torch.{name}(a).backward()", a=signed(3))
expression("aminmax", "plain", "torch.aminmax(a)", a=distinct(3, 4))
expression("aminmax", "dim", "a.aminmax(dim=1, keepdim=True)", a=distinct(3, 4))

op("nanmean", "plain", "a, 1", CALLS, a=signed(3, 4))
op("mode", "plain", "a, 1", CALLS, second=False, a=values([[1.0, 2.0, 2.0], [3.0, 1.0, 3.0]]))
op("quantile", "plain", "a, 0.3, dim=1", CALLS, a=distinct(3, 4))
op("nanmedian", "dim", "a, 1", CALLS, second=False, a=values([[1.0, nan, 2.0], [3.0, 1.0, 2.0]]))

# --- any and all -----------------------------------------------------------------------------------------------------

for name in ["any", "all"]:
    op(name, "all", "a", CALLS, dtypes=EVERY, a=values([[0.0, 1.0], [2.0, 3.0]]))
    op(name, "dim", "a, 1", CALLS_OUT, dtypes=EVERY, a=values([[0.0, 1.0], [2.0, 3.0], [0.0, 0.0]]))
    op(name, "keepdim", "a, -1, keepdim=True", CALLS, a=mask(2, 3, 4))
    op(name, "dims", "a, (0, 2)", CALLS, a=mask(2, 3, 4))
    op(name, "mask", "a", a=mask(3))
    op(name, "empty", "a", a=mask(0))
    op(name, "empty_dim", "a, 0", a=mask(0, 3))
    op(name, "zero_dim", "a", a=mask())
    op(name, "nan", "a", a=values([nan]))
    bad(name, "dim", f"torch.{name}(a, 3)", words=14, a=mask(3, 4))
    bad(name, "string", f"torch.{name}('x')")

# --- spread ----------------------------------------------------------------------------------------------------------

for name in ["var", "std"]:
    op(name, "all", "a", CALLS, dtypes=EVERY, a=signed(3, 4))
    op(name, "dim", "a, 1", CALLS_OUT, dtypes=f"{FLOATS} {COMPLEX}", a=signed(3, 4))
    op(name, "dims", "a, (0, 2), keepdim=True", CALLS, a=signed(2, 3, 4))
    op(name, "biased", "a, unbiased=False", CALLS, a=signed(3, 4))
    op(name, "biased_dim", "a, 1, unbiased=False", CALLS, a=signed(3, 4))
    op(name, "correction", "a, 1, correction=0", CALLS, a=signed(3, 4))
    op(name, "correction_two", "a, dim=0, correction=2, keepdim=True", a=signed(4, 3))
    op(name, "fractional_correction", "a, dim=0, correction=0.5", a=signed(4, 3))
    op(name, "transposed", "a.t(), 0", a=signed(3, 4))
    op(name, "far_from_zero", "a + 1e6, 1", tolerance=(1e-6, 1e-6), a=signed(3, 4))
    bad(name, "dim", f"torch.{name}(a, 2)", words=14, a=signed(3, 4))
    bad(name, "integers", f"torch.{name}(a)", a=signed(3, dtype="int64"))
    for extra in ["var_mean", "std_mean"]:
        if extra.startswith(name):
            op(extra, "all", "a", dtypes=FLOATS, a=signed(3, 4))
            op(extra, "dim", "a, 1, keepdim=True", a=signed(3, 4))
            op(extra, "correction", "a, dim=(0, 1), correction=0", a=signed(3, 4))
            op(extra, "biased", "a, 1, unbiased=False", a=signed(3, 4))

bad("var_mean", "dim", "torch.var_mean(a, 2)", words=14, a=signed(3, 4))
bad("var_mean", "integers", "torch.var_mean(a)", a=signed(3, dtype="int64"))

op("median", "all", "a", CALLS, dtypes=REAL, a=distinct(3, 5))
op("median", "even_count", "a", CALLS, a=distinct(3, 4))
op("median", "dim", "a, 1", CALLS_OUT, dtypes=REAL, a=distinct(3, 5))
op("median", "keepdim", "a, -2, keepdim=True", CALLS, a=distinct(2, 4, 3))
op("median", "zero_dim", "a", a=signed())
op("median", "nan", "a, 1", first=False, a=values([[1.0, nan, 2.0], [3.0, 1.0, 2.0]]))
op("median", "ties", "a", second=False, a=values([1.0, 2.0, 2.0, 2.0, 3.0]))
op("median", "empty", "a", first=False, a=signed(0))
bad("median", "dim", "torch.median(a, 2)", words=14, a=signed(3, 4))
bad("median", "complex", "torch.median(a)", a=signed(3, dtype="complex64"))
bad("median", "empty_dim", "torch.median(a, 0)", words=12, a=signed(0, 3))

# --- norms and sums of exponentials ----------------------------------------------------------------------------------

op("norm", "plain", "a", CALLS, dtypes=f"{FLOATS} {COMPLEX} int64", a=signed(3, 4))
for order in ["1", "2", "3", "0.5", "inf", "-inf", "0", "-1"]:
    op("norm", f"order_{order}", f"a, {order}", a=distinct(3, 4))
    op("norm", f"order_{order}_dim", f"a, {order}, 1", a=distinct(3, 4))
op("norm", "dim", "a, dim=1", CALLS, a=signed(3, 4))
op("norm", "keepdim", "a, 2, -1, True", CALLS, a=signed(2, 3, 4))
op("norm", "dims", "a, 2, (0, 2)", CALLS, a=signed(2, 3, 4))
op("norm", "fro", "a, 'fro'", CALLS, a=signed(3, 4))
op("norm", "fro_dims", "a, 'fro', (0, 1)", a=signed(3, 4, 2))
op("norm", "nuc", "a, 'nuc'", tolerance=(1e-7, 1e-7), a=signed(3, 4))
op("norm", "dtype", "a, dtype=torch.float64", dtypes="float32", a=signed(3, 4))
op("norm", "zeros", "a", second=False, a=values([0.0, 0.0]))
op("norm", "zero_dim", "a", a=signed())
op("norm", "empty", "a", a=signed(0, 3))
bad("norm", "dim", "torch.norm(a, 2, 5)", words=14, a=signed(3, 4))
bad("norm", "name", "torch.norm(a, 'two')", a=signed(3, 4))
bad("norm", "integers", "torch.norm(a)", a=signed(3, dtype="int64"))

op("logsumexp", "dim", "a, 1", CALLS_OUT, dtypes=f"{FLOATS} int64", a=signed(3, 4))
op("logsumexp", "keepdim", "a, -1, keepdim=True", CALLS, a=signed(2, 3, 4))
op("logsumexp", "large", "a, 0", a=values([1000.0, 1001.0, 999.0]))
op("logsumexp", "infinities", "a, 1", second=False, a=values([[-inf, -inf], [inf, 1.0], [-inf, 2.0]]))
op("logsumexp", "zero_dim", "a, 0", a=signed())
op("logsumexp", "empty_dim", "a, 0", a=signed(0, 3))
bad("logsumexp", "no_dim", "torch.logsumexp(a)", a=signed(3))
bad("logsumexp", "dim", "torch.logsumexp(a, 2)", words=14, a=signed(3, 4))

# --- running folds ---------------------------------------------------------------------------------------------------

for name in ["cumsum", "cumprod"]:
    op(name, "dim", "a, 1", "function method inplace out", dtypes=EVERY, a=signed(3, 4))
    op(name, "negative_dim", "a, -2", CALLS, a=signed(2, 3, 4))
    op(name, "first_dim", "a, dim=0", CALLS, a=signed(3, 4))
    op(name, "dtype", "a, 1, dtype=torch.float64", dtypes="float32 int64", a=signed(3, 4))
    op(name, "zero_dim", "a, 0", a=signed())
    op(name, "empty", "a, 0", a=signed(0, 3))
    op(name, "transposed", "a.t(), 0", a=signed(3, 4))
    op(name, "special", "a, 0", first=False, a=values([1.0, nan, 2.0, inf]))
    bad(name, "dim", f"torch.{name}(a, 2)", words=14, a=signed(3, 4))
    bad(name, "no_dim", f"torch.{name}(a)", a=signed(3, 4))
op("cumprod", "one_zero", "a, 0", a=values([2.0, 0.0, 3.0, 4.0]))
op("cumprod", "two_zeros", "a, 0", a=values([2.0, 0.0, 3.0, 0.0, 4.0]))
op("cumprod", "zero_first", "a, 1", a=values([[0.0, 2.0, 3.0], [1.0, 2.0, 3.0]]))
for name in ["cummax", "cummin", "logcumsumexp"]:
    op(name, "dim", "a, 1", CALLS_OUT, a=distinct(3, 4))
op("diff", "plain", "a", CALLS, a=signed(3, 4))
