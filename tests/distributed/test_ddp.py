"""DistributedDataParallel: the same program on ranks of undertow and of PyTorch shows the same lines on each rank."""

from __future__ import annotations

import pytest

from tests.distributed.compare import assert_same
from tests.distributed.pools import pool

PROGRAMS = (
    "order", "order_with_options", "buckets", "hooks_that_change", "no_sync", "unused", "used_elsewhere",
    "past_the_wrapper", "several_backwards", "create_graph", "static_graph_changes", "buffers", "construction", "copies",
    "comm_hooks", "built_in_hooks", "local_sgd", "sparse", "join", "sampler", "training",
)  # fmt: skip
WITH_FOUR = ("order", "no_sync", "used_elsewhere", "past_the_wrapper", "buffers", "join", "training")


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_ranks_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.ddp_programs:{program}")


@pytest.mark.parametrize("program", WITH_FOUR)
def test_four_ranks_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.ddp_programs:{program}", 4)


def test_where_pytorch_is_silent_undertow_warns_once_with_the_line() -> None:
    for lines in pool("undertow").run("tests.distributed.ddp_programs:warned"):
        stepping, inner, second, unused, healthy = (eval(line) for line in lines)
        assert [each.partition(" | ")[2] for each in (*stepping, *inner, *second, *unused)] == ["ddp_programs.py"] * 4
        assert "A post-accumulate hook changed parameter a" in stepping[0]
        assert "did not average the gradient of b" in inner[0] and "did not average the gradient of b" in second[0]
        assert "averaged no gradient in this iteration" in unused[0]
        assert healthy == []


@pytest.mark.parametrize("size", [2, 4])
def test_sync_batch_norm_is_batch_norm_over_all_ranks(size: int) -> None:
    for lines in pool("undertow", size).run("tests.distributed.ddp_programs:sync_batch_norm"):
        assert lines[0] == "['Conv2d', 'SyncBatchNorm', 'Tanh', 'Flatten', 'Linear']"
        assert not [line for line in lines[1:] if "False" in line] and len(lines) > 15


def test_batched_power_sgd_is_exact_with_all_columns() -> None:
    assert pool("undertow").run("tests.distributed.ddp_programs:batched_power") == [["True", "False"]] * 2
