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


STEP = r"compiled step\(all_reduce\(float32\[11\]\)\) at \S+faults\.py:\d+"


def test_ranks_wait_for_one_that_compiles_longer_than_their_timeout() -> None:
    (mine, *waited), (other,) = pool("undertow").run("tests.distributed.faults:compiling")
    assert mine == other
    for line in waited:
        assert re.search(rf"{STEP} goes on waiting after 1 s:\n  rank 1 compiles _step.<locals>.step$", line), line
    assert len(waited) >= 2  # the batch of another size, too


def test_a_hook_that_raises_in_a_compiled_step_ends_it_on_all_ranks_which_go_on() -> None:
    first, second = pool("undertow").run("tests.distributed.faults:raising_hooks")
    ran, nothing = ["no error", "False [False, False, False, False]"], "True [True, False, False, False]"
    assert first[:6] == second[:6] == ran * 3
    assert re.search(rf"^DistBackendError: {STEP} failed: rank 1 raised ValueError: no gradient of rank 1$", first[6])
    assert first[7] == "True [False, False, False, False]"
    assert second[6:8] == ["ValueError: no gradient of rank 1", nothing]  # its local gradients, as in eager mode
    assert first[8:10] == ["ValueError: no gradient of rank 0", nothing]
    assert second[8:10] == ["ValueError: no gradient of rank 1", nothing]
    assert first[10:12] == second[10:12] == ran and first[12] == second[12]


def test_a_rank_that_leaves_a_step_after_its_program_can_not_go_on_unnoticed() -> None:
    first, second = pool("undertow").run("tests.distributed.faults:raising_later")
    assert first[:4] == ["no error"] * 4 and second[3] == "ValueError: no more"
    for line in (*first[4:], *second[4:]):
        assert (
            line.startswith("DistBackendError") and "after a compiled step at" in line and "raised ValueError" in line
        )


def test_a_hook_that_blocks_a_compiled_step_is_named_with_its_line() -> None:
    first, second = pool("undertow").run("tests.distributed.faults:blocking_hook")
    assert re.search(
        rf"^DistBackendError: {STEP} failed: timed out after 1 s\n  rank 1 is at {FILE}; its last", first[3]
    )
    assert re.search(rf"^DistBackendError: rank 0 failed in {STEP}: timed out", second[3])
    assert first[4].startswith("True") and second[4].startswith("True")  # the parameters are as before
