"""The page itself: one file that loads nothing, whatever its data holds, built from the sources that are there."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from undertow.cli import main
from undertow.why.page import html as page

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "page"
BUILT = Path(page.__file__).parent / "built"

SCRIPT = """import torch

w = torch.ones(2, requires_grad=True)
note = "</script><script>alert(1)</script> <!-- \\u2028 &amp;"
loss = (w * 2).detach().sum() + torch.ones(1, requires_grad=True).sum()
loss.backward()
print(w.grad)
"""


class Loads(HTMLParser):
    """What a page would load, and its script elements."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.loads += [given[name] for name in ("src", "href", "action", "data", "poster") if given.get(name)]
        if tag == "script":
            self.scripts.append(given)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    target = folder / "report.html"
    assert main(["why", str(folder / "train.py"), "--engine", "undertow", "--html", str(target)]) == 1
    assert [path.name for path in folder.iterdir() if path.suffix == ".html"] == ["report.html"]
    return target.read_text(encoding="utf-8")


def test_the_page_loads_nothing(written: str) -> None:
    parser = Loads()
    parser.feed(written)
    assert parser.loads == []
    assert "default-src 'none'" in written
    style = re.search(r"<style>(.*?)</style>", written, re.DOTALL)
    assert style is not None and "url(" not in style[1] and "@import" not in style[1]
    code = (BUILT / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|navigator\.sendBeacon", code)


def test_the_page_lies_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "goes_away.py"
    (tmp_path / "elsewhere").mkdir()
    script.write_text("import os\nprint('begun')\nos.chdir('elsewhere')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr", sys.stdout)
    assert main(["why", "goes_away.py", "--engine", "undertow", "--html", "report.html"]) == 0
    assert (tmp_path / "report.html").exists()
    *_, said, where = capsys.readouterr().out.splitlines()
    assert said.startswith("No finding") and where == "undertow: the page is in report.html"  # the answer first
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main(["why", "goes_away.py", "--engine", "undertow", "--html=nowhere/report.html"]) == 2
    out, err = capsys.readouterr()
    assert "no folder" in err and "begun" not in out  # said before the program runs, not after


def test_its_data_cannot_end_its_script_element(written: str) -> None:
    parser = Loads()
    parser.feed(written)
    assert [script.get("type") for script in parser.scripts] == ["application/json", None]
    held = re.search(r'id="undertow-data">(.*?)</script>', written, re.DOTALL)
    assert held is not None and "<" not in held[1]
    data = json.loads(held[1])
    assert data["format"] == "undertow why page" and data["version"] == 1 and data["program"]["engine"] == "undertow"
    assert data["files"][0]["lines"] == SCRIPT.splitlines()
    (finding,) = data["findings"]
    assert (finding["code"], finding["line"], finding["file"]) == ("detached", 5, 0)


def test_the_built_page_is_what_its_sources_give() -> None:
    """`make page` writes down what it read and wrote; this needs no node."""
    record = json.loads((BUILT / "record.json").read_text(encoding="utf-8"))
    here = {path for path in SOURCES.rglob("*") if path.is_file() and not _is_aside(path)}
    found = {path.relative_to(SOURCES).as_posix(): _hash(path) for path in here}
    assert record["sources"] == found, "page/ has changed: run `make page`"
    assert record["built"] == {name: _hash(BUILT / name) for name in ("page.js", "page.css", "THIRD_PARTY.txt")}


def test_licences_of_what_is_bundled_are_there() -> None:
    text = (BUILT / "THIRD_PARTY.txt").read_text(encoding="utf-8")
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    bundled = {
        path.removeprefix("node_modules/"): about for path, about in lock.items() if path and not about.get("dev")
    }
    assert "@dagrejs/graphlib" in bundled  # inside dagre's own bundle
    for name, about in bundled.items():
        assert about["license"] in ("MIT", "ISC", "BSD-3-Clause"), name
        assert f"\n{name} {about['version']} ({about['license']})\n" in text


def _is_aside(path: Path) -> bool:
    inner = path.relative_to(SOURCES).parts
    return inner[0] in ("node_modules", "test", ".gitignore", "README.md")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
