"""Python's operators: with tensors and numbers on either side, in place, of every pair of dtypes; and `out=`."""

from __future__ import annotations

import pytest

from tests.oracle.snippets import agree_snippet, refuse_snippet

ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**"]
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("symbol", ARITHMETIC)
@pytest.mark.parametrize("dtype", DTYPES)
def test_number_on_either_side(symbol: str, dtype: str) -> None:
    """A number never widens a tensor's kind except from whole to float to complex."""
    numbers = ["2", "2.5", "True", "-3", "1j"]
    for number in numbers[:-1] if dtype == "float16" else numbers:  # complex32 is no dtype of NumPy's
        agree_snippet(f"t = torch.tensor([1, 2, 3], dtype=torch.{dtype}); t {symbol} {number}", raises=None, atol=4e-3)
        agree_snippet(f"t = torch.tensor([1, 2, 3], dtype=torch.{dtype}); {number} {symbol} t", raises=None, atol=4e-3)


@pytest.mark.parametrize("symbol", ["+", "*", "/", "//", "**", "-"])
@pytest.mark.parametrize("left", DTYPES)
def test_every_pair_of_dtypes(symbol: str, left: str) -> None:
    for right in DTYPES:
        if {left, right} == {"float16", "complex64"} and symbol in "+-*":  # which make complex32, no dtype of NumPy's
            continue
        pair = f"a = torch.tensor([1, 3], dtype=torch.{left}); b = torch.tensor([2, 1], dtype=torch.{right}); "
        agree_snippet(f"{pair}a {symbol} b", raises=None, atol=4e-3)
        agree_snippet(f"{pair}a {symbol} b[0]", raises=None, atol=4e-3)
        agree_snippet(f"{pair}a {symbol}= b; a", raises=None, atol=4e-3)


OPERATORS = [
    "x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, 2 / (x + 1)",
    "x ** 2, 2 ** x, x // 2, 7 // (x + 1), x % 3, 7 % (x + 1)",
    "-x, +x, abs(-x), ~m, ~i, +x is x",
    "x @ x.t(), x.t() @ x, c @ x.t()",
    "i & 3, i | 8, i ^ 1, i << 1, i >> 1, 3 & i, 8 | i, 1 ^ i, 1 << i, 64 >> i",
    "m & m.flip(0), m | False, m ^ True, True & m",
    "x == 3, x != 3, x < 3, x <= 3, x > 3, x >= 3, 3 < x, 3 == x",
    "x[0] == x, (x == x).all(), bool((x == x).all())",
    "i // 4, i % 4, -i // 4, -i % 4",
    "g + 1, 1 - g, g * 2, 2 / (g + 1), g ** 2, 2 ** g, -g, g @ g.t(), g % 3",
    "x.__add__(1), x.__radd__(1), x.__rsub__(1), x.__rmul__(2), x.__rtruediv__(1.0), x.__rpow__(2)",
    "x.__mul__(2), x.__matmul__(x.t()), x.__neg__(), x.__eq__(3), x.__lt__(3), x.__invert__ is not None",
    "operator.add(x, 1), operator.matmul(x, x.t()), operator.iadd(x, 1) is x",
    "sum([x, x, x]), sum([s, s]), sum(x)",
    "pow(x, 2), pow(2, s)",
    "x.__pow__(2), x.__floordiv__(2), x.__mod__(3)",
]


@pytest.mark.parametrize("text", OPERATORS)
def test_operator(text: str) -> None:
    agree_snippet(text)


@pytest.mark.parametrize("symbol", ["+=", "-=", "*=", "/=", "**=", "%=", "//="])
def test_operator_in_place(symbol: str) -> None:
    agree_snippet(f"y = x; x {symbol} 2; (x, y is x, x._version)")
    agree_snippet(f"y = x + 1; a = y; y {symbol} x + 1; (y, a is y, x._version)")
    agree_snippet(f"y = x.t(); y {symbol} 2; x")


@pytest.mark.parametrize("symbol", ["&=", "|=", "^=", "<<=", ">>="])
def test_bit_operator_in_place(symbol: str) -> None:
    agree_snippet(f"y = i; i {symbol} 2; (i, y is i, i._version)")


