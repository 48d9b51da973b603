"""`undertow why` on programs of `cases/programs.txt`, `reports.txt` and `parallel.txt`, with one mistake and without it.

Those of `reports.txt` are the kinds of programs that people report as bugs. Each runs on both engines. A program stands
under `=== name: code`, or `note:code` for a note. The line of the cause ends in `# <- here`, lines that are as good an
answer in `# <- or here`. Lines that end in `#-` are only in the broken program, those behind `#+` only in the healthy one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.why.test_cases import server

_PROGRAMS = [Path(__file__).parent / "cases" / name for name in ("programs.txt", "reports.txt", "parallel.txt")]
_MARK = re.compile(r"\s*# <- (or )?here")


def programs() -> Iterator[tuple[str, str, list[str]]]:
    """(name, code, lines)."""
    for part in "".join(file.read_text() for file in _PROGRAMS).split("=== ")[1:]:
        title, *lines = part.splitlines()
        name, _, code = title.partition(": ")
        if code != "healthy":
            yield name, code, [line for line in lines if not line.lstrip().startswith("#+")]
        healthy = [line.replace("#+ ", "", 1) for line in lines if not line.endswith("#-")]
        yield f"{name}-healthy", "healthy", healthy


@pytest.mark.parametrize("engine", ["undertow", "torch"])
@pytest.mark.parametrize(("name", "code", "lines"), list(programs()), ids=[name for name, _, _ in programs()])
def test_program(name: str, code: str, lines: list[str], engine: str, tmp_path: Path) -> None:
    script = tmp_path / f"{name}.py"
    script.write_text("\n".join(_MARK.sub("", line.removesuffix("#-")) for line in lines) + "\n")
    answer = server(engine).run(script)
    assert not answer["problems"]
    marks = {"finding": "", "note": "note:"}
    found = [(marks[finding["kind"]] + finding["code"], finding["line"]) for finding in answer["findings"]]
    if code == "healthy":
        assert found == [] and answer["error"] is None
        return
    marked = [number for number, line in enumerate(lines, 1) if _MARK.search(line)]
    assert {code for code, _ in found} == {code} and found[0][1] in marked, found
