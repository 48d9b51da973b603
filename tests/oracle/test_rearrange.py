"""torch.func.rearrange: dims named by a pattern."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import attempt

# Patterns for a tensor of 2 x 3 x 4, with lengths after a semicolon.
PATTERNS = """
a b c -> a b c
a b c -> c b a
a b c -> (a b) c
a b c -> a (c b)
a b (c d) -> a b c d; c=2
a b (c d) -> (a c) (b d); c=2, d=2
a b (c d) -> a b c d; d=-1
a b (c d) -> a b c d; c=3
a b c -> a b c; a=2
a b c -> a b c; a=3
a b c -> a b c; d=3
a b c -> a b c; a='x'
a b c -> 1 a () b c 1
a b c -> a (1 b) c
... c -> c ...
a ... -> (a ...)
a ... -> a (...)
a b c ... -> a (...) b c
a b c ... -> a ... b c
a ... b c d -> a b c d
(...) -> ...
... ... -> ...
a b c -> a b ...
a b c -> a b c ..
a b -> b a
a b c d -> a b c d
a b c -> a b
a b c d -> a b c
a a c -> a c
a b c
a b c -> a -> b
a b c -> (a b c
a b c -> a b) c
a b c -> ((a b) c)
a b 2 -> a b
a b c -> a 2 b c
a 1 c -> c a
_a b c -> b c _a
1a b c -> b c
 a1 b  c->c b a1
for b c -> b c for
"""


@pytest.mark.parametrize("line", PATTERNS.strip("\n").splitlines())
def test_patterns(line: str) -> None:
    pattern, _, lengths = line.partition(";")

    def program(torch: Any, log: Any) -> None:
        x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
        named = eval(f"dict({lengths})")

        def run() -> Any:
            y = torch.func.rearrange(x, pattern, **named)
            (gradient,) = torch.autograd.grad(y.square().sum(), x)
            return y, gradient, y.is_contiguous(), y._is_view()

        attempt(log, pattern, run, words=6)

    agree(program)


def test_lists_and_transforms() -> None:
    def program(torch: Any, log: Any) -> None:
        rearrange, x = torch.func.rearrange, torch.arange(24.0).reshape(2, 3, 4)
        log(rearrange([x, x * 2], "i a b c -> a b c i"), rearrange((x, x), "i a b c -> (i a) b c"))
        log(rearrange(torch.tensor(3.0), " -> "), rearrange(torch.ones(2, 0), "a b -> (b a)"))
        log(torch.vmap(lambda row: rearrange(row, "a b -> (b a)"))(x))
        log(torch.func.grad(lambda x: rearrange(x, "a b c -> c (a b)")[0].sum())(x))
        attempt(log, "no tensor", lambda: rearrange(3, "a -> a"))

    agree(program)
