"""Packages written for PyTorch, as they come from PyPI, run unmodified on undertow and print what they print on PyTorch.

The programs in tests/packages are run by `python` and by `undertow run`. Texts are compared to the letter, numbers with
four and more digits after the point to rounding: sums are added in another order here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = sorted(path.stem for path in (ROOT / "tests" / "packages").glob("*_program.py"))
LONG_NUMBER = re.compile(r"\d+\.\d{4,}(?:e-?\d+)?")


def printed(program: str, command: list[str]) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    script = str(ROOT / "tests" / "packages" / f"{program}.py")
    done = subprocess.run([sys.executable, *command, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_package_does_what_it_does_on_torch(program: str) -> None:
    expected, actual = printed(program, []), printed(program, ["-m", "undertow", "run"])
    assert LONG_NUMBER.sub("#", actual) == LONG_NUMBER.sub("#", expected)
    numbers = [[float(number) for number in LONG_NUMBER.findall(text)] for text in (expected, actual)]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-5, abs=1.01e-4)
    assert len(expected) > 300
