"""Faults of ranks are Python errors on the others, which name the rank, the op and the lines: no hang, no abort."""

from __future__ import annotations

import re

from tests.distributed.pools import pool

FILE = r"\S+faults\.py:\d+"


def test_ranks_that_disagree_all_raise_the_same_error_and_go_on() -> None:
    first, second = pool("undertow").run("tests.distributed.faults:disagreement")
    assert first[:12] == second[:12]
    sizes, dtypes, ops, roots, reductions = first[:5]
    for line in first[:11]:
        assert line.startswith("DistBackendError: the ranks of the group called ")
        assert re.search(rf"rank 0: .* at {FILE}\n  rank 1: .* at {FILE}$", line), line
    assert "rank 0: all_reduce(float32[2])" in sizes and "rank 1: all_reduce(float32[3])" in sizes
    assert "all_reduce(float32[2])" in dtypes and "all_reduce(int64[2])" in dtypes
    assert "different collectives" in ops and "rank 0: broadcast" in ops and "rank 1: all_reduce" in ops
    assert "from 0" in roots and "from 1" in roots and "MAX" in reductions and "MIN" in reductions
    assert "rank 1 sends 2 elements to rank 0, which expects 1" in first[11]
    assert re.search(
        rf"irecv\(float32\[2\]\) at {FILE} does not fit .* rank 0: it sent float32\[3\] at {FILE}", second[12]
    )
    assert first[12] == second[13] == "tensor([2., 2., 2.])"


def test_an_absent_rank_is_named_with_its_line_and_its_last_collective() -> None:
    waited, seconds, again = pool("undertow").run("tests.distributed.faults:absence")[0]
    assert re.search(rf"all_reduce\(float32\[2\]\) at {FILE} failed: timed out after 1 s", waited)
    assert re.search(rf"rank 1 is at {FILE}; its last collective was irecv\(float32\[1\]\) at {FILE}", waited)
    assert float(seconds) >= 1
    assert again == waited
