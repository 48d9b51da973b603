"""Mistakes that only a comparison of ranks shows: different collectives, absent ranks, parameters that differ."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from undertow.why.causes.base import Cause
from undertow.why.finding import Fact, Finding
from undertow.why.places import Place
from undertow.why.ranks.states import Entry, Rank, line, place_of, said_by, same_on, shown
from undertow.why.source import source

_SHAPES = ("dtype", "size")


class RankCause(Cause):
    """A mistake that the journals of several ranks show together."""

    def compare(self, ranks: list[Rank]) -> Iterable[Finding]:
        """Find this mistake in a run on several ranks."""
        return ()


def first_difference(ranks: list[Rank]) -> tuple[str, dict[int, Entry]] | None:
    """Return the first collective on which ranks differ: "op", "shape" or "order", and what each called."""
    found: list[tuple[int, str, list[tuple[Rank, Entry]]]] = []
    for group in dict.fromkeys(entry["group"] for rank in ranks for entry in rank.calls):
        columns = [[entry for entry in rank.calls if entry["group"] == group] for rank in ranks]
        for row in zip_longest(*columns):
            called = [(rank, entry) for rank, entry in zip(ranks, row) if entry is not None]
            kind = _difference([entry for _, entry in called])
            if kind:
                found.append((called[0][0].entries.index(called[0][1]), kind, called))
                break
    if not found:
        return None
    _, kind, called = min(found, key=lambda one: one[0])
    return kind, {rank.number: entry for rank, entry in called}


def _difference(entries: list[Entry]) -> str:
    if len({entry["op"] for entry in entries}) > 1:
        return "order" if _is_swapped(entries) else "op"
    keys = {key for entry in entries for key in entry["agree"]}
    different = [key for key in keys if len({entry["agree"].get(key) for entry in entries}) > 1]
    if not different:
        return ""
    if _is_swapped(entries):
        return "order"
    return "shape" if set(different) <= set(_SHAPES) else "op"


def _is_swapped(entries: list[Entry]) -> bool:
    """Whether two ranks call the same two collectives in opposite orders, as far as their source shows."""
    one, other = entries[0], next(entry for entry in entries if entry["agree"] != entries[0]["agree"] or
                                  entry["op"] != entries[0]["op"])  # fmt: skip
    if line(one) == line(other):
        return False
    here, there = _calls_after(one), _calls_after(other)
    return bool(here and there) and there[0] in here[1:] and here[0] in there[1:]


def _calls_after(entry: Entry) -> list[str]:
    """Return the call of an entry as source text, and the calls of statements that follow it in the same block."""
    file, number = line(entry)
    if file is None or number is None:
        return []
    for node in ast.walk(source(file).tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            for index, statement in enumerate(block if isinstance(block, list) else ()):
                if isinstance(statement, ast.Expr) and statement.lineno <= number <= (statement.end_lineno or 0):
                    following = [one for one in (block or ())[index:] if isinstance(one, ast.Expr)]
                    return [ast.unparse(one.value) for one in following if isinstance(one.value, ast.Call)]
    return []


class OtherCollective(RankCause):
    """Ranks call different collectives."""

    code = "other-collective"
    meaning = "at one point of a group's sequence, ranks call different collectives, roots or reductions"
    needs = "every rank's collectives, in order, with their lines"
    kind = "op"
    message = "The ranks of a group must call the same collectives in the same order, and here they differ."
    cure = "let every rank of the group call it"

    def compare(self, ranks: list[Rank]) -> Iterable[Finding]:
        found = first_difference(ranks)
        if found is None or found[0] != self.kind:
            return
        called = found[1]
        odd = _odd_one(called)
        first = called[odd]
        finding = Finding(
            self.code, place_of(first), shown(first), self.message,
            [
                said_by(number, entry, f"calls, as number {entry['number']} of the group,")
                for number, entry in called.items()
            ],
            self.cure, [place_of(entry) for entry in called.values()],
        )  # fmt: skip
        yield same_on(sorted(called), finding)


def _odd_one(called: dict[int, Entry]) -> int:
    """Return the rank whose call differs from most others; of two ranks, the one whose call is inside an `if`."""
    counts = {
        number: sum((other["op"], other["agree"]) == (entry["op"], entry["agree"]) for other in called.values())
        for number, entry in called.items()
    }
    few = min(counts.values())
    candidates = [number for number, count in counts.items() if count == few]
    return min(candidates, key=lambda number: (not _is_conditional(called[number]), number))


def _is_conditional(entry: Entry) -> bool:
    """Whether an entry's line, or that of a caller, is inside an `if`."""
    for file, number in entry.get("at") or ():
        for node in ast.walk(source(file).tree):
            if isinstance(node, ast.If) and node.body[0].lineno <= number <= (node.body[-1].end_lineno or 0):
                return True
    return False


