"""`undertow why` on training programs as people write them: healthy as they are, and with one mistake planted.

`cases/training/NAME.py` is a healthy program. `NAME.mistakes` lists changes to it, each under `=== name: code` as the
hunks of a unified diff; a planted line that ends in `# <- here` holds the cause, and `# <- or here` marks lines that are
as good an answer. The marks are taken out before the program runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.why.test_cases import server

_PROGRAMS = sorted((Path(__file__).parent / "cases" / "training").glob("*.py"))
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
_MARK = re.compile(r"\s*# <- (or )?here$")


class Mistake(NamedTuple):
    """One program to ask about: `lines` are good answers, none for a healthy one."""

    name: str
    source: str
    code: str
    lines: list[int]


def programs() -> Iterator[Mistake]:
    for path in _PROGRAMS:
        lines = path.read_text().splitlines()
        yield _unmarked(path.stem, "healthy", lines)
        changes = path.with_suffix(".mistakes")
        for part in changes.read_text().split("=== ")[1:] if changes.exists() else ():
            title, *hunks = part.splitlines()
            name, _, code = title.partition(": ")
            yield _unmarked(f"{path.stem}-{name}", code, changed(lines, hunks))


def changed(lines: list[str], hunks: list[str]) -> list[str]:
    """Applies the hunks of a unified diff without context."""
    result: list[str] = []
    taken = 0
    for line in hunks:
        if line.startswith("@@"):
            match = _HUNK.match(line)
            assert match is not None
            start = int(match[1]) - (match[2] != "0")  # a hunk that only adds names the line before it
            result += lines[taken:start]
            taken = start
        elif line.startswith("-"):
            assert lines[taken] == line[1:], f"the program has changed: {line}"
            taken += 1
        else:
            result.append(line[1:])
    return result + lines[taken:]


def _unmarked(name: str, code: str, lines: list[str]) -> Mistake:
    marked = [number for number, line in enumerate(lines, 1) if _MARK.search(line)]
    return Mistake(name, "\n".join(_MARK.sub("", line) for line in lines) + "\n", code, marked)


@pytest.mark.parametrize("engine", ["undertow", "torch"])
@pytest.mark.parametrize("mistake", list(programs()), ids=lambda mistake: mistake.name)
def test_mistake(mistake: Mistake, engine: str, tmp_path: Path) -> None:
    script = tmp_path / f"{mistake.name}.py"
    script.write_text(mistake.source)
    answer = server(engine).run(script)
    assert not answer["problems"]
    found = [(finding["code"], finding["line"]) for finding in answer["findings"] if finding["kind"] == "finding"]
    if mistake.code == "healthy":
        assert answer["findings"] == [] and answer["error"] is None
    else:
        assert mistake.lines and {code for code, _ in found} == {mistake.code}, found
        assert found[0][1] in mistake.lines, found
