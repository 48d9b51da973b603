"""`torch.testing._comparison`: what two values, or nests of them, are told to differ in, in PyTorch's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import undertow
from tests.oracle.harness import agree

PAIRS = """
t([1, 2, 3]), t([1, 2, 4])
t([True, False]), t([True, True])
t([1.0, 2.0, 3.0]), t([1.0, 2.1, 4.0])
t(1.0), t(2.0)
t([1.0]), t([1])
t([1.0]), t([1.0, 2.0])
t([float("nan")]), t([float("nan")])
t([float("inf")]), t([1.0])
t([1 + 1j]), t([1 + 2j])
t([1.0, 2.0], dtype=torch.float16), t([1.0, 2.1], dtype=torch.float16)
t([1, 200], dtype=torch.uint8), t([3, 2], dtype=torch.uint8)
t(2**53), t(2**53 + 1)
[t(1.0), t(2.0)], [t(1.0), t(3.0)]
[t(1.0), t(2.0)], [t(1.0)]
{"a": t(1.0)}, {"b": t(2.0)}
{"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 3.0}]}
None, t(1.0)
"a", "b"
1, 2
1, 1.0
1.0, 2.0
1j, 2j
True, False
np.float32(1.5), 1.6
np.array([1.0, 2.0]), np.array([1.0, 3.0])
1.0, t(2.0)
(1, 2), [1, 3]
"ab", ["a", "b"]
torch.zeros(2, 3), torch.ones(2, 3)
torch.empty(2, device="meta"), torch.empty(2)
torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse()
""".strip().split("\n")


@pytest.mark.parametrize("text", PAIRS)
def test_what_differs(text: str) -> None:
    def run(torch: Any) -> None:
        one, other = eval(text, {"torch": torch, "t": torch.tensor, "np": np})
        torch.testing.assert_close(one, other)

    words = 60  # the whole message
    agree(run, words=words)


def test_errors_of_a_nest_are_all_found() -> None:
    def run(torch: Any) -> Any:
        comparison = torch.testing._comparison
        kinds = (comparison.NonePair, comparison.BooleanPair, comparison.NumberPair, comparison.TensorLikePair)
        errors = comparison.not_close_error_metas(
            [1, {"a": torch.ones(2)}, None], [2, {"a": torch.zeros(2)}, 3], pair_types=kinds, rtol=0.1, atol=0.1
        )
        return [(error.type.__name__, error.id, str(error.to_error(lambda text: "so: " + text))) for error in errors]

    agree(run)


def test_pairs_of_ones_own() -> None:
    def run(torch: Any) -> Any:
        comparison = torch.testing._comparison

        class EvenPair(comparison.Pair):  # type: ignore[name-defined]
            def __init__(self, actual: Any, expected: Any, **options: Any) -> None:
                self._check_inputs_isinstance(actual, expected, cls=int)
                super().__init__(actual, expected, **options)

            def compare(self) -> None:
                if (self.actual - self.expected) % 2:
                    self._fail(AssertionError, f"{self.actual} and {self.expected} are not both even or odd")

        found = comparison.originate_pairs([1, {"x": 4}], [3, {"x": 7}], pair_types=(EvenPair,))
        told = []
        for pair in found:
            try:
                pair.compare()
            except comparison.ErrorMeta as error:
                told.append(str(error.to_error()))
        return [len(found), told]

    agree(run)


def test_tolerances() -> None:
    def run(torch: Any) -> Any:
        get, default = torch.testing._comparison.get_tolerances, torch.testing._comparison.default_tolerances
        x = torch.ones(1, dtype=torch.float16)
        return [get(torch.float32, rtol=None, atol=None), get(x, rtol=1.0, atol=2.0), default(x, torch.float64)]

    agree(run)
    with pytest.raises(undertow.testing._comparison.ErrorMeta, match="Both 'rtol' and 'atol'"):
        undertow.testing._comparison.get_tolerances(undertow.float32, rtol=1.0, atol=None)
