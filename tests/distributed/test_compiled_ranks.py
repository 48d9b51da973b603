"""Compiled steps on ranks: they show what PyTorch shows for the step as it is written, or are refused on every rank."""

from __future__ import annotations

import pytest

from tests.distributed.compare import assert_same
from tests.distributed.pools import pool

STEPS = ("training", "several_forwards", "hooks", "no_sync", "built_in_hooks", "comm_hooks", "equal_parameters",
         "recompiled", "unused_parameters", "settings_between_calls")  # fmt: skip
COLLECTIVES = ("collectives", "other_collectives", "several_groups", "with_gradients", "collectives_in_hooks",
               "branches", "tensor_parallel")  # fmt: skip


@pytest.mark.parametrize("program", STEPS)
def test_two_ranks_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.compiled_programs:{program}")


@pytest.mark.parametrize("program", ["training", "settings", "hooks", "optimizer_between"])
def test_sharded_models_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.compiled_fsdp:{program}")


def test_what_fully_shard_cannot_compile_is_refused_on_every_rank() -> None:
    wanted = ("the ranks run different programs. Collective", "is shown a distributed tensor")
    for lines in pool("undertow").run("tests.distributed.compiled_fsdp:refused"):
        for line, words in zip(lines, wanted, strict=True):
            assert line.startswith("CompileError") and words in line, line


@pytest.mark.parametrize("program", COLLECTIVES)
def test_collectives_of_two_ranks_give_what_they_give_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.compiled_collectives:{program}")


def test_hooks_of_four_ranks_show_what_they_show_on_pytorch() -> None:
    assert_same("tests.distributed.compiled_programs:few_hooks", 4)


@pytest.mark.parametrize("program", ["collectives", "other_collectives", "several_groups"])
def test_collectives_of_four_ranks_give_what_they_give_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.compiled_collectives:{program}", 4)


def test_sync_batch_norm_compiles() -> None:
    for lines in pool("undertow").run("tests.distributed.compiled_programs:sync_batch_norm"):
        assert "True" in lines[0] and "False" not in lines[0]


def test_what_cannot_be_compiled_is_refused_on_every_rank() -> None:
    wanted = (
        "b got no gradient in a backward pass", "the ranks run different programs. Collective 1 of a call is",
        "the ranks run different programs. Collective 1 of a call is", "a communication hook does more than compute",
        "do not use the same parameters: b",
        "the communication hook powerSGD_hook", "a communication hook gets other buckets",
        "does not run its backward pass", "barrier", "dist.",
        "dist.broadcast_object_list",         "the ranks run different programs. Collective 2 of a call is",
    )  # fmt: skip
    own = []
    for lines in pool("undertow").run("tests.distributed.compiled_refused:refused"):
        assert lines.pop(7) == "ran None"  # after an iteration, the buckets stay
        for line, words in zip(lines, wanted, strict=False):
            assert line.startswith("CompileError") and words in line, line
        assert "a unused" in lines[1] and "b unused" in lines[1] and "b unused" in lines[2]
        assert "rank 0: all_reduce" in lines[11] and "rank 1: broadcast" in lines[11]
        assert lines[13:] == ["[3.0]"]
        own.append(lines[12])
    assert (
        own[0].startswith("DistBackendError the ranks of the group called different")
        and own[1] == "ValueError only here"
    )
