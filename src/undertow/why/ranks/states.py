"""A rank, from its journal and its report: its calls, the call in which it waits, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from undertow.why.finding import Fact, Finding
from undertow.why.places import Place
from undertow.why.ranks.journal import read, report_of

Entry = dict[str, Any]


@dataclass
class Rank:
    """One rank of a run."""

    number: int
    entries: list[Entry]
    report: dict[str, Any] = field(default_factory=dict)
    ended_by: str = ""  # the signal that killed it

    @property
    def calls(self) -> list[Entry]:
        """Collectives in the order in which they were called; messages and passes through DDP are not among them."""
        return [one for one in self.entries if one["kind"] == "begin" and "agree" in one and "waits" not in one]

    def begun(self, group: str, number: int) -> Entry | None:
        """Return a collective or pass by its number, if it has begun."""
        for one in self.entries:
            if one["kind"] == "begin" and one["group"] == group and one["number"] == number:
                return one
        return None

    @property
    def waiting(self) -> Entry | None:
        """The call in which the rank waits: the last collective, message or pass that did not end or that lost a rank."""
        under_way: list[Entry] = []
        for one in self.entries:
            if one["kind"] == "begin":
                under_way.append(one)
            elif one["kind"] in ("end of call", "fail") and under_way:
                lost = one["kind"] == "fail" and one["lost"]
                same = [
                    known for known in under_way if known["group"] == one["group"] and known["number"] == one["number"]
                ]
                if same and not lost:
                    under_way.remove(same[-1])
        hard = [one for one in under_way if not one.get("soft")]
        known = hard or under_way
        return known[-1] if known else None

    @property
    def own_error(self) -> dict[str, Any] | None:
        """The exception that ended the program, unless it only says that another rank is gone."""
        error = self.report.get("error")
        return None if error is None or error["lost"] else error

    @property
    def is_over(self) -> bool:
        """Whether its program has ended by itself."""
        return bool(self.entries) and self.entries[-1]["kind"] == "end" and "where" not in self.report

    def last_call(self) -> Entry | None:
        """Return the last collective, message or pass through DistributedDataParallel."""
        calls = [one for one in self.entries if one["kind"] == "begin"]
        return calls[-1] if calls else None

    def whereabouts(self) -> Fact:
        """Return where the rank is, or how it ended."""
        if self.ended_by:
            return Fact(f"rank {self.number} was killed by {self.ended_by}{self._last()}", *self._last_line())
        error = self.own_error
        if error is not None:
            return Fact(f"rank {self.number} raised {error['type']}", error["file"], error["line"])
        waits = self.waiting
        if waits is not None:
            return Fact(f"rank {self.number} waits in {shown(waits)}", *line(waits))
        if self.is_over:
            return Fact(f"rank {self.number} has ended{self._last()}", *self._last_line())
        file, number = self.report.get("where") or (None, None)
        return Fact(f"rank {self.number} is here{self._last()}", file, number)

    def _last(self) -> str:
        last = self.last_call()
        return "; it has called no collective" if last is None else f"; its last one is {shown(last)}"

    def _last_line(self) -> tuple[str | None, int | None]:
        last = self.last_call()
        return (None, None) if last is None else line(last)


def read_ranks(folder: Path, numbers: list[int], killed: dict[int, str]) -> list[Rank]:
    """Return the ranks of a folder."""
    return [Rank(number, read(folder, number), report_of(folder, number), killed.get(number, "")) for number in numbers]


def shown(entry: Entry) -> str:
    """Return a collective as text."""
    if entry.get("soft"):
        return f"the {entry['op']}"
    return f"{entry['op']}({entry['what']})"


def line(entry: Entry) -> tuple[str | None, int | None]:
    """Return the file and line of an entry."""
    at = entry.get("at")
    return (None, None) if not at else (at[0][0], at[0][1])


def place_of(entry: Entry) -> Place | None:
    """Return an entry's line as a place."""
    file, number = line(entry)
    return None if file is None or number is None else Place(file, number, "", (None, None, None), None)


def said_by(rank: int, entry: Entry, text: str = "calls") -> Fact:
    """Return a rank's call, as a fact."""
    return Fact(f"rank {rank} {text} {shown(entry)}", *line(entry))


def same_on(ranks: list[int], finding: Finding) -> Finding:
    """Set the ranks of a finding, and return it."""
    finding.ranks = ranks
    return finding
