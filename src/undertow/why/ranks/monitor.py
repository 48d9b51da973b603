"""Read the journals of a run's ranks, and detect when ranks wait for each other for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

from undertow.why.ranks.journal import read
from undertow.why.ranks.states import Entry, Rank

STILL = 3.0  # seconds without progress after which ranks that can't go on are taken to hang
_MEASURED = 1.0  # seconds over which the use of processors is measured
_BUSY = 0.3  # the share of a processor above which a rank computes, and does not wait
DEFAULT_PATIENCE = 300.0  # seconds that a rank may wait for one that is busy elsewhere
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Monitor:
    """Decides from journals whether ranks hang."""

    def __init__(self, folder: Path, numbers: list[int], patience: float, still: float = STILL) -> None:
        self.folder, self.numbers, self.patience, self.still = folder, numbers, patience, still
        self._sizes: tuple[int, ...] = ()
        self._since = time.monotonic()
        self._begun: dict[int, float] = {}  # processor seconds of each process when it last made progress
        self._ranks: list[Rank] = []

    def hangs(self, over: set[int]) -> bool:
        """Whether the ranks wait for ever, or longer than the patience. over: those that have ended."""
        sizes = tuple([self._size(number) for number in self.numbers])
        if sizes != self._sizes:
            self._sizes, self._since = sizes, time.monotonic()
            self._ranks = []
            return False
        still = time.monotonic() - self._since
        if still < self.still:
            return False
        if not self._ranks:
            self._ranks = [Rank(number, read(self.folder, number)) for number in self.numbers]
            self._begun = {rank.number: _seconds(rank) for rank in self._ranks}
            self._since_read = time.monotonic()
            return False
        passed = time.monotonic() - self._since_read
        if passed < min(_MEASURED, self.still):
            return False
        waiting = {rank.number: rank.waiting for rank in self._ranks if rank.number not in over}
        blocked = [entry for entry in waiting.values() if entry is not None]
        if not blocked:
            return False
        if still > self.patience:
            return True
        if len(blocked) < len(waiting) or all(_is_met(entry, self._ranks, waiting) for entry in blocked):
            return False
        used = [_seconds(rank) - self._begun[rank.number] for rank in self._ranks if rank.number in waiting]
        if max(used) > _BUSY * passed:
            self._ranks = []  # one of them computes: check again later
            return False
        return True

    def _size(self, number: int) -> int:
        try:
            return (self.folder / f"{number}.journal").stat().st_size
        except OSError:
            return 0


def _is_met(entry: Entry, ranks: list[Rank], waiting: dict[int, Entry | None]) -> bool:
    """Whether all ranks of a collective are in it, so that it will end."""
    if "peers" in entry:
        return False
    known = {rank.number for rank in ranks}
    here = [waiting.get(number) for number in entry["ranks"] if number in known]
    return all(
        other is not None
        and (other["group"], other["number"], other["op"]) == (entry["group"], entry["number"], entry["op"])
        for other in here
    )


def _seconds(rank: Rank) -> float:
    """Return the processor time of a rank's process."""
    process = rank.entries[0]["process"] if rank.entries else 0
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
