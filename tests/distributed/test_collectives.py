"""Collectives: the same program on two ranks of undertow and of PyTorch shows the same lines on each rank."""

from __future__ import annotations

import pytest
import torch as real_torch

from tests.distributed.compare import assert_same

assert real_torch.distributed.is_gloo_available()  # the oracle


@pytest.mark.parametrize(
    "program",
    "all_reduce work_handles gather_and_broadcast groups scattering messages objects coalesced with_gradients stores "
    "meshes functional first_words".split(),
)
def test_two_ranks_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"tests.distributed.programs:{program}")


def test_four_ranks_show_what_they_show_on_pytorch() -> None:
    assert_same("tests.distributed.programs_of_four:all_at_once", 4)


def test_a_rank_may_send_late_after_a_receive_from_any() -> None:
    assert_same("tests.distributed.programs_of_four:late_after_any", 4)
