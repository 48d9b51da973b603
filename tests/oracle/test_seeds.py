"""Programs written for PyTorch run unchanged on undertow and print what PyTorch prints.

The programs are the complete tensor-only code blocks of the four documents that undertow grew from, and undertow's own
examples. Each library runs them in a process of its own, with `import torch` and `import undertow` answered by that
library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.facts import opening

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "seeds").glob("*.py"))
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.py"))

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
    command = [sys.executable, "tests/oracle/run_programs.py", library, *PROGRAMS, *EXAMPLES]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def described(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as it is compared: print-outs to the letter, messages by class and opening words."""
    raised = answer["raised"]
    return {
        "printed": answer["printed"],
        "warned": [(kind, opening(message)) for kind, message in answer["warned"]],
        "raised": raised and (raised[0], opening(raised[1])),
    }


@pytest.mark.parametrize("program", [*PROGRAMS, *EXAMPLES])
def test_program_does_what_it_does_on_torch(program: str) -> None:
    expected, actual = answers("torch")[program], answers("undertow")[program]
    assert described(actual) == described(expected), actual["raised"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_documents_got_wrong(name: str) -> None:
    assert answers("undertow")[f"tests/seeds/{name}"]["printed"] == KNOWN[name]


def test_a_second_backward_is_refused() -> None:
    kind, message = answers("undertow")["tests/seeds/003_second_backward.py"]["raised"]
    assert kind == "RuntimeError"
    assert message.startswith("Trying to backward through the graph a second time")