class OtherShape(OtherCollective):
    """Ranks give a collective tensors of different sizes or dtypes."""

    code = "other-shape"
    meaning = "ranks give one collective tensors of different sizes or dtypes"
    kind = "shape"
    message = "All ranks call the same collective, with tensors of different sizes or dtypes."
    cure = "pad to a common size, or exchange the sizes first and use all_to_all_single or objects"


class OtherOrder(OtherCollective):
    """Ranks call two collectives in opposite orders."""

    code = "other-order"
    meaning = "ranks call the same collectives in different orders"
    kind = "order"
    message = "The ranks call the same collectives in different orders: each waits in one that the others call later."
    cure = "call collectives in one order on all ranks"


class _Absent(NamedTuple):
    """Ranks that never come to a call of another rank. `met`: a collective inside DistributedDataParallel met the call."""

    rank: Rank
    entry: Entry
    missing: list[Rank]
    met: bool = False


def _absent(ranks: list[Rank]) -> _Absent | None:
    """Return a rank's call that other ranks never make: one in which it waits, else one that ended all the same."""
    if any(rank.own_error is not None for rank in ranks) or first_difference(ranks) is not None:
        return None
    known = {rank.number: rank for rank in ranks}
    found = []
    for rank, entry in [(rank, entry) for rank in ranks if (entry := rank.waiting) is not None]:
        if "peers" in entry:
            missing = [known[peer] for peer in entry["peers"] if peer in known]
        else:
            missing = _missing(rank, entry, known)
        if missing and not any(_has_own_finding(other) for other in missing):
            found.append(_Absent(rank, entry, missing))
    if not found:
        passed = [_Absent(rank, entry, _missing(rank, entry, known), True) for rank in ranks for entry in rank.calls]
        return next((one for one in passed if one.missing and all(map(_is_stuck, one.missing))), None)
    # Prefer absent ranks that have ended or are elsewhere to those that wait, too; then the call that not all ranks reach.
    return min(
        found,
        key=lambda one: (
            all(other.waiting is not None for other in one.missing),
            bool(one.entry.get("soft")),
            not _is_conditional(one.entry),
        ),
    )


def _missing(rank: Rank, entry: Entry, known: dict[int, Rank]) -> list[Rank]:
    """Return the other ranks of a collective or pass that have not begun it."""
    others = [known[number] for number in entry["ranks"] if number in known and number != rank.number]
    return [other for other in others if other.begun(entry["group"], entry["number"]) is None]


def _is_stuck(rank: Rank) -> bool:
    """Whether a rank has ended or waits, so that it can't come to a further call."""
    return rank.is_over or rank.waiting is not None


def _has_own_finding(rank: Rank) -> bool:
    """Whether a rank's own finding explains why it is absent."""
    return any(finding["code"].startswith("ddp-") for finding in rank.report.get("findings", ()))


def _left_early(entry: Entry, missing: list[Rank]) -> Entry | None:
    """Return where an absent rank ran out of batches before the rank that waits; None if that is not why it is absent."""
    for rank in missing:
        loops = [one for one in rank.entries if one["kind"] == "loader"]
        if loops and 0 < loops[-1]["batches"] < entry["batch"]:
            return loops[-1]
    return None


class UnevenInputs(RankCause):
    """A rank has fewer batches than the others."""

    code = "uneven-inputs"
    meaning = "a rank has fewer batches, or makes fewer iterations, than another rank, which waits for it"
    needs = "batches and iterations of every rank, and what each waits in"

    def compare(self, ranks: list[Rank]) -> Iterable[Finding]:
        found = _absent(ranks)
        if found is None:
            return
        rank, entry, missing, _ = found
        loop = _left_early(entry, missing)
        short = missing[0]
        if loop is None and not _made_fewer(entry, short):
            return
        where = entry if loop is None else loop
        did = f"had {loop['batches']} batches" if loop is not None else "made fewer iterations"
        facts = [Fact(f"rank {short.number} {did}", *line(where)), said_by(rank.number, entry, "goes on, and waits in")]
        if loop is not None:
            facts.insert(1, Fact(f"rank {rank.number} has at least {entry['batch']}", *line(loop)))
        yield same_on(
            [one.number for one in missing],
            Finding(
                self.code, place_of(where), f"rank {short.number}",
                "One rank has no more batches while another goes on: what that one calls next waits for ever.",
                [*facts, short.whereabouts()],
                "a DistributedSampler with drop_last=True, or `with model.join():` around the loop", [place_of(entry)],
            ),
        )  # fmt: skip


def _made_fewer(entry: Entry, rank: Rank) -> bool:
    """Whether an absent rank has ended or left a loop, after going through the same line several times."""
    passed = [one for one in rank.entries if one["kind"] == "begin" and line(one) == line(entry)]
    return bool(passed) and rank.waiting is None and rank.is_over


