"""What README.md and docs/ show is what happens: their Python blocks run, and print the text block that follows."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_run_and_print_what_they_show(document: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = BLOCK.findall(document.read_text())
    for (language, code), (following, shown) in zip(blocks, [*blocks[1:], ("", "")]):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            place = str(document)
            linecache.cache[place] = (len(code), None, code.splitlines(keepends=True), place)  # hooks' sources are read
            exec(compile(code, place, "exec"), names)
        if following == "text":
            assert printed.getvalue() == shown


def test_readme_fits_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_the_map_of_the_compiler_names_every_file() -> None:
    text = (ROOT / "docs/compile_inside.md").read_text()
    files = {path.name for path in (ROOT / "src/undertow/xla").rglob("*.py")} - {"__init__.py"}
    assert files == set(re.findall(r"`(\w+\.py)`", text))