@pytest.mark.parametrize(
    "text", ["x @= x.t(); x", "y = 2; y += x; y", "y = 2.0; y *= g; y", "n += x[:2, :3].numpy(); n"]
)
def test_operator_that_makes_a_new_object(text: str) -> None:
    agree_snippet(text)


@pytest.mark.parametrize(
    "text",
    [
        "x + 'a'",
        "'a' + x",
        "x + None",
        "None * x",
        "x - [1]",
        "x @ 2",
        "2 @ x",
        "x @ c",
        "x & 1",
        "x | x",
        "~x",
        "x << 'a'",
        "i ** -1",
        "m - m",
        "-m",
        "1 - m",
        "i // 0",
        "i % 0",
        "x < None",
        "x + {}",
        "i += x[0, 0:3]",
        "x ** 'a'",
        "divmod(x, 2)",
        "x + torch.ones(5)",
        "x @ x",
        "z < 1",
        "z % 2",
        "z // 2",
        "x()",
        "x.add(1, 2, 3)",
        "x.add()",
        "x.add(1, beta=2)",
        "torch.add(x, 1, otherwise=2)",
        "torch.add(input=x)",
        "torch.add(other=x)",
        "x.sum(0, dim=0)",
        "x.reshape()",
        "x.matmul(3)",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


OUT = [
    "o = torch.empty(3, 4); r = torch.add(x, 1, out=o); (o, r is o)",
    "o = torch.empty(0); torch.mul(x, x, out=o); (o, o.shape)",
    "o = torch.empty(4, 3).t(); torch.add(x, x, out=o); o",
    "o = torch.zeros(5, 4); torch.add(x, 1, out=o[1:4]); o",
    "o = torch.empty(3, 4, dtype=torch.float64); torch.add(x, 1, out=o); o",
    "torch.add(x, 1, out=x); (x, x._version)",
    "torch.matmul(x, x.t(), out=(o := torch.empty(3, 3))); o",
    "o = torch.empty(3, dtype=torch.int64); torch.argmax(x, 1, out=o); o",
    "v, j = torch.empty(3), torch.empty(3, dtype=torch.int64); r = torch.max(x, 1, out=(v, j)); (v, j, r.values is v)",
    "torch.cat([x, x], out=(o := torch.empty(6, 4))); o",
    "torch.sum(x, 0, out=(o := torch.empty(4))); o",
    "torch.gt(x, 3, out=(o := torch.empty(3, 4, dtype=torch.bool))); o",
    "torch.gt(x, 3, out=(o := torch.empty(3, 4))); o",
    "torch.arange(3, out=(o := torch.empty(3, dtype=torch.int64))); o",
    "torch.sqrt(x, out=(o := torch.empty(3, 4, dtype=torch.complex64))); o",
    "with torch.no_grad():\n    torch.exp(g, out=(o := torch.empty(3, 4)))\no",
]


@pytest.mark.parametrize("text", OUT)
def test_out(text: str) -> None:
    agree_snippet(text)


def test_out_of_another_shape_warns_and_resizes() -> None:
    agree_snippet("o = torch.empty(2); torch.add(x, 1, out=o); o", warns=True)
    agree_snippet("o = torch.empty(12); torch.exp(x, out=o); (o, o.shape)", warns=True)


@pytest.mark.parametrize(
    "text",
    [
        "torch.add(x, 1, out=torch.empty(3, 4, dtype=torch.int64))",
        "torch.add(x, 1, out=5)",
        "torch.add(x, 1, out=n)",
        "torch.add(g, 1, out=torch.empty(3, 4))",
        "torch.add(x, 1, out=g)",
        "torch.exp(x, out=[torch.empty(3, 4)])",
        "torch.max(x, 1, out=torch.empty(3))",
        "torch.max(x, 1, out=(torch.empty(3), torch.empty(3)))",
        "torch.argmax(x, 1, out=torch.empty(3))",
        "torch.matmul(x, x.t(), out=torch.empty(3, 3, dtype=torch.float64))",
        "torch.div(i, 2, out=torch.empty(6, dtype=torch.int64))",
        "torch.add(x, 1, out=torch.zeros(1).expand(3, 4))",
    ],
)
def test_out_refused(text: str) -> None:
    refuse_snippet(text)
