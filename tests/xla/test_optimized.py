"""Programs as users get them, with all of XLA's optimizations: the other tests switch most of them off (conftest.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.xla import test_steps, test_steps_hooks, test_steps_values
from tests.xla.twins import agree

CASES = {
    test_steps: ["conv", "transformer", "writes_and_views"],
    test_steps_hooks: ["clips"],
    test_steps_values: ["rrelu"],
}


def test_agrees_when_optimized() -> None:
    environment = {**os.environ, "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.xla.test_optimized"],
        cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert not done.returncode, done.stderr


if __name__ == "__main__":
    for module, names in CASES.items():
        for name in names:
            agree(module.case[name], tolerance=1e-4)
