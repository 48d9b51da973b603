"""The harness can fail: programs that do something else the second time are caught, whatever it is that differs.

Both runs are on torch here, so that what is tested is the comparison and not undertow.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch as real_torch

from tests.oracle import harness
from tests.oracle.facts import SPACING, opening
from tests.oracle.harness import agree, agree_error, agree_op


@pytest.fixture(autouse=True)
def torch_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "undertow", real_torch)


def raise_(error: Exception) -> None:
    raise error


# Each gets `second`, False in the first run and True in the second.
DIFFERENT: dict[str, Callable[[Any, Any, bool], Any]] = {
    "value": lambda torch, log, second: torch.ones(2) + second * 1e-3,
    "dtype": lambda torch, log, second: torch.ones(2, dtype=torch.float64 if second else torch.float32),
    "shape": lambda torch, log, second: torch.ones(1, 2) if second else torch.ones(2),
    "requires_grad": lambda torch, log, second: torch.ones(2, requires_grad=second),
    "structure": lambda torch, log, second: [1, 2] if second else (1, 2),
    "length": lambda torch, log, second: [1, 2, 3] if second else [1, 2],
    "keys": lambda torch, log, second: {"b" if second else "a": 1},
    "kind of number": lambda torch, log, second: 1 if second else True,
    "NaN": lambda torch, log, second: torch.tensor(float("nan") if second else 0.0),
    "infinity": lambda torch, log, second: torch.tensor(-float("inf") if second else float("inf")),
    "integers": lambda torch, log, second: torch.tensor([2**60 + second]),
    "log": lambda torch, log, second: log("late" if second else "early"),
    "log of a tensor": lambda torch, log, second: log(torch.tensor(1 + int(second))),
    "print": lambda torch, log, second: print(second),
    "warning": lambda torch, log, second: warnings.warn("late", stacklevel=1) if second else None,
    "raising": lambda torch, log, second: raise_(ValueError("x")) if second else None,
    "not raising": lambda torch, log, second: None if second else raise_(ValueError("x")),
    "class": lambda torch, log, second: raise_(ValueError("x") if second else TypeError("x")),
    "words": lambda torch, log, second: raise_(ValueError("y" if second else "x")),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_caught(what: str) -> None:
    runs = itertools.count()
    with pytest.raises(AssertionError, match="disagree"):
        agree(lambda torch, log: DIFFERENT[what](torch, log, next(runs) > 0))


@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("second", [False, True])
def test_no_difference_passes(what: str, second: bool) -> None:
    agree(lambda torch, log: DIFFERENT[what](torch, log, second))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize(
    ("ours", "theirs", "agrees"), [(3, -1.5, False), (1.5, -1.5, True), (3, 4, True), (9, 4, False)]
)
def test_rounding_is_measured_against_a_reference(dtype: str, ours: float, theirs: float, agrees: bool) -> None:
    """Errors in units in the last place of the largest number: two are allowed, or as many as torch has itself."""
    runs = itertools.count()
    unit = SPACING[dtype] * 256

    def program(torch: Any) -> Any:
        error = ours if next(runs) else theirs
        return torch.tensor([256.0, error * unit + 0.5], dtype=torch.float64).to(getattr(torch, dtype))

    def exactly(torch: Any) -> Any:
        return torch.tensor([256.0, 0.5], dtype=torch.float64)

    with contextlib.nullcontext() if agrees else pytest.raises(AssertionError):
        agree(program, rtol=0, atol=0, reference=exactly)


def test_the_graph_is_compared_on_request() -> None:
    runs = itertools.count()

    def program(torch: Any) -> Any:
        x = torch.ones(2, requires_grad=True)
        return x * 1 if next(runs) % 2 else x + 0

    agree(program)
    with pytest.raises(AssertionError, match="MulBackward0"):
        agree(program, graph=True)


def test_a_missing_warning_is_caught_on_request() -> None:
    runs = itertools.count()

    def program(torch: Any) -> None:
        if next(runs) % 2 == 0:
            warnings.warn("early", stacklevel=1)

    agree(program)
    with pytest.raises(AssertionError, match="torch warns where undertow does not"):
        agree(program, warns=True)


def test_a_logged_tensor_is_a_copy() -> None:
    def program(torch: Any, log: Any) -> None:
        x = torch.zeros(2)
        log(x)
        x += 1

    assert agree(program).log[0][0].array.tolist() == [0, 0]


def test_a_program_must_raise_where_an_error_is_asked_for() -> None:
    agree_error(lambda torch: torch.ones(2).sum(5))
    with pytest.raises(AssertionError, match="the program itself is wrong"):
        agree_error(lambda torch: torch.ones(2).sum(0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x.exp(), lambda x: x.exp() + x.detach()),  # value
        (lambda x: x.exp(), lambda x: x.detach().exp() + 0 * x),  # first gradient
        (lambda x: x * x, lambda x: x * x.detach() + x.detach() * x - x.detach() * x.detach()),  # second gradient
    ],
)
def test_op_differences_are_caught(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
    forms = itertools.cycle([first, second])
    with pytest.raises(AssertionError, match="disagree"):
        agree_op(lambda torch, x: next(forms)(x), np.array([0.5, 1.5]))


def test_op_passes_for_many_kinds_of_input() -> None:
    agree_op(lambda torch, x, n, k: (x**n, {"k": x.sum(0)}, [k]), np.array([0.5, 1.5]), 3, np.array([1, 2]))
    agree_op(lambda torch, x: x.tanh(), np.array([0.5, 1.5]), dtype="bfloat16")
    agree_op(lambda torch, z: z * z, np.array([0.5 + 1j, 1.5 - 2j]))


def test_opening_words() -> None:
    assert opening("One two. Three") == "One two"
    assert opening("a b c d e f g h i j") == "a b c d e f g h"
    assert opening("undertow.float32 at 0xdead\nmore") == opening("torch.float32 at 0xbeef")
