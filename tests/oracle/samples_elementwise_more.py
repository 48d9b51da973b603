"""Elementwise functions beyond the promised ones, and what the promised ones do at their edges."""

from __future__ import annotations

from math import inf, nan

from tests.oracle.sampling import (
    EVERY,
    FORMS,
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

table = Table("elementwise_more")
op, bad, expression = table.op, table.bad, table.expression

SPECIAL = values([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5])
METHODS = "function method inplace"

# --- one input -------------------------------------------------------------------------------------------------------

UNARY = {
    **dict.fromkeys(["exp2", "sgn", "sinc", "deg2rad", "rad2deg", "i0"], signed),
    **dict.fromkeys(["lgamma", "digamma"], above_one),
    "frac": signed,
    "logit": probability,
}
for name, numbers in UNARY.items():
    op(name, "plain", "a", FORMS, dtypes=EVERY, a=numbers(3, 4))
    op(name, "transposed", "a.t()", layout=True, a=numbers(3, 4))
    op(name, "special", "a", first=False, a=SPECIAL)
    op(name, "at_kinks", "a", second=False, a=values([0.0, 1.0, 2.0, 0.5]))
for name, numbers in {"asinh": signed, "acosh": above_one, "atanh": unit}.items():
    op(name, "plain", "a", "function method out", dtypes=EVERY, a=numbers(3, 4))
    op(name, "complex_gradient", "a", a=signed(3, 4, dtype="complex128"))
    op(f"arc{name[1:]}", "alias", "a", "function method", a=numbers(3))
    op(name, "special", "a", first=False, a=SPECIAL)
HOLOMORPHIC = (
    "exp log log2 log10 log1p expm1 sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh cosh tanh neg"
)
for name in [*HOLOMORPHIC.split(), "sigmoid", "sgn", "abs", "angle"]:
    op(name, "complex_gradient", "a", a=signed(2, 3, dtype="complex128"))
for name in ["exp", "log", "sqrt", "tanh", "sin", "abs", "reciprocal", "sigmoid", "erf", "neg", "floor"]:
    expression(name, "torch_inplace", f"torch.{name}_(x := a * 1)", a=positive(3))
expression("positive", "itself", "(a.positive(), +a, torch.positive(a) is a)", a=signed(3))
bad("positive", "mask", "torch.positive(a)", a=mask(3))
op("polygamma", "zeroth", "0, a", a=positive(3, 4))
op("polygamma", "first", "1, a", "function out", dtypes="float32 int64", a=positive(3, 4))
op("polygamma", "third", "3, a", a=positive(3, 4))
expression("polygamma", "method", "(a.polygamma(2), (x := a * 1).polygamma_(1))", a=positive(3))
bad("polygamma", "negative", "torch.polygamma(-1, a)", a=positive(3))
op("logit", "eps", "a, 0.2", FORMS, a=values([0.1, 0.2, 0.5, 0.8, 0.9]))
op("logit", "outside", "a", second=False, a=values([-0.5, 0.5, 1.5]))
op("signbit", "plain", "a", "function method out", dtypes="float32 int64 uint8 bool", a=SPECIAL)
op("round", "inplace_decimals", "a, decimals=2", "inplace", a=signed(3, 4))
expression("frexp", "plain", "torch.frexp(a)", a=signed(3, 4))
expression("frexp", "names", "(a.frexp().mantissa, torch.frexp(a).exponent)", a=signed(3, dtype="float32"))
bad("frexp", "whole", "torch.frexp(a)", a=signed(3, dtype="int64"))

# --- two inputs ------------------------------------------------------------------------------------------------------

PAIRS = {"a": values([1.0, -2.0, 0.0, 0.0, nan, 3.0, inf]), "b": values([-1.0, 3.0, 0.0, -0.0, 2.0, nan, 1.0])}
for name in ["fmax", "fmin", "hypot", "copysign", "xlogy", "logaddexp2", "nextafter"]:
    op(name, "plain", "a, b", "function method out", dtypes=EVERY, raises=None, a=signed(3, 4), b=positive(4))
    op(name, "both_ways", "a, b", a=signed(3, 1), b=positive(4))
    op(name, "zero_dim", "a, b", a=signed(), b=positive(3))
    op(name, "specials", "a, b", first=False, **PAIRS)
    bad(name, "string", f"torch.{name}(a, 'x')", a=signed(3))
for name in ["hypot", "copysign", "xlogy", "nextafter", "ldexp", "heaviside"]:
    op(name, "inplace", "a, b", "inplace", raises=None, a=positive(3, 4), b=positive(4))
for name in ["fmax", "fmin"]:
    op(name, "ties", "a, b", second=False, a=values([1.0, 2.0, 3.0, nan]), b=values([1.0, 3.0, nan, 2.0]))
op("ldexp", "plain", "a, b", "function method out", a=signed(3, 4), b=values([1, 2, -3, 0], "int64"))
op("ldexp", "floats", "a, b", a=signed(3, 4), b=signed(4))
op(
    "heaviside",
    "values",
    "a, b",
    "function method out",
    first=False,
    a=values([-1.0, 0.0, 2.0]),
    b=values([5.0, 6.0, 7.0]),
)
bad("heaviside", "dtypes", "torch.heaviside(a, b)", a=signed(3), b=signed(3, dtype="float32"))
bad("heaviside", "backward", "torch.heaviside(a, a).sum().backward()", a=signed(3))
op("copysign", "number", "a, -2.0", METHODS, a=signed(3, 4))
op("copysign", "negative_zero", "a, -0.0", a=signed(3, 4))
op("xlogy", "number", "a, 2.5", METHODS, a=signed(3, 4))
op("xlogy", "of_number", "2.5, a", "function out", a=positive(3, 4))
op("xlogy", "zeros", "a, b", second=False, a=values([0.0, 0.0, 0.0, 1.0]), b=values([0.0, nan, 2.0, 0.5]))
op("float_power", "number", "a, 2", "function method out", dtypes="float32 int64 complex64", a=signed(3))
op("float_power", "of_number", "2, a", a=signed(3))
op("float_power", "inplace", "a, b", "inplace", a=positive(3), b=signed(3))
bad("float_power", "inplace_single", "torch.ones(3).float_power_(2)")
bad("float_power", "numbers", "torch.float_power(2, 3)")
op("rsub", "alpha", "a, b, alpha=3", a=signed(3, 4), b=signed(4))
op("rsub", "number_alpha", "a, 2.5, alpha=3", a=signed(3, 4))
bad("rsub", "mask", "torch.rsub(a, 1)", a=mask(3))

for name in ["add", "sub"]:
    expression(name, "old_order", f"torch.{name}(a, 2, b)", a=signed(3), b=signed(3))
    expression(name, "old_order_inplace", f"(x := a * 1).{name}_(0.5, b)", a=signed(3), b=signed(3))
    op(name, "alpha_number", "a, 3, alpha=2", METHODS, a=signed(3, 4))
    op(name, "alpha_one", "a, b, alpha=1", METHODS, a=signed(3, 4), b=signed(4))
    op(name, "alpha_complex", "a, b, alpha=1 + 2j", a=signed(3, dtype="complex128"), b=signed(3, dtype="complex128"))
    bad(name, "alpha_bool", f"torch.{name}(a, a, alpha=True)", a=signed(3))
    bad(name, "alpha_complex_on_reals", f"torch.{name}(a, a, alpha=1j)", a=signed(3))
for name in ["addcmul", "addcdiv"]:
    expression(name, "old_order", f"torch.{name}(a, 0.5, a, b)", a=signed(3), b=positive(3))
    expression(name, "old_order_inplace", f"(x := a * 1).{name}_(0.5, a, b)", a=signed(3), b=positive(3))
    op(name, "value_integer", "a, b, b, value=2", raises=None, a=signed(3, dtype="int64"), b=positive(3, dtype="int64"))
    op(name, "value_float", "a, a, a, value=2.7", raises=None, a=signed(3, dtype="int64"))
expression(
    "mul", "number_first", "(torch.mul(2, a), torch.add(2.5, a), torch.sub(2, a), torch.div(2, a))", a=signed(3, 4)
)
expression("mul", "numbers", "(torch.mul(2, 3), torch.add(2, 1.5))")
expression("add", "masks", "(a + a, a + True, a + 1, a * a, a / a)", a=mask(4))
expression("sub", "reflected", "(2 - a, 2.5 - a, a - 2, 2 / a, 1 / a, 2 ** a, a ** 2)", a=positive(3))
expression(
    "sub", "reflected_whole", "(2 - a, 2.5 - a, 2 / a, 2 ** a, a ** 2, 7 // a, 7 % a)", a=positive(4, dtype="int64")
)
expression("mul", "unsigned_wraps", "(a * 300, a + 1000, a - 300, a * -1)", a=values([1, 2, 255], "uint8"))
expression(
    "remainder",
    "signs_of_zero",
    "torch.copysign(torch.ones(()), a % b)",
    first=False,
    a=values([0.0, -0.0, 4.0, -4.0, 0.0, -0.0, 4.0, -4.0]),
    b=values([2.0] * 4 + [-2.0] * 4),
)
for program in [
    "a ** 300",
    "a.clone().pow_(300)",
    "torch.add(a, a, alpha=300)",
    "torch.where(a > 1, a, 300)",
    "a.where(a > 1, 2 ** 40)",
    "torch.where(a > 1, a, -1)",
    "torch.add(a, a, alpha=-3)",
]:
    expression(
        program[:9], f"unsigned_{len(table.samples)}", program, raises=None, words=9, a=values([1, 2, 255], "uint8")
    )
expression("where", "too_large", "torch.where(a > 0, a, 1e39)", raises=True, words=9, a=values([1.0, 2.0], "float32"))
expression(
    "mul", "half_overflows", "(a * 1e10, a + 70000.0, a * 65504 * 2)", first=False, a=positive(3, dtype="float16")
)
expression("mul", "huge_number", "(a * 1e300, a + 1e39, a * inf, a - inf)", first=False, a=signed(3, dtype="float32"))
for one, other in [("2 % a", "remainder"), ("2 // a", "floor_divide")]:
    expression(other, "reflected", one, first=False, a=signed(3))
    bad(other, "reflected_backward", f"({one}).sum().backward()", a=signed(3))

op("pow", "integer_tensors", "a, b", a=values([1, -1, -1, 3, 2], "int64"), b=values([-2, -3, -2, -2, 5], "int64"))
op("pow", "at_edges", "a, b", second=False, a=values([0.0, 0.0, 2.0, -2.0]), b=values([1.0, 2.0, 0.0, 3.0]))
for exponent in ["0", "1", "2", "3", "-1", "-2", "0.5", "-0.5", "2.5", "True", "False"]:
    op("pow", f"to_{exponent}", f"a, {exponent}", METHODS, a=positive(3))
    op("pow", f"zero_to_{exponent}", f"a, {exponent}", second=False, a=values([0.0, 2.0]))
op("pow", "zero_base_number", "0, a", second=False, a=values([0.0, 1.0, 2.0]))
op("pow", "negative_base_number", "-2.0, a", second=False, a=values([0.0, 1.0, 2.0, 3.0]))
op("pow", "complex_base", "a, b", a=signed(3, dtype="complex128"), b=signed(3, dtype="complex128"))
op("pow", "complex_number", "a, 2.5", a=signed(3, dtype="complex128"))
op("pow", "complex_base_number", "2 + 1j, a", a=signed(3, dtype="complex128"))

# --- bounds, blends --------------------------------------------------------------------------------------------------

for low, high in [("b", "None"), ("None", "b"), ("b", "b + 1"), ("b + 1", "b")]:
    op("clamp", f"tensor_{low}_{high}", f"a, {low}, {high}", a=signed(3, 4), b=signed(4))
TIES = {"a": values([1.0, 2.0, 3.0]), "b": values([1.0, 2.0, 0.0]), "c": values([1.0, 4.0, 3.0])}
op("clamp", "tensor_ties", "a, b, c", second=False, **TIES)
op("clamp", "promotes", "a, b", second=False, a=signed(3, dtype="float32"), b=signed(3))
op("clamp_min", "ties", "a, b", second=False, a=values([1.0, 2.0]), b=values([1.0, 3.0]))
op("clamp_max", "ties", "a, b", second=False, a=values([1.0, 2.0]), b=values([1.0, 3.0]))
bad("clamp", "mixed_bounds", "torch.clamp(a, a, 1.0)", a=signed(3))
for name in ["lerp", "addcmul", "addcdiv"]:
    op(name, "complex", "a, b, c", **dict.fromkeys("abc", signed(3, dtype="complex128")))
op("lerp", "outside", "a, b, c", a=signed(3), b=signed(3), c=values([-1.5, 0.5, 2.0]))
op("lerp", "number_outside", "a, b, 1.5", METHODS, a=signed(3), b=signed(3))
op("nan_to_num", "whole", "a", a=signed(3, dtype="int64"))
op("nan_to_num", "complex", "a", first=False, a=values([complex(nan, inf), complex(-inf, 1)], "complex128"))

# --- complex numbers -------------------------------------------------------------------------------------------------

Z = signed(3, 2, dtype="complex128")
expression("real", "parts", "(a.real, a.imag, torch.real(a), torch.imag(a))", a=Z)
expression("real", "of_reals", "(a.real is a, torch.real(a) is a, a.conj() is a)", a=signed(3))
expression("real", "views", "(a.real._is_view(), a.imag._base is a)", first=False, a=Z)
expression("real", "written", "((x := a * 1).real.mul_(2), x)", a=Z)
bad("imag", "of_reals", "a.imag", a=signed(3))
op("conj", "plain", "a", "function method", graph=False, a=Z)
op("conj_physical", "plain", "a", METHODS, a=Z)
op("angle", "plain", "a", "function method out", dtypes="float32 int64 bool complex64", a=signed(3, 4))
op("angle", "special", "a", first=False, a=SPECIAL)
op("complex", "plain", "a, b", "function out", a=signed(3), b=signed(3))
op("complex", "broadcast", "a, b", a=signed(3, 1, dtype="float32"), b=signed(2, dtype="float32"), second=False)
op("polar", "plain", "a, b", "function out", a=positive(3), b=signed(3))
bad("complex", "whole", "torch.complex(a, a)", a=signed(3, dtype="int64"))
bad("complex", "dtypes", "torch.complex(a, b)", a=signed(3), b=signed(3, dtype="float32"))
op("view_as_real", "plain", "a", a=Z)
op("view_as_real", "transposed", "a.t()", layout=True, a=Z)
expression("view_as_real", "summed", "torch.view_as_real(a).sum(-1)", a=Z)
op("view_as_complex", "plain", "a", a=signed(3, 2))
bad("view_as_real", "of_reals", "torch.view_as_real(a)", a=signed(3))
bad("view_as_complex", "size", "torch.view_as_complex(a)", a=signed(3))
bad("view_as_complex", "whole", "torch.view_as_complex(a)", a=signed(3, 2, dtype="int64"))
expression("mul", "real_and_complex", "a * b", a=signed(3), b=signed(3, dtype="complex128"))
expression("div", "real_and_complex", "(a / b, b / a, b ** a)", a=positive(3), b=signed(3, dtype="complex128"))
expression("abs", "zero", "a.abs()", second=False, a=values([0j, 1 + 1j], "complex128"))

# --- truth -----------------------------------------------------------------------------------------------------------

op("isin", "tensors", "a, b", a=values([1, 2, 3, 4], "int64"), b=values([2, 4], "int64"))
op("isin", "number", "a, 2", a=values([1, 2, 3], "int64"))
op("isin", "invert", "a, b, invert=True", a=distinct(3, 4), b=values([0.125, 0.375]))
op("isin", "of_number", "1, a", a=values([1, 2], "int64"))
expression("eq", "numpy_numbers", "(a == 1, a < 2.0, a >= True)", a=values([1, 2, 3], "int64"))
bad("eq", "number_first", "torch.eq(1, a)", a=signed(3))
bad("maximum", "number", "torch.maximum(a, 1)", a=signed(3))
bad("maximum", "number_method", "a.maximum(1)", a=signed(3))
bad("atan2", "number", "torch.atan2(a, 1)", a=signed(3))
for text in ["a + 'x'", "'x' - a", "a * None", "a / []", "a ** 'x'", "a // None", "a % 'x'", "a & 'x'", "a < 'x'"]:
    bad("add", f"operator {text}", text, words=12, a=signed(3))
for text in ["a & 1", "a | a", "a ^ True", "a << 1", "~a"]:
    bad("bitwise_and", f"floats {text}", text, a=signed(3))
expression("bitwise_and", "reflected", "(5 & a, 5 | a, 5 ^ a, 1 << a, 64 >> a)", a=positive(4, dtype="int64"))
expression("bitwise_left_shift", "far", "(a << 70, a >> 70, a << -1, a >> -1)", a=values([1, -5], "int64"))

# --- torch.special ---------------------------------------------------------------------------------------------------

SPECIALS = {
    **dict.fromkeys("erfcx ndtr log_ndtr i0e i1 i1e expit exp2 expm1 sinc erf erfc".split(), signed),
    **dict.fromkeys("entr gammaln psi digamma log1p i0".split(), positive),
    **dict.fromkeys(["ndtri", "logit"], probability),
    "erfinv": unit,
}
for name, numbers in SPECIALS.items():
    expression(f"special.{name}", "plain", f"torch.special.{name}(a)", dtypes="float32 int64", a=numbers(3, 4))
    expression(f"special.{name}", "special", f"torch.special.{name}(a)", first=False, a=SPECIAL)
expression("special.i1", "at_zero", "torch.special.i1(a)", second=False, a=values([0.0, 1.0]))
expression("special.entr", "at_zero", "torch.special.entr(a)", second=False, a=values([0.0, 1.0, -1.0]))
expression("special.xlogy", "plain", "torch.special.xlogy(a, b)", a=signed(3), b=positive(3))
expression("special.xlog1py", "plain", "torch.special.xlog1py(a, b)", a=signed(3), b=positive(3))
expression("special.xlog1py", "number", "torch.special.xlog1py(a, 2.5)", a=signed(3))
expression("special.xlog1py", "of_number", "torch.special.xlog1py(2.5, a)", a=positive(3))
expression("special.zeta", "plain", "torch.special.zeta(a, b)", a=above_one(3, grad=False), b=positive(3))
expression("special.zeta", "of_number", "torch.special.zeta(2.5, a)", a=positive(3))
expression("special.polygamma", "second", "torch.special.polygamma(2, a)", a=positive(3))
expression("special.multigammaln", "plain", "torch.special.multigammaln(a + 1, 2)", a=positive(3))
expression("special.softmax", "plain", "(torch.special.softmax(a, 1), torch.special.log_softmax(a, 0))", a=signed(3, 4))
expression("special.logsumexp", "plain", "torch.special.logsumexp(a, 1)", a=signed(3, 4))
op("mvlgamma", "plain", "a, 3", FORMS, a=values([1.5, 2.5, 4.0]))
bad("mvlgamma", "dimension", "torch.mvlgamma(a, 0)", a=positive(3))
for name in ["gcd", "lcm"]:
    op(name, "plain", "a, b", FORMS, a=values([12, -18, 0, 7], "int64"), b=values([8, 27, 5, 0], "int64"))
    bad(name, "floats", f"torch.{name}(a, a)", a=signed(3))
