"""One report for all ranks: their own findings, merged, and those of their comparison."""

from __future__ import annotations

from undertow.why.causes.across_ranks import compared
from undertow.why.finding import Fact, Finding
from undertow.why.places import Place
from undertow.why.ranks.states import Rank
from undertow.why.show import HEALTHY, Outcome
from undertow.why.trace import ErrorRecord

# After these, the ranks' parameters differ.
_MAKE_RANKS_DIVERGE = (
    "ddp-step-in-hook",
    "ddp-bypassed",
    "ddp-unused-parameter",
    "ddp-frozen-parameter",
    "no-sync-wrong-half",
)


def judge_ranks(ranks: list[Rank]) -> list[Finding]:
    """Return the findings of all ranks, then the notes, in the order of their lines; each names its ranks."""
    found = _own(ranks)
    explained = [one for one in found if one.code in _MAKE_RANKS_DIVERGE and not one.is_note]
    for finding in compared(ranks):
        if finding.code == "ranks-diverged" and explained:
            explained[0].evidence.append(_as_evidence(finding))
        else:
            found.append(finding)
    for finding in found:
        finding.world = len(ranks)
    return sorted(found, key=lambda one: (one.is_note, one.file or "", one.line or 0))


def _own(ranks: list[Rank]) -> list[Finding]:
    """Return the findings of single ranks; the same finding of several ranks is merged."""
    merged: dict[tuple[object, ...], Finding] = {}
    for rank in ranks:
        for data in rank.report.get("findings", ()):
            finding = merged.setdefault(
                (data["code"], data["kind"], data["file"], data["line"], data["subject"]), Finding.from_data(data)
            )
            finding.ranks = [*(finding.ranks or []), rank.number]
    return list(merged.values())


def _as_evidence(diverged: Finding) -> Fact:
    last = diverged.evidence[-1]
    return Fact(f"the first difference: {last.text}", last.file, last.line)


def outcome_of(ranks: list[Rank]) -> Outcome:
    """Return how the run ended: the first rank's exception, and one sentence if there are no findings."""
    failed = first_failed(ranks)
    error = None
    if failed is not None:
        told = failed.report["error"]
        place = None if told["file"] is None else Place(told["file"], told["line"], "", (None, None, None), None)
        error = ErrorRecord(0, told["type"], f"rank {failed.number}: {told['message']}", place)
    judged = any(rank.report.get("judged") for rank in ranks)
    killed = next((rank for rank in ranks if rank.ended_by), None)
    verdicts = {rank.report.get("verdict", "it ended without a report.") for rank in ranks}
    if killed is not None:
        text = f"No finding in what ran before rank {killed.number} was killed by {killed.ended_by}."
    elif verdicts == {HEALTHY}:
        text = f"{HEALTHY[:-1]}, on {len(ranks)} ranks."
    else:
        rank = failed or next(rank for rank in ranks if rank.report.get("verdict") != HEALTHY)
        text = f"Rank {rank.number}: {rank.report.get('verdict', 'it ended without a report.')}"
    return Outcome(error, judged, text)


def first_failed(ranks: list[Rank]) -> Rank | None:
    """Return the rank that raised first; one that only lost its peer comes after those that failed themselves."""
    failed = [rank for rank in ranks if rank.report.get("error")]
    return min(failed, key=lambda rank: (rank.report["error"]["lost"], rank.report["error"]["time"]), default=None)
