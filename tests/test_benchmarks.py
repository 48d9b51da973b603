"""Every benchmark row runs on both libraries. What it takes is never asserted: that is for `make bench` to tell."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch as real_torch

import undertow
from benchmarks import gpu_models, gpu_rows, jax_rows, many_rows
from benchmarks.rows import ROWS, Row, nodes


@pytest.mark.parametrize("library", [real_torch, undertow], ids=lambda library: library.__name__)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_runs_more_than_once(row: Row, library: object) -> None:
    step = row.build(library)  # type: ignore[arg-type]
    step()
    step()


def test_many_rows_run() -> None:
    scope = many_rows.scope_of("undertow")
    for _, before, text in many_rows.rows()[::6]:
        many_rows.step_of(dict(scope), before, text)()


def test_growth_measures_a_backward_pass() -> None:
    backward = nodes(undertow, 10)()
    backward()
    with pytest.raises(RuntimeError, match="a second time"):
        backward()


def test_the_same_rows_are_written_for_jax() -> None:
    assert {row.name for row in (*ROWS, *gpu_rows.ROWS) if row.by_hand} == set(jax_rows.ROWS)


def test_rows_of_jax_learn() -> None:
    for name in ("MLP 16-32-4", "LSTM"):
        step = jax_rows.ROWS[name]()
        assert step().item() > [step().item() for _ in range(5)][-1]


def test_gpt2_in_small_has_the_same_losses_on_both_libraries() -> None:
    losses = []
    for library in (real_torch, undertow):
        library.manual_seed(0)
        step = gpu_rows.gpt2(library, 2, 64, 4, 32, 128, 2, device="cpu")
        losses.append([step().item() for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


@pytest.mark.parametrize("model", gpu_models.MODELS)
def test_hooked_models_in_small_do_the_same_on_both_libraries_and_compiled(model: str) -> None:
    seen = []
    for library, compiled in ((real_torch, False), (undertow, False), (undertow, True)):
        library.manual_seed(0)
        step, log = gpu_models.MODELS[model](library, "all", small=True)
        step = undertow.compile(step) if compiled else step
        seen.append(([float(step()) for _ in range(3)], [float(number) for number in log]))
    assert len(seen[0][1]) > 3
    for losses, log in seen[1:]:
        assert losses == pytest.approx(seen[0][0], rel=1e-3)
        assert log == pytest.approx(seen[0][1], rel=2e-2, abs=1e-5)


def test_the_parts_of_compile_that_are_timed_exist() -> None:
    code = "from benchmarks import real_models as m; m.watch_the_compiler(m.Tables())"
    subprocess.run([sys.executable, "-c", code], check=True)
