"""Every benchmark row runs on both libraries. What it takes is never asserted: that is for `make bench` to tell."""

from __future__ import annotations

import pytest
import torch as real_torch

import undertow
from benchmarks.rows import ROWS, Row, nodes


@pytest.mark.parametrize("library", [real_torch, undertow], ids=lambda library: library.__name__)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_runs_more_than_once(row: Row, library: object) -> None:
    step = row.build(library)  # type: ignore[arg-type]
    step()
    step()


def test_growth_measures_a_backward_pass() -> None:
    backward = nodes(undertow, 10)()
    backward()
    with pytest.raises(RuntimeError, match="a second time"):
        backward()
