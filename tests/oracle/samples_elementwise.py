"""Functions that work element by element: arithmetic, powers, trigonometry, rounding, clamping, interpolation."""

from __future__ import annotations

from math import inf, nan

from tests.oracle.sampling import (
    EVERY,
    FORMS,
    INTEGERS,
    REAL,
    Table,
    above_one,
    distinct,
    mask,
    positive,
    probability,
    signed,
    unit,
    values,
)

MORE_UNARY = {
    **dict.fromkeys(["exp2", "asinh", "frac", "sgn", "sinc"], signed),
    **dict.fromkeys(["acosh", "lgamma", "digamma"], above_one),
    "atanh": unit,
    "logit": probability,
}
MORE_BINARY = ["fmax", "fmin", "hypot", "copysign", "xlogy", "logaddexp2", "float_power"]

table = Table("elementwise", beyond=" ".join(["rsub", "clamp_min", "clamp_max", *MORE_UNARY, *MORE_BINARY]))
op, bad, expression = table.op, table.bad, table.expression

# --- one input -------------------------------------------------------------------------------------------------------

UNARY = {
    **dict.fromkeys(["abs", "absolute", "neg", "negative", "exp", "expm1", "square", "reciprocal"], signed),
    **dict.fromkeys(["log", "log2", "log10", "log1p", "sqrt", "rsqrt"], positive),
    **dict.fromkeys(["sin", "cos", "tan", "atan", "arctan", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"], signed),
    **dict.fromkeys(["asin", "arcsin", "acos", "arccos", "erfinv"], unit),
    **dict.fromkeys(["sign", "round", "floor", "ceil", "trunc", "fix", "nan_to_num"], signed),
}

for name, numbers in UNARY.items():
    op(name, "plain", "a", FORMS, dtypes=EVERY, a=numbers(3, 4))
    op(name, "zero_dim", "a", "function inplace", a=numbers())
    op(name, "empty", "a", a=numbers(0, 3))
    op(name, "transposed", "a.t()", "function method", layout=True, a=numbers(3, 4))
    op(name, "strided", "a[:, ::2]", "function inplace", a=numbers(3, 5))
    op(name, "keyword", "input=a", a=numbers(2))
    op(name, "special", "a", first=False, a=values([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0]))
    op(name, "at_kinks", "a", second=False, a=values([0.0, -0.0, 1.0, -1.0, 2.0, -2.0]))
    bad(name, "string", f"torch.{name}('x')")
    bad(name, "too_many", f"torch.{name}(a, a, a, a, a)", a=numbers(2))

for name, numbers in MORE_UNARY.items():
    op(name, "plain", "a", "function method out", dtypes="float32 int64", a=numbers(3, 4))
    op(name, "zero_dim", "a", a=numbers())
    bad(name, "string", f"torch.{name}('x')")

op("round", "halves", "a", first=False, a=values([0.5, 1.5, 2.5, -0.5, -1.5, -2.5]))
op("round", "decimals", "a, decimals=1", FORMS, a=signed(3, 4))
op("round", "negative_decimals", "a * 100, decimals=-1", a=signed(3, 4))
op("nan_to_num", "chosen", "a, 5.0, posinf=7.0, neginf=-7.0", FORMS, a=values([nan, inf, -inf, 2.0]))
op("nan_to_num", "float32_limits", "a", a=values([nan, inf, -inf], "float32"))
op("abs", "complex_gradient", "a", "function method", a=signed(3, 4, dtype="complex128"))
op("abs", "int_minimum", "a", a=values([-128, 127, 0], "int8"))
op("neg", "uint8_wraps", "a", a=values([0, 1, 255], "uint8"))
op("square", "uint8_wraps", "a", a=values([16, 3, 255], "uint8"))
op("exp", "overflow", "a", second=False, a=values([100.0, -200.0, 88.0], "float32"))
op("log1p", "tiny", "a", a=values([1e-12, -1e-12, 1e-300]))
op("expm1", "tiny", "a", a=values([1e-12, -1e-12, 1e-300]))
op("erfc", "large", "a", a=values([5.0, 10.0, 25.0, -5.0]))
op("erfinv", "edges", "a", first=False, a=values([-1.0, 1.0, 1.5, 0.999999, -0.999999, 0.0]))
op("erfinv", "fine", "a", a=values([1e-10, 0.3, 0.7, 0.75, 0.97, 0.999999, 1 - 1e-12]))
op("sigmoid", "saturated", "a", a=values([-800.0, -40.0, 40.0, 800.0]))
op("tanh", "saturated", "a", a=values([-400.0, -20.0, 20.0, 400.0]))
bad("neg", "bool", "-a", a=mask(3))
bad("exp", "out_dtype", "torch.exp(a, out=torch.empty(3, dtype=torch.int64))", first=False, a=signed(3))
bad("exp", "inplace_integer", "torch.ones(3, dtype=torch.int64).exp_()")
bad("exp", "inplace_leaf", "a.exp_()", a=signed(3))
bad("abs", "inplace_complex", "torch.ones(3, dtype=torch.complex64).abs_()")
bad("round", "decimals_integer", "torch.round(torch.ones(3, dtype=torch.int64), decimals=1)")
bad("floor", "complex", "torch.floor(torch.ones(3, dtype=torch.complex64))")

# --- arithmetic on two inputs ----------------------------------------------------------------------------------------

BINARY = {
    **dict.fromkeys(["add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide"], (signed, signed)),
    **dict.fromkeys(["remainder", "fmod", "atan2", "arctan2", "logaddexp"], (signed, signed)),
    **dict.fromkeys(["maximum", "minimum"], (distinct, signed)),
    "pow": (positive, signed),
}
WITH_OUT = dict.fromkeys(BINARY, FORMS) | dict.fromkeys(["maximum", "minimum", "logaddexp"], "function method out")

for name, (left, right) in BINARY.items():
    forms = WITH_OUT[name]
    op(name, "plain", "a, b", forms, dtypes=EVERY, a=left(3, 4), b=right(3, 4))
    op(name, "broadcast", "a, b", "function method out", a=left(3, 1), b=right(4))
    op(name, "broadcast_both", "a, b", a=left(2, 1, 3), b=right(4, 1))
    op(name, "zero_dim_both", "a, b", a=left(), b=right())
    op(name, "zero_dim_one", "a, b", a=left(3, 4), b=right())
    op(name, "empty", "a, b", a=left(0, 3), b=right(3))
    op(name, "empty_broadcast", "a, b", a=left(0, 3), b=right(1, 1))
    op(name, "transposed", "a.t(), b.t()", layout=True, a=left(3, 4), b=right(3, 4))
    op(name, "mixed_layout", "a.t(), b[::2]", "function method", a=left(3, 4), b=right(8, 3))
    op(name, "one_constant", "a, b", a=left(3, 4), b=right(3, 4, grad=False))
    op(name, "same_input", "a, a", a=left(3, 4))
    op(name, "keywords", "input=a, other=b" if name != "pow" else "input=a, exponent=b", a=left(3), b=right(3))
    bad(name, "shapes", f"torch.{name}(a, b)", words=12, a=left(3, 4), b=right(3, 3))
    bad(name, "string", f"torch.{name}(a, 'x')", a=left(3))
    bad(name, "missing", f"torch.{name}(a)", a=left(3))

for name in ["add", "sub", "mul", "div", "remainder", "fmod", "maximum", "pow", "atan2"]:
    left, right = BINARY[name]
    for one, other in [
        ("float32", "float64"),
        ("int64", "float32"),
        ("bool", "int64"),
        ("uint8", "int8"),
        ("float16", "bfloat16"),
        ("float16", "int64"),
        ("float32", "complex64"),
        ("float64", "complex64"),
        ("bool", "float32"),
    ]:
        mixed = {"second": False, "raises": None, "tolerance": (4e-3, 2e-3) if "16" in one else (1e-5, 1e-5)}
        op(name, f"promote_{one}_{other}", "a, b", a=left(3, dtype=one), b=right(3, dtype=other), **mixed)
        op(name, f"promote_zero_dim_{one}_{other}", "a, b", a=left(3, dtype=one), b=right(dtype=other), **mixed)

for name in ["add", "sub", "mul", "div", "remainder", "fmod", "pow", "true_divide"]:
    left, right = BINARY[name]
    scalar_forms = "function method inplace"
    op(name, "python_float", "a, 2.5", scalar_forms, dtypes=EVERY, a=left(3, 4))
    op(name, "python_int", "a, 3", scalar_forms, dtypes=EVERY, a=left(3, 4))
    op(name, "python_bool", "a, True", raises=None, a=left(3, 4), dtypes="int64 bool")
    op(name, "python_complex", "a, 1 + 2j", raises=None, a=left(3, 4), dtypes="float32 int64")

for name in ["add", "sub"]:
    op(name, "alpha", "a, b, alpha=2.5", FORMS, a=signed(3, 4), b=signed(4))
    op(
        name,
        "alpha_integer",
        "a, b, alpha=2",
        "function inplace",
        a=signed(3, dtype="int64"),
        b=signed(3, dtype="int32"),
    )
    bad(
        name,
        "alpha_float_on_integers",
        f"torch.{name}(a, b, alpha=2.5)",
        a=signed(3, dtype="int64"),
        b=signed(3, dtype="int64"),
    )
bad("add", "inplace_shape", "torch.ones(3).add_(torch.ones(2, 3))")
bad("add", "inplace_dtype", "torch.ones(3, dtype=torch.int64).add_(torch.ones(3))")
bad("add", "out_dtype", "torch.add(torch.ones(3), torch.ones(3), out=torch.empty(3, dtype=torch.int32))")
bad("sub", "bools", "a - a", a=mask(3))
bad("sub", "bool_other", "torch.ones(3) - a", a=mask(3))
expression(
    "add",
    "out_casts_up",
    "torch.add(a, b, out=torch.empty(3, dtype=torch.float64))",
    first=False,
    a=signed(3, dtype="float32"),
    b=signed(3, dtype="float32"),
)
expression("rsub", "tensor", "torch.rsub(a, b)", a=signed(3, 4), b=signed(4))
expression("rsub", "scalar", "torch.rsub(a, 2.5)", a=signed(3, 4))
expression("rsub", "operator", "a.__rsub__(b)", a=signed(3, 4), b=signed(4))

for mode in ["floor", "trunc"]:
    op("div", mode, f"a, b, rounding_mode='{mode}'", FORMS, dtypes=REAL, a=signed(3, 4), b=signed(4))
    op("div", f"{mode}_scalar", f"a, 0.7, rounding_mode='{mode}'", "function inplace", a=signed(3, 4))
op("div", "no_rounding", "a, b, rounding_mode=None", a=signed(3, 4), b=signed(4))
op("div", "by_zero", "a, 0", first=False, a=values([1.0, -1.0, 0.0]))
op("div", "floor_by_zero", "a, 0.0, rounding_mode='floor'", first=False, a=values([1.0, -1.0, 0.0]))
bad("div", "rounding_mode", "torch.div(a, a, rounding_mode='up')", a=signed(3))
bad("div", "integer_by_zero", "torch.div(a, 0, rounding_mode='floor')", a=signed(3, dtype="int64"))
bad("div", "inplace_integer", "torch.ones(3, dtype=torch.int64).div_(2)")
op("floor_divide", "plain", "a, b", FORMS, raises=None, dtypes=EVERY, a=signed(3, 4), b=signed(4))
op("floor_divide", "values", "a, b", FORMS, first=False, a=signed(3, 4), b=signed(4))
op("floor_divide", "scalar", "a, 0.7", "function method inplace", first=False, dtypes=REAL, a=signed(3, 4))
op(
    "floor_divide",
    "specials",
    "a, b",
    first=False,
    a=values([1.0, -1.0, inf, 5.0, 0.0]),
    b=values([0.0, 0.0, 2.0, inf, -3.0]),
)
bad("floor_divide", "integer_by_zero", "a // 0", a=signed(3, dtype="int64"))
bad("floor_divide", "backward", "torch.floor_divide(a, b).sum().backward()", a=signed(3), b=signed(3))
bad("remainder", "integer_by_zero", "a % 0", a=signed(3, dtype="int64"))
bad("fmod", "integer_by_zero", "torch.fmod(a, 0)", a=signed(3, dtype="int64"))
for name in ["remainder", "fmod"]:
    op(name, "specials", "a, b", first=False, a=values([5.5, -5.5, 5.0, inf, 3.0]), b=values([2.0, 2.0, 0.0, 2.0, inf]))
op("remainder", "scalar_first", "5.5, a", first=False, a=signed(3, 4))

op("pow", "scalar_base", "2.5, a", "function out", dtypes=EVERY, a=signed(3, 4))
op("pow", "negative_base", "a, b", second=False, a=values([-2.0, -1.5, 0.0, 0.0]), b=values([2.0, 3.0, 2.0, 0.0]))
op("pow", "zero_base", "a, 2", second=False, a=values([0.0, 1.0, -3.0]))
op("pow", "zero_exponent", "a, 0", a=signed(3))
op("pow", "first_power", "a, 1", a=signed(3))
op("pow", "half_exponent", "a, 0.5", "function inplace", a=positive(3, 4))
op("pow", "negative_exponent", "a, -1.5", a=positive(3, 4))
op("pow", "cube", "a, 3", "function method inplace", a=signed(3, 4))
op("pow", "zero_dim_base", "a, b", a=positive(), b=signed(4))
bad("pow", "integer_to_negative", "torch.pow(a, -1)", a=signed(3, dtype="int64"))
bad("pow", "inplace_integer", "torch.ones(3, dtype=torch.int64).pow_(0.5)")
op("logaddexp", "infinities", "a, b", second=False, a=values([inf, -inf, 800.0]), b=values([1.0, -2.0, 799.0]))
op("atan2", "axes", "a, b", second=False, a=values([0.0, 1.0, -1.0, 0.0]), b=values([1.0, 0.0, 0.0, -1.0]))
for name in ["maximum", "minimum"]:
    op(name, "ties", "a, b", second=False, a=values([1.0, 2.0, 3.0]), b=values([1.0, 3.0, 2.0]))
    op(name, "nans", "a, b", first=False, a=values([1.0, nan, 3.0]), b=values([nan, 3.0, 2.0]))
bad("maximum", "complex", "torch.maximum(a, a)", a=signed(3, dtype="complex64"))

for name in MORE_BINARY:
    op(name, "plain", "a, b", "function method out", dtypes="float32 int64", a=signed(3, 4), b=positive(4))
    bad(name, "shapes", f"torch.{name}(a, b)", words=12, a=signed(3, 4), b=signed(3, 3))

# --- three inputs ----------------------------------------------------------------------------------------------------

op("lerp", "scalar", "a, b, 0.3", FORMS, dtypes=EVERY, a=signed(3, 4), b=signed(3, 4))
op("lerp", "large_weight", "a, b, 0.8", a=signed(3, 4), b=signed(3, 4))
op("lerp", "tensor", "a, b, c", FORMS, dtypes=EVERY, a=signed(3, 4), b=signed(3, 4), c=probability(3, 4))
op("lerp", "broadcast", "a, b, c", "function method", a=signed(3, 1), b=signed(4), c=probability(2, 1, 1))
op("lerp", "keywords", "a, end=b, weight=0.25", a=signed(3), b=signed(3))
bad("lerp", "dtypes", "torch.lerp(a, b, 0.5)", a=signed(3), b=signed(3, dtype="float32"))
bad("lerp", "weight", "torch.lerp(a, a)", a=signed(3))
for name in ["addcmul", "addcdiv"]:
    op(name, "plain", "a, b, c", FORMS, dtypes=EVERY, a=signed(3, 4), b=signed(3, 4), c=positive(3, 4))
    op(name, "value", "a, b, c, value=0.5", FORMS, a=signed(3, 4), b=signed(3, 4), c=positive(3, 4))
    op(name, "broadcast", "a, b, c", "function method", a=signed(3, 1), b=signed(4), c=positive(2, 1, 1))
    op(name, "zero_dim", "a, b, c", a=signed(), b=signed(), c=positive())
    op(
        name,
        "promotes",
        "a, b, c",
        second=False,
        a=signed(3, dtype="float32"),
        b=signed(3),
        c=positive(3, dtype="float32"),
    )
    bad(name, "missing", f"torch.{name}(a, a)", a=signed(3))
    bad(name, "inplace_shape", f"torch.ones(3).{name}_(torch.ones(2, 3), torch.ones(3))")
bad("addcdiv", "integers", "torch.addcdiv(a, a, a)", a=signed(3, dtype="int64"))

# --- clamping --------------------------------------------------------------------------------------------------------

for name in ["clamp", "clip"]:
    op(name, "both", "a, -0.75, 0.75", FORMS, dtypes=EVERY, a=signed(3, 4))
    op(name, "minimum", "a, min=0.1", "function method inplace", a=signed(3, 4))
    op(name, "maximum", "a, max=0.1", "function method inplace", a=signed(3, 4))
    op(name, "integers", "a, -2, 2", "function inplace", dtypes="int64 float32 uint8", a=signed(3, 4))
    op(name, "crossed", "a, 1.0, -1.0", a=signed(3, 4))
    op(name, "at_bounds", "a, -1.0, 1.0", second=False, a=values([-1.0, 1.0, 0.5, 2.0, nan]))
    op(
        name,
        "tensors",
        "a, b, c",
        FORMS,
        dtypes="float32 int64",
        a=signed(3, 4),
        b=values([-1.0, -0.5, -0.4, -2.0]),
        c=values([1.0, 0.5, 0.45, 2.0]),
    )
    op(name, "tensor_minimum", "a, min=b", "function method inplace", a=signed(3, 4), b=signed(3, 1))
    op(name, "tensor_maximum", "a, max=b", "function method inplace", a=signed(3, 4), b=signed(3, 1))
    bad(name, "nothing", f"torch.{name}(a)", a=signed(3))
    bad(name, "complex", f"torch.{name}(a, 0, 1)", a=signed(3, dtype="complex64"))
    bad(name, "string", f"torch.{name}(a, 'x')", a=signed(3))
op("clamp", "float_bounds_on_integers", "a, 0.5, 1.5", a=signed(3, dtype="int64"))
for name, bound in [("clamp_min", 0.1), ("clamp_max", 0.2)]:
    op(name, "scalar", f"a, {bound}", FORMS, dtypes=REAL, a=signed(3, 4))
    op(name, "tensor", "a, b", FORMS, a=signed(3, 4), b=signed(4))
    op(name, "at_bound", f"a, {bound}", second=False, a=values([bound, 1.0, -1.0]))

# --- integers by bit -------------------------------------------------------------------------------------------------

for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    op(
        name,
        "plain",
        "a, b",
        FORMS,
        dtypes=f"{INTEGERS} bool float32",
        raises=None,
        a=signed(3, 4, dtype=None),
        b=signed(4),
    )
    op(name, "integers", "a, b", "function method out", a=signed(3, 1, dtype="int64"), b=signed(4, dtype="int64"))
    op(name, "scalar", "a, 6", "function method inplace", a=signed(3, 4, dtype="int64"))
    op(name, "scalar_first", "6, a", a=signed(3, 4, dtype="int64"))
    op(name, "promotes", "a, b", a=signed(3, dtype="int32"), b=mask(3))
    op(name, "masks", "a, b", "function method inplace", a=mask(3, 4), b=mask(4))
    bad(name, "floats", f"torch.{name}(torch.ones(3), torch.ones(3))")
for name in ["bitwise_left_shift", "bitwise_right_shift"]:
    op(name, "plain", "a, b", FORMS, a=signed(3, 4, dtype="int64"), b=positive(4, dtype="int64"))
    op(name, "scalar", "a, 2", "function method inplace", a=signed(3, 4, dtype="int32"))
    op(name, "unsigned", "a, 2", a=positive(3, 4, dtype="uint8"))
    bad(name, "floats", f"torch.{name}(torch.ones(3), torch.ones(3))")
op("bitwise_not", "plain", "a", FORMS, dtypes="int32 uint8 bool float32", raises=None, a=signed(3, 4))
op("bitwise_not", "integers", "a", FORMS, a=signed(3, 4, dtype="int64"))
op("bitwise_not", "mask", "a", "function method inplace", a=mask(3, 4))
bad("bitwise_not", "floats", "~torch.ones(3)")
