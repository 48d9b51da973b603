"""Findings for other programs: JSON, annotations of GitHub Actions, and SARIF 2.1.0 for editors and code scanning."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from undertow.why.causes import CODES
from undertow.why.finding import Finding
from undertow.why.show import Outcome

FORMATS = ("text", "json", "github", "sarif")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(run: Outcome, findings: Sequence[Finding]) -> str:
    """Return the findings and notes as a JSON list; each has the exception that ended the program, or null.

    Without findings, the list has one entry if the program raised (kind "error"), or ran no backward pass ("note").
    """
    error = _error(run)
    entries = [finding.as_data() | {"error": error} for finding in findings]
    if not entries and error is not None:
        message = f"{error['type']}: {error['message']}"
        entries.append(_entry("exception", "error", message, error["file"], error["line"]) | {"error": error})
    elif not entries and not run.judged:
        entries.append(_entry("nothing-judged", "note", run.verdict) | {"error": None})
    return json.dumps(entries, indent=2)


def _entry(code: str, kind: str, message: str, file: str | None = None, line: int | None = None) -> dict[str, Any]:
    """Return an entry that is about the run, not about a cause."""
    return {
        "code": code, "kind": kind, "file": file, "line": line, "also_lines": [], "subject": "the program",
        "subjects": ["the program"], "message": message, "evidence": [], "cure": "",
    }  # fmt: skip


def _error(run: Outcome) -> dict[str, Any] | None:
    error = run.error
    if error is None:
        return None
    place = error.place
    file, line = (None, None) if place is None else (place.file, place.line)
    return {"type": error.type, "message": error.message, "file": file, "line": line}


# --- GitHub Actions


def as_github(run: Outcome, findings: Sequence[Finding], folder: str) -> str:
    """Return workflow commands, which GitHub shows at the lines of a pull request. folder: the repository's."""
    commands = [
        _command(
            "notice" if finding.is_note else "error", f"{finding.code}: {finding.subject}", _message(finding, "\n"),
            finding.file, finding.line, folder,
        )
        for finding in findings
    ]  # fmt: skip
    error = _error(run)
    if error is not None:
        commands.append(
            _command("error", error["type"], error["message"] or error["type"], error["file"], error["line"], folder)
        )
    elif not findings:
        commands.append(_command("notice", "undertow why", run.verdict, None, None, folder))
    return "\n".join(commands)


def _command(level: str, title: str, message: str, file: str | None, line: int | None, folder: str) -> str:
    properties = {"file": file and _relative(file, folder), "line": line, "title": title}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{level} {given}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _message(finding: Finding, newline: str) -> str:
    others = [subject for subject in finding.subjects if subject != finding.subject]
    parts = [finding.message, f"Also: {', '.join(others)}." if others else ""]
    parts.append(f"Write instead: {finding.cure}" if finding.cure else "")
    return newline.join(part for part in parts if part)


def _relative(file: str, folder: str) -> str:
    """Return a path as a URL's: relative to a folder, if the file is inside it."""
    file = os.path.abspath(file)
    inside = file.startswith(folder.rstrip(os.sep) + os.sep)
    return (os.path.relpath(file, folder) if inside else file).replace(os.sep, "/")


# --- SARIF


def as_sarif(run: Outcome, findings: Sequence[Finding], folder: str, status: int) -> str:
    """Return the findings and notes as a SARIF 2.1.0 log. folder: what its paths are relative to."""
    codes = list(dict.fromkeys(finding.code for finding in findings))
    driver = {
        "name": "undertow why",
        "version": _version(),
        "rules": [{"id": code, "shortDescription": {"text": CODES[code].meaning}} for code in codes],
    }
    log = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": _file_url(folder) + "/"}},
        "invocations": [_invocation(run, findings, folder, status)],
        "results": [_result(finding, codes.index(finding.code), folder) for finding in findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [log]}, indent=2)


def _version() -> str:
    try:
        return version("undertow")
    except PackageNotFoundError:  # run from a source folder
        return "0"


def _result(finding: Finding, rule: int, folder: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": "note" if finding.is_note else "error",
        "message": {"text": f"{finding.subject}: {_message(finding, ' ')}"},
        "locations": _locations(finding.file, finding.line, folder),
    }
    related = [
        location | {"message": {"text": fact.text}}
        for fact in finding.evidence
        for location in _locations(fact.file, fact.line, folder)
    ]
    return result | ({"relatedLocations": related} if related else {})


def _invocation(run: Outcome, findings: Sequence[Finding], folder: str, status: int) -> dict[str, Any]:
    error = _error(run)
    invocation: dict[str, Any] = {"executionSuccessful": error is None, "exitCode": status}
    told: list[dict[str, Any]] = []
    if error is not None:
        text = f"{error['type']}: {error['message']}"
        places = _locations(error["file"], error["line"], folder)
        told.append({"level": "error", "message": {"text": text}, "locations": places})
    elif not findings:
        told.append({"level": "note", "message": {"text": run.verdict}})
    return invocation | ({"toolExecutionNotifications": told} if told else {})


def _locations(file: str | None, line: int | None, folder: str) -> list[dict[str, Any]]:
    if file is None or line is None:
        return []
    path = _relative(file, folder)
    artifact = {"uri": _file_url(path)} if path.startswith("/") else {"uri": _quoted(path), "uriBaseId": "SRCROOT"}
    return [{"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}]


def _quoted(path: str) -> str:
    return quote(path.replace(os.sep, "/"))


def _file_url(path: str) -> str:
    return "file://" + _quoted(path)
