"""Functions about truth: comparisons, logic, tests for special values, and choosing by a mask."""

from __future__ import annotations

from math import inf, nan

from tests.oracle.sampling import EVERY, FORMS, Table, mask, positive, signed, values

table = Table("compare", beyond="isposinf isneginf isreal")
op, bad, expression = table.op, table.bad, table.expression

SPECIAL = values([nan, inf, -inf, 0.0, -0.0, 1.0])

# --- comparisons -----------------------------------------------------------------------------------------------------

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
ALIASES = ["not_equal", "less", "less_equal", "greater", "greater_equal"]

for name in COMPARISONS:
    op(name, "plain", "a, b", FORMS, dtypes=EVERY, a=signed(3, 4), b=signed(3, 4))
    op(name, "equal_ones", "a, b", a=values([1.0, 2.0, 3.0]), b=values([1.0, 3.0, 2.0]))
    op(name, "broadcast", "a, b", "function method", a=signed(3, 1), b=signed(4))
    op(name, "scalar", "a, 0.5", "function method inplace", dtypes="float32 int64 uint8 bool", a=signed(3, 4))
    op(name, "zero_dim", "a, b", a=signed(), b=signed())
    op(name, "empty", "a, b", a=signed(0, 3), b=signed(3))
    op(name, "transposed", "a.t(), b", a=signed(3, 4), b=signed(4, 3))
    op(name, "special", "a, b", a=SPECIAL, b=SPECIAL)
    op(name, "promotes", "a, b", a=signed(3, dtype="int64"), b=signed(3, dtype="float32"))
    op(name, "mask_and_integer", "a, 1", a=mask(3))
    op(name, "keywords", "input=a, other=b", a=signed(3), b=signed(3))
    bad(name, "shapes", f"torch.{name}(a, b)", words=12, a=signed(3, 4), b=signed(3, 3))
    bad(name, "string", f"torch.{name}(a, 'x')", a=signed(3))
    bad(name, "backward", f"torch.{name}(a, b).sum().backward()", a=signed(3), b=signed(3))
for name in ALIASES:
    op(name, "plain", "a, b", FORMS, a=signed(3, 4), b=signed(4))
    op(name, "scalar", "a, 0.5", "function method inplace", a=signed(3, 4))
expression("eq", "operators", "(a == b, a != b, a < b, a <= b, a > b, a >= b)", a=signed(3, 4), b=signed(4))
expression("eq", "scalar_on_the_left", "(1 == a, 1 != a, 1 < a, 1 <= a, 1 > a, 1 >= a)", a=signed(3, 4))
expression("eq", "none", "(a == None, a != None, a == 'x', a != [])", a=signed(2))
expression("eq", "complex", "(a == b, a != b)", a=signed(3, dtype="complex64"), b=signed(3, dtype="complex64"))
bad("lt", "complex", "a < a", a=signed(3, dtype="complex64"))
bad("lt", "none", "a < None", a=signed(3))
bad("eq", "out_dtype", "torch.eq(a, a, out=torch.empty(3, dtype=torch.float32)).sum().backward()", a=signed(3))

# --- logic -----------------------------------------------------------------------------------------------------------

for name in ["logical_and", "logical_or", "logical_xor"]:
    op(name, "plain", "a, b", FORMS, dtypes=EVERY, a=signed(3, 4), b=values([0.0, 1.0, 2.0, 0.0]))
    op(name, "masks", "a, b", "function method inplace", a=mask(3, 4), b=mask(4))
    op(name, "mixed", "a, b", a=signed(3, 1, dtype="int32"), b=values([0.0, nan, -0.0], "float32"))
    op(name, "empty", "a, b", a=mask(0, 3), b=mask(3))
    bad(name, "scalar", f"torch.{name}(a, True)", a=mask(3))
    bad(name, "shapes", f"torch.{name}(a, b)", a=mask(3), b=mask(4))
op("logical_not", "plain", "a", FORMS, dtypes=EVERY, a=values([0.0, 1.0, -2.0, 0.5]))
op("logical_not", "mask", "a", "function method inplace", a=mask(3, 4))
expression("logical_and", "operators", "(a & b, a | b, a ^ b, ~a)", a=mask(3, 4), b=mask(4))

bad("logical_not", "string", "torch.logical_not('x')")
bad("logical_not", "too_many", "torch.logical_not(a, a)", a=mask(3))

# --- special values --------------------------------------------------------------------------------------------------

