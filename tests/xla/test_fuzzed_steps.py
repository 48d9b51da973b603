"""A few of the fuzzer's programs; `python -m tests.xla.step_fuzzer 0 5000` runs many."""

from __future__ import annotations

import pytest

from tests.xla.step_fuzzer import WIDE, check


@pytest.mark.parametrize("seed", range(10))
def test_compiled_steps_do_what_eager_ones_do(seed: int) -> None:
    outcome, detail = check(seed, with_torch=True)
    assert outcome in ("same", "refused", "both raise"), f"{outcome}: {detail}"


@pytest.mark.parametrize("seed", range(WIDE, WIDE + 6))
def test_the_same_with_more_kinds_of_hooks_and_state(seed: int) -> None:
    outcome, detail = check(seed, with_torch=True)
    assert outcome in ("same", "refused", "both raise"), f"{outcome}: {detail}"
