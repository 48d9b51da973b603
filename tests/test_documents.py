"""What README.md and docs/ show is what happens: their Python blocks run, and print the text block that follows."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"(?<![\w/.~])(_src|src|tests|tools|benchmarks|examples|docs)/([\w/]+(?:\.\w+)?)(?![\w/<])")
LINK = re.compile(r"\]\((?!http)([^)#]*)#?([^)]*)\)")
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


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_paths_and_links_lead_somewhere(document: Path) -> None:
    """A path begins at the root of the repository or, with `_src/`, in the package; docs/adding_a_cause.md makes one up."""
    text = document.read_text()
    paths = {f"{top}/{rest}" for top, rest in PATH.findall(text)} - {"src/undertow/why/causes/step_without_backward.py"}
    missing = {path for path in paths if not any((base / path).exists() for base in (ROOT, ROOT / "src/undertow"))}
    for link, anchor in LINK.findall(text):
        target = document.parent / link if link else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            missing.add(f"{link}#{anchor}")
    assert not missing


def _anchors(document: Path) -> set[str]:
    """Return the headings of a document as GitHub's links name them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_map_of_the_compiler_names_every_file() -> None:
    text = (ROOT / "docs/compile_inside.md").read_text()
    files = {path.name for path in (ROOT / "src/undertow/_src/compile").rglob("*.py")} - {"__init__.py"}
    assert files == set(re.findall(r"`(\w+\.py)`", text))


def test_the_map_of_the_source_says_what_the_packages_say() -> None:
    """Every package is in the map, with the first line of its own docstring; below PyTorch's names only undertow's are."""
    source = ROOT / "src/undertow"
    rows = dict(re.findall(r"^\| `([\w/.]+)` \| (.*) \|$", (ROOT / "docs/map.md").read_text(), re.MULTILINE))
    found = {"pretend.py"}
    for depth in ("_src/*", "_src/*/*", "why", "why/*", "cli"):
        found |= {f"{path.relative_to(source)}/" for path in source.glob(depth) if (path / "__init__.py").exists()}
    assert {name for name in rows if not name.endswith(".py") or "/" not in name} == found
    for name in found:
        path = source / name / "__init__.py" if name.endswith("/") else source / name
        documented = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert rows[name].replace("\\|", "|") == documented.partition("\n")[0].rstrip("."), path
