"""Sharded state: the same program on ranks of undertow and of PyTorch shows the same lines on each rank."""

from __future__ import annotations

import pytest

from tests.distributed.compare import assert_same
from tests.distributed.pools import pool

ZERO = ("partition", "training", "checkpoints", "schedules", "joined", "refused")


@pytest.mark.parametrize("program", ZERO)
def test_zero_redundancy_optimizer(program: str) -> None:
    assert_same(f"tests.distributed.zero_programs:{program}")


def test_zero_redundancy_optimizer_on_four_ranks() -> None:
    for program in ("partition", "training"):
        assert_same(f"tests.distributed.zero_programs:{program}", 4)


@pytest.mark.parametrize(
    "program", ["layouts", "operators", "gradients", "modules", "parallel_styles", "communication"]
)
def test_distributed_tensors(program: str) -> None:
    assert_same(f"tests.distributed.dtensor_programs:{program}")


def test_distributed_tensors_on_a_mesh_of_two_dims() -> None:
    assert_same("tests.distributed.dtensor_programs:meshes", 4)


@pytest.mark.parametrize(
    "program",
    [
        "construction",
        "training",
        "hooks",
        "accumulation",
        "accumulation_over_replicas",
        "conversions",
        "methods",
        "mixed_precision",
        "state",
        "optimizer_between",
    ],
)
def test_fully_shard(program: str) -> None:
    assert_same(f"tests.distributed.fsdp_programs:{program}")


@pytest.mark.parametrize("program", ["training", "hybrid"])
def test_fully_shard_on_four_ranks(program: str) -> None:
    assert_same(f"tests.distributed.fsdp_programs:{program}", 4)


def test_hooks_on_sharded_parameters_get_the_shard_of_the_reduced_gradient() -> None:
    def value(x: float) -> str:
        return f"((Shard(dim=0),), (2, 2), ('Tensor', (1, 2), [{x}, {x}]))"

    expected = [
        line
        for total in (3.0, 6.0)
        for line in (
            f"tensor, before {value(1.5)}",
            f"tensor, after {value(3.0)}",
            f"node pre [{value(3.0)}]",
            f"post accumulate, before {value(total)}",
            f"post accumulate, after {value(total)}",
            f"node post [{value(3.0)}]",
            value(total),
        )
    ]
    for lines in pool("undertow").run("tests.distributed.fsdp_programs:hooks_that_pytorch_loses"):
        assert lines == expected


def test_gradients_are_reduced_after_a_backward_pass_that_failed() -> None:
    shard = "(Shard(dim=0),)"
    expected = ", ".join(f"({shard}, {shape})" for shape in ("(5, 3)", "(5,)", "(4, 5)", "(1, 4)", "(1,)"))
    for lines in pool("undertow").run("tests.distributed.fsdp_programs:backward_again"):
        assert lines == ["ValueError no gradient", "None", f"[{expected}]"]
