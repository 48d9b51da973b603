"""What `undertow why` writes for other programs: JSON, GitHub's annotations, SARIF; and what it says without findings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.why import command_server
from undertow.why.causes import CAUSES
from undertow.why.finding import note
from undertow.why.formats import as_github, as_json, as_sarif
from undertow.why.places import Place
from undertow.why.show import outcome
from undertow.why.trace import BackwardRecord, Trace

engines = pytest.mark.parametrize("engine", ["undertow", "torch"])

BROKEN = """import torch
w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
loss = (w.detach() * v).sum()
loss.backward()
print(w.grad)
"""
FREED = """import torch
w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""
RAISES = """import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
raise ValueError("a: 50 %, b\\nand more")
"""
NO_BACKWARD = """import torch
print(torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape)
"""
HEALTHY = """import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
"""


def why(folder: Path, source: str, engine: str, *options: str) -> tuple[int, str]:
    """Run a program in a process of its own. Return the exit status and what was printed."""
    (folder / "script.py").write_text(source)
    answer = command_server.why(folder, engine, *options, "script.py")
    assert "watcher itself failed" not in answer["errors"]
    return answer["status"], answer["printed"]


def entries(said: str) -> list[dict[str, Any]]:
    return json.loads(said[said.index("[\n") :])


# --- JSON


@engines
def test_json_has_the_exception_with_the_finding_that_explains_it(tmp_path: Path, engine: str) -> None:
    status, said = why(tmp_path, FREED, engine, "--json")
    (entry,) = entries(said)
    assert status == 1 and (entry["code"], entry["kind"]) == ("freed-graph", "finding")
    error = entry["error"]
    assert (error["type"], error["line"], error["file"]) == ("RuntimeError", 5, str(tmp_path / "script.py"))
    assert "a second time" in error["message"]


@engines
def test_json_has_an_exception_that_nothing_explains(tmp_path: Path, engine: str) -> None:
    status, said = why(tmp_path, RAISES, engine, "--format", "json")
    (entry,) = entries(said)
    assert status == 1 and (entry["kind"], entry["line"], entry["message"]) == (
        "error", 4, "ValueError: a: 50 %, b\nand more",
    )  # fmt: skip
    assert entry["error"]["type"] == "ValueError"


def test_json_of_a_program_that_exits_has_no_exception(tmp_path: Path) -> None:
    status, said = why(tmp_path, BROKEN + "raise SystemExit(3)\n", "undertow", "--json")
    assert status == 1 and [entry["error"] for entry in entries(said)] == [None]
    status, said = why(tmp_path, HEALTHY + "raise SystemExit(3)\n", "undertow", "--json")
    assert status == 3 and json.loads(said) == []


# --- without a backward pass


