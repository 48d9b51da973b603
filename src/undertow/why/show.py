"""Print findings: each with its source line, the evidence, and what to write instead."""

from __future__ import annotations

import linecache
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from undertow.why.finding import Fact, Finding, count
from undertow.why.report import Report, Table, rich_console
from undertow.why.trace import ErrorRecord, Trace

AROUND = 1  # lines shown before and after the line of the finding
WIDTH = 100  # the maximum; a narrower terminal has less
# The parts of a finding, and their styles on a terminal with colours.
STYLES = {
    "head": "bold red", "note": "bold yellow", "subject": "bold", "place": "cyan", "code": "dim", "arrow": "bold",
    "message": "", "label": "bold", "fact": "", "cure": "green", "healthy": "green", "space": "",
}  # fmt: skip

HEALTHY = "Nothing is wrong with the gradients and hooks of this program."

Line = list[tuple[str, str]]  # (part, text) pieces


def verdict(trace: Trace) -> str:
    """Return one sentence about a run without findings."""
    if not trace.ops:
        return "No finding: the program computed nothing with tensors."
    if trace.error is not None:
        return "No finding in what ran before the program raised."
    if trace.later is not None:
        more = max(0, trace.later.steps - trace.later.whole)
        return (
            f"No finding in {trace.later.whole} steps; in {more} more, gradients were looked at for NaN and Inf only."
        )
    if not trace.complete:
        return f"No finding in the first {len(trace.ops)} operations; what came after them was not watched."
    if not was_judged(trace):
        return "Nothing was judged: the program ran no backward pass."
    return HEALTHY


def was_judged(trace: Trace) -> bool:
    """Whether there was anything to judge: a backward pass, finished or not."""
    return bool(trace.backwards)


class Outcome(NamedTuple):
    """How a run ended, for reports."""

    error: ErrorRecord | None
    judged: bool
    verdict: str  # what to say if there are no findings


def outcome(trace: Trace) -> Outcome:
    """Return how a run ended."""
    return Outcome(trace.error, was_judged(trace), verdict(trace))


def show(findings: Sequence[Finding], file: Any = None, color: bool | None = None, otherwise: str = HEALTHY) -> None:
    """Print findings, in colour where rich is installed and the file is a terminal (or `color=True`).

    otherwise: what to print if there are none.
    """
    out = sys.stdout if file is None else file
    console = rich_console(out, color)
    width = _width(out)
    if console is None:
        print(text(findings, width, otherwise), file=out)
        return
    from rich.text import Text

    for line in lines(findings, width, otherwise):
        console.print(Text.assemble(*[(piece, STYLES[part]) for part, piece in line]), soft_wrap=True)


def _width(out: Any) -> int:
    """Return the maximum line width: the terminal's, but at most WIDTH."""
    try:
        is_terminal = out.isatty()
    except (AttributeError, ValueError):
        is_terminal = False
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if is_terminal else WIDTH


def text(findings: Sequence[Finding], width: int = WIDTH, otherwise: str = HEALTHY) -> str:
    """Return the findings as plain text."""
    return "\n".join("".join(piece for _, piece in line).rstrip() for line in lines(findings, width, otherwise))


def lines(findings: Sequence[Finding], width: int = WIDTH, otherwise: str = HEALTHY) -> Iterator[Line]:
    """Yield the lines to print, each as a list of (part, text) pieces."""
    if not findings:
        yield [("healthy" if otherwise == HEALTHY else "label", otherwise)]
        return
    for number, finding in enumerate(findings):
        if number:
            yield []
        yield from _one(finding, width)
    yield []
    yield [("label", count(findings))]


def _one(finding: Finding, width: int) -> Iterator[Line]:
    head = ("note", f"note: {finding.code}") if finding.is_note else ("head", finding.code)
    on = (
        [("space", "  "), ("place", finding.shown_ranks)]
        if finding.ranks is not None and not finding.subject.startswith("rank ")
        else []
    )
    yield [head, ("space", "  "), ("subject", finding.subject), *on]
    others = [subject for subject in finding.subjects if subject != finding.subject]
    if others:
        named = ", ".join(others[:4]) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
        for part in textwrap.wrap(f"and so for {named}", width - 2, break_long_words=False):
            yield [("space", "  "), ("fact", part)]
    if finding.file is not None and finding.line is not None:
        yield [("space", "  "), ("place", f"{_short(finding.file)}:{finding.line}")]
        yield from _source(finding.file, finding.line, width)
    for part in textwrap.wrap(finding.message, width - 2, break_long_words=False):
        yield [("space", "  "), ("message", part)]
    if finding.evidence:
        yield [("label", "  how it is known")]
        for number, fact in enumerate(finding.evidence, 1):
            yield from _fact(number, fact, finding, width)
    if finding.cure:
        yield [("label", "  write instead")]
        for line in finding.cure.splitlines():
            for part in textwrap.wrap(line, width - 4, break_long_words=False, replace_whitespace=False) or [""]:
                yield [("space", "    "), ("cure", part)]


def _source(file: str, line: int, wide: int) -> Iterator[Line]:
    """Yield the line of the finding, marked with an arrow, between its neighbours."""
    if not linecache.getline(file, line):
        return
    numbers = [n for n in range(max(1, line - AROUND), line + AROUND + 1) if linecache.getline(file, n)]
    width = len(str(numbers[-1]))
    for number in numbers:
        code = linecache.getline(file, number).rstrip()
        room = max(20, wide - width - 7)
        code = code if len(code) <= room else code[: room - 1] + "…"
        meant = number == line
        if not code.strip() and not meant:
            continue
        mark, part = ("→", "arrow") if meant else (" ", "code")
        yield [("arrow", f"  {mark} "), (part, f"{number:>{width}} │ {code}")]


def _fact(number: int, fact: Fact, finding: Finding, width: int) -> Iterator[Line]:
    place = ""
    if fact.line is not None and fact.file is not None:
        place = f"line {fact.line}" if fact.file == finding.file else f"{_short(fact.file)}:{fact.line}"
    wrapped = textwrap.wrap(fact.text, width - 7, break_long_words=False) or [""]
    for nth, part in enumerate(wrapped):
        lead = f"    {number}. " if nth == 0 else "       "
        pieces: Line = [("space", lead), ("fact", part)]
        last = nth == len(wrapped) - 1
        if place and last and len(part) + len(place) + 9 <= width:
            pieces += [("space", "  "), ("place", place)]
            place = ""
        yield pieces
    if place:
        yield [("space", "       "), ("place", place)]


def _short(file: str) -> str:
    """Return a path relative to the working directory, if that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return relative if len(relative) < len(file) else file


class Findings(Report):
    """Findings as a report: text as `show` prints it, and a table in a notebook."""

    def __init__(self, findings: Sequence[Finding], otherwise: str = HEALTHY) -> None:
        self.findings = list(findings)
        self.otherwise = otherwise  # what to say if there are none

    def title(self) -> str:
        return count(self.findings)

    def tables(self) -> list[Table]:
        columns = ("kind", "code", "line", "subject", "message", "cure")
        rows: list[tuple[Any, ...]] = [(f.kind, f.code, f.line, f.subject, f.message, f.cure) for f in self.findings]
        return [Table(columns, rows)] if rows else []

    def data(self) -> dict[str, Any]:
        return {"title": self.title(), "findings": [finding.as_data() for finding in self.findings]}

    def show(self) -> None:
        show(self.findings, otherwise=self.otherwise)

    def __str__(self) -> str:
        return text(self.findings, otherwise=self.otherwise)

    __repr__ = __str__

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)
