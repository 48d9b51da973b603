"""The script of `make demo`: every mistake that it was written with is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.why.test_cases import server

_SCRIPT = Path(__file__).parents[2] / "examples" / "broken_training.py"
_MISTAKES = {
    "unused": "self.skip = nn.Linear",
    "not-in-optimizer": "self.heads = [",
    "zero-by-math": ".round()",
    "hook-return-ignored": "gradient.clamp(",
    "hook-after-backward": "register_full_backward_hook",
    "graph-leak": "self.losses.append(loss)",
}


@pytest.mark.parametrize("engine", ["undertow", "torch"])
def test_every_mistake_is_found(engine: str) -> None:
    source = _SCRIPT.read_text().splitlines()
    answer = server(engine).run(_SCRIPT)
    assert not answer["problems"] and answer["error"] is None
    found = {finding["code"]: source[finding["line"] - 1] for finding in answer["findings"]}
    assert len(found) == len(answer["findings"])
    assert found.keys() == _MISTAKES.keys()
    assert all(_MISTAKES[code] in line for code, line in found.items()), found