class AbsentRank(RankCause):
    """A rank never calls a collective in which others wait."""

    code = "absent-rank"
    meaning = "ranks wait in a collective, a message or a DistributedDataParallel pass that another rank never reaches"
    needs = "what every rank has called, what it waits in, and where it is"

    def compare(self, ranks: list[Rank]) -> Iterable[Finding]:
        found = _absent(ranks)
        if found is None:
            return
        rank, entry, missing, met = found
        if _left_early(entry, missing) is not None or _made_fewer(entry, missing[0]):
            return
        who = ", ".join(f"rank {one.number}" for one in missing)
        facts = [said_by(rank.number, entry, "calls" if met else "waits in"), *(one.whereabouts() for one in missing)]
        message = f"Rank {rank.number} waits in {shown(entry)} for {who}, which never comes to it."
        if met:
            message = (
                f"Rank {rank.number} calls {shown(entry)}, which {who} never does. A collective of DistributedDataParallel "
                "met it, so the ranks have got out of step."
            )
        yield same_on(
            [one.number for one in missing],
            Finding(
                self.code, place_of(entry), who,
                message, facts,
                "let every rank of the group call it: no collective under `if rank == ...`, return or break",
                [Place(one.file, one.line, "", (None, None, None), None) for one in facts[1:]
                 if one.file is not None and one.line is not None],
            ),
        )  # fmt: skip


class RanksDiverged(RankCause):
    """A parameter that should be equal on all ranks is not."""

    code = "ranks-diverged"
    meaning = "a parameter that should be equal on all ranks differs between them after some line"
    needs = "checksums of parameters and gradients at each forward and step, and the lines that wrote them"

    def compare(self, ranks: list[Rank]) -> Iterable[Finding]:
        if first_difference(ranks) is not None:
            return
        keys = dict.fromkeys(one["of"] for rank in ranks for one in rank.entries if one["kind"] == "values")
        for key in keys:
            found = self._first(key, ranks)
            if found is not None:
                yield found
                return

    def _first(self, key: str, ranks: list[Rank]) -> Finding | None:
        looks = [[one for one in rank.entries if one["kind"] == "values" and one["of"] == key] for rank in ranks]
        looks = [column for column in looks if column]
        before: Entry | None = None
        for row in zip(*looks) if len(looks) > 1 else ():
            if len({(one["when"], tuple(line(one))) for one in row}) > 1:
                return None  # the ranks do different things
            for what in ("values", "gradients"):
                for index, numbers in enumerate(zip(*[one.get(what, ()) for one in row])):
                    if len(set(numbers)) > 1:
                        return self._finding(key, ranks, row, what, index, before)
            before = row[0]
        return None

    def _finding(
        self, key: str, ranks: list[Rank], row: tuple[Entry, ...], what: str, index: int, before: Entry | None
    ) -> Finding:
        names: list[str] = next((rank.report["names"].get(key, []) for rank in ranks if "names" in rank.report), [])
        name = names[index] if index < len(names) else f"parameter number {index}"
        column = "written" if what == "values" else "gradients written"
        lines = [one[column].get(str(index)) for one in row]
        writers = [(rank.number, known) for rank, known in zip(ranks, lines) if known is not None]
        different = min((one for one in writers if lines.count(one[1]) < len(row)), default=None)
        number, (op, at) = different or (writers[0] if writers else (0, ["", row[0]["at"]]))
        where: Entry = {"at": at or row[0]["at"], "op": op, "what": ""}
        by = "an optimizer's step writes it" if op == "step" else f"`{op}` writes it"
        wrote = Fact((f"rank {number}: " if different is not None else "") + by, *line(where))
        facts = [] if before is None else [Fact(f"all ranks had the same values {before['when']}", *line(before))]
        if what == "gradients":
            facts += [wrote] if writers else []
            facts.append(Fact(f"the gradient of {name} differs between ranks before this step", *line(row[0])))
            message = (
                "Its gradient differs between ranks when the optimizer steps, so the parameter differs afterwards."
            )
            cure = (
                "average the gradients (DistributedDataParallel, or dist.all_reduce), and change them the same way on "
                "all ranks"
            )
        elif before is None:
            message = "It has different values on the ranks from the beginning."
            cure = (
                "the same seed on all ranks before the model is made, or dist.broadcast(p.data, 0) for each parameter"
            )
        else:
            facts += [wrote] if writers else []
            message = "It had the same values on all ranks before this line, and different ones after it."
            cure = "compute the update from values that are equal on all ranks, or broadcast the result"
        facts.append(Fact(f"{name} differs between ranks {row[0]['when']}", *line(row[0])))
        return same_on([rank.number for rank in ranks], Finding(self.code, place_of(where), name, message, facts, cure))


RANK_CAUSES: tuple[RankCause, ...] = (
    OtherCollective(), OtherShape(), OtherOrder(), UnevenInputs(), AbsentRank(), RanksDiverged(),
)  # fmt: skip


def compared(ranks: list[Rank]) -> Iterator[Finding]:
    """Yield what a comparison of ranks finds."""
    for cause in RANK_CAUSES:
        yield from cause.compare(ranks)
