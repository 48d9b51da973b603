"""A few of the fuzzer's programs; `python -m tests.xla.step_fuzzer 0 5000` runs many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.xla.interpreted import interpreted
from tests.xla.step_fuzzer import DECIDING, EVERYDAY, WIDE, check, rounding_explains


@pytest.mark.parametrize("seed", range(10))
def test_compiled_steps_do_what_eager_ones_do(seed: int) -> None:
    outcome, detail = check(seed, with_torch=True)
    assert outcome in ("same", "refused", "both raise"), f"{outcome}: {detail}"


@pytest.mark.parametrize("seed", range(WIDE, WIDE + 6))
def test_the_same_with_more_kinds_of_hooks_and_state(seed: int) -> None:
    outcome, detail = check(seed, with_torch=True)
    assert outcome in ("same", "refused", "both raise"), f"{outcome}: {detail}"


@pytest.mark.parametrize("seed", [EVERYDAY, EVERYDAY + 2, 2_310_297])
def test_interpreted_programs_do_what_eager_ones_do(seed: int) -> None:
    with interpreted():
        outcome, detail = check(seed)
    assert outcome in ("same", "refused", "both raise"), f"{outcome}: {detail}"


def test_hooks_on_the_host_find_what_others_there_store_in_the_same_call() -> None:
    outcome, detail = check(DECIDING + 617_028)
    assert outcome == "same", f"{outcome}: {detail}"


@pytest.mark.parametrize(
    ("one", "other", "nudged", "explained"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-8], [1.0, 2.0 + 1e-13], True),
        ([1.0, 2.0], [1.0, 2.01], [1.0, 2.0 + 1e-13], False),
        ([3e7, 5e7], [3e7, 5.1e7], [3e7, 5e7 + 1.0], False),  # large, and a nudge changes little
        ([6.9e12, 4e11], [-5.5e11, 2.6e12], [2.1e12, -3e12], True),  # nothing but rounding errors of something larger
        ([6.9e12, 4e11], [-5.5e14, 2.6e12], [2.1e12, -3e12], False),
    ],
)
def test_what_is_taken_for_rounding(one: list[float], other: list[float], nudged: list[float], explained: bool) -> None:
    arrays = [{"value": np.array(each), "steps": 3} for each in (one, other, nudged)]
    assert rounding_explains(arrays[0], arrays[1], [arrays[2]]) is explained
    assert rounding_explains(arrays[0], arrays[1], [arrays[0], arrays[2]]) is explained
    assert not rounding_explains(arrays[0], {**arrays[1], "steps": 4}, [arrays[2]])
    assert not rounding_explains(arrays[0], {"value": arrays[1]["value"]}, [arrays[2]])
