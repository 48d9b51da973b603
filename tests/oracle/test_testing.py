"""`torch.testing.assert_close`: what passes, and the words of what does not."""

from __future__ import annotations

import pytest

from tests.oracle.snippets import agree_snippet

PAIRS = [
    "x, x",
    "x, x + 1e-3",
    "x, x[0]",
    "x, x.double()",
    "x, 1",
    "1.0, 1.1",
    "1, 2",
    "1, 1.0",
    "True, False",
    "None, None",
    "[x, x], [x, x + 1]",
    "[x], [x, x]",
    "{'a': x}, {'a': x + 1}",
    "{'a': x}, {'b': x}",
    "torch.tensor([math.nan]), torch.tensor([math.nan])",
    "torch.tensor([math.inf, 1]), torch.tensor([math.inf, 1])",
    "torch.tensor(1.0), torch.tensor(2.0)",
    "i, i + (i == 3)",
    "torch.tensor([True]), torch.tensor([False])",
    "n, n + 1",
    "'a', 'b'",
    "x.double() + 1, x.double() + 1 + 1e-8",
    "x.half(), x.half() * 1.0005",
]


@pytest.mark.parametrize("pair", PAIRS)
def test_assert_close(pair: str) -> None:
    agree_snippet(f"torch.testing.assert_close({pair})", raises=None, words=60)


@pytest.mark.parametrize(
    "text",
    [
        "x, x.double(), check_dtype=False",
        "torch.tensor([math.nan]), torch.tensor([math.nan]), equal_nan=True",
        "x, x + 1, rtol=0.1",
        "x, x + 1, rtol=0.0, atol=2.0",
        "x, x + 1, msg='hello'",
        "x, x + 1, msg=lambda text: 'before ' + text",
        "x, x.t().contiguous().t(), check_stride=True",
    ],
)
def test_options(text: str) -> None:
    agree_snippet(f"torch.testing.assert_close({text})", raises=None, words=60)