for name in ["isnan", "isinf", "isfinite"]:
    op(name, "special", "a", "function method", dtypes="float32 float16 bfloat16", a=SPECIAL)
    op(name, "whole", "a", dtypes="int64 uint8 bool", a=signed(3))
    op(name, "complex", "a", a=values([complex(nan, 1), complex(1, inf), 1 + 1j], "complex128"))
    op(name, "empty", "a", a=signed(0))
    bad(name, "string", f"torch.{name}('x')")
    bad(name, "backward", f"torch.{name}(a).any().backward()", a=signed(3))
expression("isposinf", "special", "(torch.isposinf(a), torch.isneginf(a), a.isposinf(), a.isneginf())", a=SPECIAL)
expression("isreal", "complex", "(torch.isreal(a), a.isreal())", a=values([1 + 0j, 1j], "complex64"))

NEAR = values([1.0, 1.0 + 1e-9, 1.1, nan, inf, -inf])
op("isclose", "plain", "a, b", "function method", a=NEAR, b=values([1.0, 1.0, 1.0, nan, inf, inf]))
op("isclose", "equal_nan", "a, b, equal_nan=True", "function method", a=NEAR, b=NEAR)
op("isclose", "tolerances", "a, b, rtol=0.2, atol=0.0", "function method", a=NEAR, b=values([1.0] * 6))
op("isclose", "broadcast", "a, b, 0.5, 0.5", a=positive(3, 1), b=positive(4))
op("isclose", "whole", "a, b", a=values([1, 2, 3], "int64"), b=values([1, 3, 3], "int64"))
op("isclose", "masks", "a, b", a=mask(4), b=mask(4))
op("isclose", "complex", "a, b", a=signed(3, dtype="complex128"), b=signed(3, dtype="complex128"))
bad("isclose", "dtypes", "torch.isclose(a, b)", a=signed(3), b=signed(3, dtype="float32"))
bad("isclose", "negative_tolerance", "torch.isclose(a, a, rtol=-1.0)", a=signed(3))
op("allclose", "near", "a, a + 1e-12", "function method", a=signed(3, 4))
op("allclose", "far", "a, a + 1.0", "function method", a=signed(3, 4))
op("allclose", "nan", "a, a", a=SPECIAL)
op("allclose", "equal_nan", "a, a, equal_nan=True", a=SPECIAL)
op("allclose", "tolerances", "a, a + 1.0, rtol=0, atol=1.5", a=signed(3, 4))
bad("allclose", "shapes", "torch.allclose(a, b)", a=signed(3), b=signed(4))
bad("allclose", "dtypes", "torch.allclose(a, b)", a=signed(3), b=signed(3, dtype="float32"))
op("equal", "same", "a, a.clone()", "function method", a=signed(3, 4))
op("equal", "different", "a, a + 1", "function method", a=signed(3, 4))
op("equal", "shapes", "a, b", "function method", a=signed(3, 4), b=signed(4))
op("equal", "nan", "a, a.clone()", a=SPECIAL)
op("equal", "empty", "a, b", a=signed(0), b=signed(0))
op("equal", "promotes", "a, a.float()", raises=None, a=signed(3, dtype="int64"))
bad("equal", "string", "torch.equal(a, 'x')", a=signed(3))

# --- choosing --------------------------------------------------------------------------------------------------------

op("where", "plain", "m, a, b", "function out", dtypes=EVERY, m=mask(3, 4), a=signed(3, 4), b=signed(3, 4))
op("where", "broadcast", "m, a, b", m=mask(2, 1, 1), a=signed(3, 1), b=signed(4))
op("where", "scalar_other", "m, a, 0.5", m=mask(3, 4), a=signed(3, 4), dtypes="float32 int64")
op("where", "scalar_self", "m, 2, a", m=mask(3, 4), a=signed(3, 4), dtypes="float32 int64 bool")
op("where", "scalars", "m, 1.0, 0", m=mask(3, 4))
op("where", "whole_scalars", "m, 1, 0", m=mask(3, 4))
op("where", "condition_from_input", "a > 0, a, b", a=signed(3, 4), b=signed(4))
op("where", "promotes", "m, a, b", second=False, m=mask(3), a=signed(3, dtype="float32"), b=signed(3))
op("where", "promotes_whole", "m, a, b", m=mask(3), a=signed(3, dtype="int64"), b=signed(3, dtype="float32"))
op("where", "zero_dim", "m, a, b", m=mask(), a=signed(), b=signed())
op("where", "empty", "m, a, b", m=mask(0, 3), a=signed(3), b=signed(1))
op("where", "indices", "m", m=mask(3, 4))
op("where", "indices_one_dim", "a > 0", a=signed(5))
op("where", "byte_condition", "m, a, b", m=values([1, 0, 1], "uint8", grad=False), a=signed(3), b=signed(3))
expression("where", "method", "a.where(m, b)", a=signed(3, 4), m=mask(3, 4), b=signed(4))
expression("where", "method_scalar", "a.where(a > 0, 0.0)", a=signed(3, 4))
expression("where", "transposed", "torch.where(m.t(), a.t(), b)", m=mask(3, 4), a=signed(3, 4), b=signed(4, 3))
expression(
    "where", "nan_is_blocked", "torch.where(m, a, (a - a) / (a - a))", second=False, m=mask(3, 4), a=signed(3, 4)
)
bad("where", "condition", "torch.where(a, a, a)", a=signed(3))
bad("where", "whole_condition", "torch.where(a.long(), a, a)", a=signed(3))
bad("where", "shapes", "torch.where(m, a, b)", words=12, m=mask(3), a=signed(3), b=signed(4))
bad("where", "one_choice", "torch.where(m, a)", m=mask(3), a=signed(3))

