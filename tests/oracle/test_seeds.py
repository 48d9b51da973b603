"""Programs written for PyTorch run unchanged on undertow and print what PyTorch prints.

The programs are the complete code blocks of the four documents that undertow grew from, and the tour of the hooks. Each
library runs them in a process of its own, with `import torch` and `import undertow` answered by that library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.facts import opening

ROOT = Path(__file__).parent.parent.parent
SEEDS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "seeds").rglob("*.py"))
PROGRAMS = [*SEEDS, "examples/hooks_tour.py"]
# Prints float32 in full, so the last digit depends on the order in which a matrix product adds: equal to rounding.
EVERY_DIGIT = "tests/seeds/modules/002_record_activations.py"

NUMBER = r"-?\d+\.\d*"

# What a program prints on PyTorch, where the document it comes from says something else.
KNOWN = {
    "000_clipped_gradient.py": "Gradient of x: tensor(20.)\n",
    "001_log_gradient_norm.py": "Gradient norm: 4.0\n",
    "001_clip_gradient_of_non_leaf.py": "None\n",
}


@cache
def answers(library: str) -> dict[str, dict[str, Any]]:
    """What every program does on one library."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    programs = [str(ROOT / program) for program in PROGRAMS]
    command = [sys.executable, str(ROOT / "tests/oracle/run_programs.py"), library, *programs]
    with tempfile.TemporaryDirectory() as folder:  # some of them write files
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {program: found[str(ROOT / program)] for program in PROGRAMS}


def described(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as it is compared: print-outs to the letter, messages by class and opening words."""
    raised = answer["raised"]
    return {
        "printed": answer["printed"],
        "warned": [(kind, opening(message)) for kind, message in answer["warned"]],
        "raised": raised and (raised[0], opening(raised[1])),
    }


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != EVERY_DIGIT])
def test_program_does_what_it_does_on_torch(program: str) -> None:
    expected, actual = answers("torch")[program], answers("undertow")[program]
    assert described(actual) == described(expected), actual["raised"]


def test_every_digit_of_a_matrix_product_to_rounding() -> None:
    expected, actual = (described(answers(library)[EVERY_DIGIT]) for library in ("torch", "undertow"))
    # NumPy aligns its columns by how many digits they have.
    texts = [re.sub(r"\s", "", answer.pop("printed")) for answer in (expected, actual)]
    assert actual == expected
    assert re.sub(NUMBER, "#", texts[1]) == re.sub(NUMBER, "#", texts[0])
    numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in texts]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_documents_got_wrong(name: str) -> None:
    assert answers("undertow")[f"tests/seeds/{name}"]["printed"] == KNOWN[name]


def test_a_second_backward_is_refused() -> None:
    kind, message = answers("undertow")["tests/seeds/003_second_backward.py"]["raised"]
    assert kind == "RuntimeError"
    assert message.startswith("Trying to backward through the graph a second time")
