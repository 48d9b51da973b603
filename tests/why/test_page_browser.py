"""The page in a real browser, if one is installed. `make test-page` does much more, but needs node."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from undertow.cli import main

ROOT = Path(__file__).parent.parent.parent
FACTS = Path(__file__).with_name("page_facts.js")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SIZES = [(1440, 900), (1024, 768), (400, 800)]

# Shows each page in a frame of its size, and gathers what they tell.
AROUND = """<!doctype html><pre id="told"></pre><script>
const told = {};
addEventListener("message", ({ data, source }) => {
    const frame = [...document.querySelectorAll("iframe")].find((one) => one.contentWindow === source);
    told[frame.id] = JSON.parse(data);
    document.getElementById("told").textContent = JSON.stringify(told);
});
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each page shows, by name: all in one start of the browser."""
    folder = tmp_path_factory.mktemp("browser")
    scripts = {
        "broken": ROOT / "examples" / "broken_training.py",
        **{name: ROOT / "page" / "test" / "scripts" / f"{name}.py" for name in ("no_backward", "softmax_twice")},
    }
    for name, script in scripts.items():
        main(["why", str(script), "--engine", "undertow", "--html", str(folder / f"{name}.html")])
        with open(folder / f"{name}.html", "a", encoding="utf-8") as page:
            page.write(f"<script>{FACTS.read_text(encoding='utf-8')}</script>")
    frames = [(f"broken {width}", "broken.html", width, height) for width, height in SIZES]
    frames.append(("linked", "broken.html#finding=4", *SIZES[0]))
    frames += [(name, f"{name}.html", *SIZES[0]) for name in scripts if name != "broken"]
    tags = [
        f'<iframe id="{name}" src="{page}" width="{width}" height="{height}" style="border: 0"></iframe>'
        for name, page, width, height in frames
    ]
    (folder / "around.html").write_text(AROUND + "\n".join(tags), encoding="utf-8")
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=20000", "--dump-dom", (folder / "around.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    told = re.search(r'<pre id="told">(.*?)</pre>', dumped, re.DOTALL)
    assert told is not None, dumped
    found: dict[str, dict[str, Any]] = json.loads(html.unescape(told[1]))
    assert set(found) == {name for name, *_ in frames}
    return found


@pytest.mark.parametrize("width", [width for width, _ in SIZES])
def test_the_page_opens_on_the_first_finding(shown: dict[str, dict[str, Any]], width: int) -> None:
    page = shown[f"broken {width}"]
    assert page["chosen"] == ["model.encoder.skip.weight"]
    assert page["excerpt"] == ["self.skip = nn.Linear(pixels, width)"]
    assert page["in_view"] == [True, True, True]  # line, evidence, cure
    assert page["line"] == ["21"] and page["line_in_view"]
    assert page["selected"].startswith("leaf model.encoder.skip.weight") and page["off_centre"] < 5
    assert page["smallest_text"] >= 12 and not page["map_on_graph"]
    assert page["beyond"] == []


def test_calls_of_a_hook_are_folded_and_counted(shown: dict[str, dict[str, Any]]) -> None:
    page = shown["linked"]
    assert page["tabs"] == [45, 2, 18]
    (row,) = page["hook_rows"]  # the other hook never fired
    assert "×40" in row and "limit" in row and "unchanged" in row


def test_an_address_names_a_finding(shown: dict[str, dict[str, Any]]) -> None:
    assert shown["linked"]["chosen"] == ["hook at line 71"]
    assert shown["linked"]["selected"].startswith("leaf model.final.weight")
    assert shown["linked"]["address"] == "#finding=2"  # after a click on the second


def test_findings_notes_and_what_was_not_judged(shown: dict[str, dict[str, Any]]) -> None:
    assert shown["broken 1440"]["heads"] == ["6 findings"]
    assert shown["softmax_twice"]["heads"] == ["No finding", "1 note"]
    assert shown["no_backward"]["heads"] == ["Nothing was judged"]
