"""The training examples, run as they are on PyTorch and under `undertow run`: the losses of the first steps agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
STEPS = {"digits_mlp": 50, "digits_cnn": 25, "char_gpt": 25, "lstm": 25}
LIBRARIES = {"torch": [sys.executable], "undertow": [sys.executable, "-m", "undertow", "run"]}


def train(library: str, example: str, losses: Path) -> subprocess.CompletedProcess[str]:
    """What the example prints on one library; the loss of every step goes into the file."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [*LIBRARIES[library], f"examples/{example}.py", "--steps", str(STEPS[example]), "--losses", str(losses)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("example", STEPS)
def test_losses_are_those_of_torch(example: str, tmp_path: Path) -> None:
    curves = {}
    for library in LIBRARIES:
        file = tmp_path / f"{library}.json"
        done = train(library, example, file)
        assert done.returncode == 0, done.stderr
        assert f"step {STEPS[example]}/{STEPS[example]}" in done.stdout
        curves[library] = np.array(json.loads(file.read_text()))
    assert len(curves["torch"]) == STEPS[example]
    assert curves["torch"][-1] < 0.8 * curves["torch"][0]
    np.testing.assert_allclose(curves["undertow"], curves["torch"], rtol=0, atol=1e-4)