op("masked_fill", "scalar", "a, m, 0.5", "function method inplace", dtypes=EVERY, a=signed(3, 4), m=mask(3, 4))
op("masked_fill", "broadcast", "a, m, 7", "function method inplace", a=signed(3, 4), m=mask(3, 1))
op("masked_fill", "grows", "a, m, 7", "function method", a=signed(4), m=mask(3, 1))
op("masked_fill", "tensor", "a, m, b", "function method inplace", a=signed(3, 4), m=mask(4), b=signed())
op("masked_fill", "infinity", "a, m, -inf", second=False, a=signed(3, 4), m=mask(3, 4))
op("masked_fill", "zero_dim", "a, m, 1.0", a=signed(), m=mask())
op("masked_fill", "empty", "a, m, 1.0", a=signed(0, 3), m=mask(3))
op("masked_fill", "transposed", "a.t(), m, 1.0", "function inplace", a=signed(3, 4), m=mask(4, 3))
op("masked_fill", "keywords", "a, mask=m, value=2.0", a=signed(3), m=mask(3))
bad("masked_fill", "mask_dtype", "a.masked_fill(a, 0.0)", a=signed(3))
bad("masked_fill", "byte_mask", "a.masked_fill(m, 0.0)", a=signed(3), m=values([1, 0, 1], "uint8"))
bad("masked_fill", "value_shape", "a.masked_fill(m, a)", a=signed(3), m=mask(3))
bad("masked_fill", "shapes", "a.masked_fill(m, 0.0)", words=12, a=signed(3), m=mask(4))
bad("masked_fill", "inplace_leaf", "a.masked_fill_(m, 0.0)", a=signed(3), m=mask(3))
bad("masked_fill", "float_into_integer", "torch.ones(3, dtype=torch.int64).masked_fill_(m, 1.5 + 1j)", m=mask(3))

op("masked_select", "plain", "a, m", "function method out", dtypes=EVERY, a=signed(3, 4), m=mask(3, 4))
op("masked_select", "broadcast", "a, m", a=signed(3, 4), m=mask(3, 1))
op("masked_select", "grows", "a, m", a=signed(4), m=mask(3, 1))
op("masked_select", "nothing", "a, a > 100", a=signed(3, 4))
op("masked_select", "zero_dim", "a, m", a=signed(), m=mask())
op("masked_select", "transposed", "a.t(), m", a=signed(3, 4), m=mask(4, 3))
bad("masked_select", "mask_dtype", "torch.masked_select(a, a)", a=signed(3))
bad("masked_select", "shapes", "torch.masked_select(a, m)", words=12, a=signed(3), m=mask(4))

op(
    "masked_scatter",
    "plain",
    "a, m, b",
    "function method inplace",
    dtypes=EVERY,
    a=signed(3, 4),
    m=mask(3, 4),
    b=signed(12),
)
op("masked_scatter", "broadcast", "a, m, b", "function method", a=signed(3, 4), m=mask(4), b=signed(3, 5))
op("masked_scatter", "zero_dim", "a, m, b", a=signed(), m=values(True, "bool"), b=signed(3))
bad("masked_scatter", "mask_dtype", "a.masked_scatter(a, a)", a=signed(3))
bad("masked_scatter", "dtypes", "a.masked_scatter(m, b)", a=signed(3), m=mask(3), b=signed(3, dtype="float32"))
bad("masked_scatter", "short_source", "a.masked_scatter(a > -100, b)", a=signed(3), b=signed(2))