@engines
def test_a_program_without_backward_is_not_judged(tmp_path: Path, engine: str) -> None:
    page = tmp_path / "page.html"
    status, said = why(tmp_path, NO_BACKWARD, engine, "--html", str(page))
    assert status == 0 and said.endswith("Nothing was judged: the program ran no backward pass.\n")
    data = re.search(r'id="undertow-data"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    assert data is not None
    program = json.loads(data.group(1))["program"]
    assert not program["healthy"] and program["verdict"].startswith("Nothing was judged")
    status, said = why(tmp_path, NO_BACKWARD, engine, "--json")
    (entry,) = entries(said)
    assert status == 0 and (entry["code"], entry["kind"]) == ("nothing-judged", "note")


def test_the_page_of_a_healthy_program_says_so(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert why(tmp_path, HEALTHY, "undertow", "--html", str(page))[0] == 0
    assert '"healthy":true' in page.read_text().replace(" ", "")


def test_a_watched_block_without_backward_is_not_judged() -> None:
    import undertow as torch
    from undertow import why as ask

    with ask.watch(engine=torch) as seen:
        torch.ones(2).sum()
    assert str(seen.findings()).startswith("Nothing was judged")


# --- GitHub


@engines
def test_annotations_for_github(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    status, said = why(tmp_path, BROKEN, engine, "--format", "github")
    (line,) = [line for line in said.splitlines() if line.startswith("::")]
    assert status == 1 and line.startswith("::error file=script.py,line=3,title=detached%3A w::")
    assert "%0AWrite instead: " in line
    status, said = why(tmp_path, RAISES, engine, "--format", "github")
    assert said == "::error file=script.py,line=4,title=ValueError::a: 50 %25, b%0Aand more\n"
    status, said = why(tmp_path, HEALTHY, engine, "--format", "github")
    assert status == 0 and said.startswith("::notice title=undertow why::Nothing is wrong")


def a_note(folder: Path) -> Any:
    place = Place(str(folder / "a file.py"), 7, "f", (None, None, None), None)
    return note(CAUSES[0].code, place, "w", "It may be wrong.", [], "")


def test_notes_are_notices(tmp_path: Path) -> None:
    trace = outcome(Trace(backwards=[BackwardRecord(0, 0, None, "backward", (), None, None, False)]))
    said = as_github(trace, [a_note(tmp_path)], str(tmp_path))
    assert said.startswith("::notice file=a file.py,line=7,")
    assert json.loads(as_json(trace, [a_note(tmp_path)]))[0]["kind"] == "note"
    (result,) = json.loads(as_sarif(trace, [a_note(tmp_path)], str(tmp_path), 0))["runs"][0]["results"]
    assert result["level"] == "note"
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "a%20file.py", "uriBaseId": "SRCROOT"}


# --- SARIF


def check_location(location: dict[str, Any], bases: dict[str, Any]) -> None:
    physical = location["physicalLocation"]
    artifact = physical["artifactLocation"]
    assert isinstance(artifact["uri"], str) and " " not in artifact["uri"]
    if "uriBaseId" in artifact:
        assert artifact["uriBaseId"] in bases and not artifact["uri"].startswith("/")
    assert physical["region"]["startLine"] >= 1


def check_sarif(log: dict[str, Any]) -> dict[str, Any]:
    """Check what the SARIF 2.1.0 specification requires of the parts that are used. Return the only run."""
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    assert set(run) <= {"tool", "results", "invocations", "originalUriBaseIds", "columnKind"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    bases = run["originalUriBaseIds"]
    assert all(base["uri"].startswith("file:///") and base["uri"].endswith("/") for base in bases.values())
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] and len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["shortDescription"]["text"] for rule in rules)
    for result in run["results"]:
        assert result["level"] in ("none", "note", "warning", "error") and result["message"]["text"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            check_location(location, bases)
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool) and isinstance(invocation["exitCode"], int)
        for told in invocation.get("toolExecutionNotifications", ()):
            assert told["message"]["text"] and told["level"] in ("none", "note", "warning", "error")
            for location in told.get("locations", ()):
                check_location(location, bases)
    return run


@engines
def test_sarif(tmp_path: Path, engine: str) -> None:
    status, said = why(tmp_path, BROKEN, engine, "--format", "sarif", "--output", "found.sarif")
    assert status == 1 and said == "None\n"
    run = check_sarif(json.loads((tmp_path / "found.sarif").read_text()))
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("detached", "error") and result["relatedLocations"]
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "script.py", "uriBaseId": "SRCROOT"}, "region": {"startLine": 3}}
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]


def test_sarif_has_the_exception(tmp_path: Path) -> None:
    _, said = why(tmp_path, RAISES, "undertow", "--format", "sarif")
    (invocation,) = check_sarif(json.loads(said))["invocations"]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith("ValueError: a: 50 %")


@engines
def test_a_text_report_goes_to_a_file(tmp_path: Path, engine: str) -> None:
    _, said = why(tmp_path, BROKEN, engine, "--output", "found.txt")
    assert said == "None\n" and "1 finding" in (tmp_path / "found.txt").read_text()
