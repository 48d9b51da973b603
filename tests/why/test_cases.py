"""`undertow why` on whole scripts with one known mistake, or none, on both engines.

`cases/short` are the project's shared cases (their README says what each code means); `cases/long` are closer to
training code as people write it. NAME.json says what is wrong with NAME.py.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.why.case_server import Server

_CASES = sorted(
    path for folder in ("short", "long") for path in (Path(__file__).parent / "cases" / folder).glob("*.py")
)


@cache
def server(engine: str) -> Server:
    return Server(engine)


@pytest.mark.parametrize("engine", ["undertow", "torch"])
@pytest.mark.parametrize("script", _CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(script: Path, engine: str) -> None:
    wanted = json.loads(script.with_suffix(".json").read_text())
    answer = server(engine).run(script)
    assert not answer["problems"]
    assert said_of_raising(wanted, answer["error"]), answer["error"]
    found = [(finding["code"], finding["line"]) for finding in answer["findings"]]
    if wanted["code"] == "healthy":
        assert found == []
        return
    lines = [wanted["line"], *wanted["also_lines"]]
    assert any(code == wanted["code"] and line in lines for code, line in found), found
    assert {Path(finding["file"]).name for finding in answer["findings"]} == {wanted.get("file", script.name)}
    assert {code for code, _ in found} == {wanted["code"]}, f"more than was asked: {found}"


def said_of_raising(wanted: dict[str, Any], error: str | None) -> bool:
    """Whether a script ended as its description says: `raises: Type: words of the message`."""
    said, _, raises = (wanted.get("symptom") or "").partition("raises: ")
    if said or not raises:
        return error is None
    kind, _, words = raises.partition(": ")
    return error is not None and error.startswith(kind) and words in error
