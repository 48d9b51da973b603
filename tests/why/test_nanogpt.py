"""A real program with a GPT in it (examples/nanogpt.py), watched: it says what it says unwatched, and nothing is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "examples" / "nanogpt.py"
_SMALL = ["--steps", "2", "--layers", "2", "--width", "48", "--batch", "2"]


def _said(*command: str) -> str:
    ran = subprocess.run([sys.executable, *command, *_SMALL], capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return re.sub(r"\d+ ms", "", ran.stdout)


@pytest.mark.parametrize("engine", ["undertow", "torch"])
def test_it_is_healthy_and_goes_on_as_before(engine: str) -> None:
    watched = _said("-m", "undertow", "why", str(_SCRIPT), "--engine", engine)
    bare = _said(str(_SCRIPT)) if engine == "torch" else _said("-m", "undertow", "run", str(_SCRIPT))
    assert watched == f"{bare}Nothing is wrong with the gradients and hooks of this program.\n"
