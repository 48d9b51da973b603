"""Findings: one per mistake, each with the evidence that led to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from undertow.why.places import Place


class Fact(NamedTuple):
    """One observation, and where it was made."""

    text: str
    file: str | None = None
    line: int | None = None

    def as_data(self) -> dict[str, Any]:
        return {"text": self.text, "file": self.file, "line": self.line}


class Finding:
    """One mistake: what it is, on which line, its subject, the evidence, and what to write instead.

    - code: one of the codes of `causes.CODES`
    - kind: "finding", or "note" if it is only probably a mistake; notes leave the exit status at 0
    - file, line: the statement that holds the cause; also_lines: other lines of that file that are part of it
    - subject: the tensor or hook concerned, as an expression of the program (`net.fc2.weight`) or `hook at line N`
    - subjects: every subject with this cause (`subject` is the first)
    - message: one or two sentences; evidence: the facts in order, for a lost gradient the path from the tensor to the
      place where it was cut; cure: code to write instead
    - ranks: in a run on several ranks, the ranks with this finding
    """

    __slots__ = (
        "also_lines", "code", "cure", "evidence", "file", "kind", "line", "message", "ranks", "subject", "subjects",
        "tensor", "world",
    )  # fmt: skip

    def __init__(
        self,
        code: str,
        place: Place | None,
        subject: str,
        message: str,
        evidence: list[Fact],
        cure: str,
        also: list[Place | None] | None = None,
        tensor: int | None = None,
        kind: str = "finding",
    ) -> None:
        self.code = code
        self.kind = kind
        self.file = None if place is None else place.file
        self.line = None if place is None else place.line
        self.subject = subject
        self.subjects = [subject]
        self.message = message
        self.evidence = evidence
        self.cure = cure
        self.ranks: list[int] | None = None  # in a run on several ranks: those with this finding
        self.world = 1
        self.tensor = tensor  # the id of the tensor's record in the trace
        lines = {other.line for other in (also or []) if other is not None and other.file == self.file}
        self.also_lines = sorted(lines - {self.line})

    def as_data(self) -> dict[str, Any]:
        """Return the finding as plain values, as `--json` prints them."""
        return {
            "code": self.code,
            "kind": self.kind,
            "file": self.file,
            "line": self.line,
            "also_lines": self.also_lines,
            "subject": self.subject,
            "subjects": self.subjects,
            "message": self.message,
            "evidence": [fact.as_data() for fact in self.evidence],
            "cure": self.cure,
        } | ({} if self.ranks is None else {"ranks": self.ranks})

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Finding:
        """Return the finding that `as_data` wrote."""
        finding = cls(
            data["code"], None, data["subject"], data["message"],
            [Fact(one["text"], one["file"], one["line"]) for one in data["evidence"]], data["cure"], kind=data["kind"],
        )  # fmt: skip
        finding.file, finding.line, finding.also_lines = data["file"], data["line"], data["also_lines"]
        finding.subjects = data["subjects"]
        return finding

    @property
    def shown_ranks(self) -> str:
        """The ranks as text: `on rank 1`, `on ranks 0 and 2`, `on all ranks`."""
        ranks = self.ranks or []
        if len(ranks) == self.world:
            return "on all ranks"
        if len(ranks) == 1:
            return f"on rank {ranks[0]}"
        return f"on ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"

    def __repr__(self) -> str:
        return f"{self.kind.capitalize()}({self.code!r}, line {self.line}, {self.subject!r})"

    @property
    def is_note(self) -> bool:
        """Whether this is a note: probably a mistake, but the program may be meant so."""
        return self.kind == "note"


def note(
    code: str, place: Place | None, subject: str, message: str, evidence: list[Fact], cure: str,
    also: list[Place | None] | None = None, tensor: int | None = None,
) -> Finding:  # fmt: skip
    """Return a note: a finding that leaves the exit status at 0."""
    return Finding(code, place, subject, message, evidence, cure, also, tensor, kind="note")


def count(findings: Iterable[Finding]) -> str:
    """Return the numbers of findings and of notes as text: `1 finding, 2 notes`."""
    kinds = Counter(finding.kind for finding in findings)
    parts = [f"{number} {kind}{'' if number == 1 else 's'}" for kind in ("finding", "note") if (number := kinds[kind])]
    return ", ".join(parts) or "no findings"


def fact(text: str, place: Place | None = None) -> Fact:
    """Return a fact with the place where it was observed."""
    return Fact(text) if place is None else Fact(text, place.file, place.line)
