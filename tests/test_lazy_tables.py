"""Adding an op takes its rule, its function and its samples: `make tables` writes the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.lazy_tables import tables
from undertow._src.base.lazy_table import HOMES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

# What docs/adding_an_op.md has one write, for an op that PyTorch lacks.
RULE = """

toy_cube = op("toy_cube", lambda xp, self: self * self * self, promote="numeric", self=lambda g, self: g * 3 * self * self)
"""
FUNCTION = """

toy_cube = unary(rules.toy_cube)
"""
SAMPLES = """
import sys, undertow as torch
assert "toy_cube" in dir(torch) and "toy_cube" in dir(torch.Tensor)
x = torch.tensor([1.0, -2.0], requires_grad=True)
first, = torch.autograd.grad(torch.toy_cube(x).sum(), x, create_graph=True)
second, = torch.autograd.grad(first.sum(), x)
print(torch.toy_cube(x).tolist(), x.toy_cube().grad_fn.name(), first.tolist(), second.tolist())
from tools import stubs
from pathlib import Path
stubs.SOURCE = Path(torch.__file__).parent.parent
texts = {path.name: text for path, text in stubs.stubs().items() if path.parent.name == "undertow"}
print("def toy_cube(input: Tensor, *, out: Tensor | None = None)" in texts["__init__.pyi"])
print("    def toy_cube(self)" in texts["_tensor.pyi"])
"""


def test_the_tables_are_those_of_the_source() -> None:
    stale = [path.name for path, text in tables(SOURCE).items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make tables`"


def test_an_op_is_its_rule_its_function_and_its_samples(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(SOURCE / "undertow", source / "undertow", ignore=shutil.ignore_patterns("__pycache__", "built"))
    home = next(home for home, names in HOMES.items() if "exp" in names.split())
    for path, text in (("undertow/_src/rules/elementwise.py", RULE), (home.replace(".", "/") + ".py", FUNCTION)):
        (source / path).write_text((source / path).read_text(encoding="utf-8") + text, encoding="utf-8")
    for file, text in tables(source, own=["toy_cube"]).items():
        file.write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    answer = subprocess.run([sys.executable, "-c", SAMPLES], env=environment, capture_output=True, text=True)
    assert answer.stdout.splitlines() == [
        "[1.0, -8.0] ToyCubeBackward0 [3.0, 12.0] [6.0, -12.0]", "True", "True",
    ], answer.stderr  # fmt: skip
