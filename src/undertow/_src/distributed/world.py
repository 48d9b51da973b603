"""This process among the ranks: which ranks run, letters between them, and a thread that watches waiting collectives.

NOTE liveness. JAX's own heartbeats end the process when one is missed, so they are off. A rank on the same machine is
looked up among its processes; a rank on a different machine writes signs of life to the store.

Each rank has a mailbox in the coordinator's store. A thread reads its letters: `where` asks for this rank's line,
`fault` reports a failure that another rank found. Four times a second, a second thread checks the collectives that have
started. If a rank has died or a deadline has passed, they fail with an error that names the rank and both lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from undertow._src.base import tracer
from undertow._src.base.sites import warn
from undertow._src.distributed import recorder
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.leaving import at_exit
from undertow._src.distributed.runtime import LocalRuntime, Runtime, StoreTimeout, Unreachable
from undertow._src.distributed.work import Lane, Work

_TICK = 0.25  # seconds between two checks of the started collectives
_ANSWER = 0.8  # seconds that a rank has to answer where it is
_BEAT = 2.0  # seconds between signs of life to other machines
_HEARTBEAT = 10.0  # seconds without one after which a rank on a different machine counts as dead
WAIT = "wait: "  # an answer of a rank that compiles, or computes a program's part of a call
GONE = "the coordinator is gone: the process that hosted it has ended"
_DYING = 1.5  # seconds in which the end of a process becomes visible after it closed its connections


class World:
    """The ranks that joined at one coordinator, and this process's threads."""

    def __init__(self, runtime: Runtime | LocalRuntime) -> None:
        self.runtime = runtime
        self.rank, self.size = runtime.rank, runtime.size
        self.lanes: list[Lane] = []
        self.cliques: dict[tuple[tuple[int, ...], int], tuple[Any, Lane]] = {}
        self.inboxes: dict[int, Any] = {}  # see messages.py
        self._peers: dict[int, tuple[str, int]] = {}
        self._beats: dict[int, tuple[bytes, float]] = {}  # of each rank: its last sign of life, and when it was read
        self._next_beat = 0.0
        self._is_remote: bool | None = None  # whether some ranks are on other machines; None until all have joined
        self._over = threading.Event()
        self._told: set[str] = set()  # groups whose fault the ranks already know
        self._asked = 0
        runtime.set(f"peer/{self.rank}", json.dumps([runtime.hostname, os.getpid()]).encode())
        self._threads = [
            threading.Thread(target=body, name=f"undertow {body.__name__}", daemon=True)
            for body in ((self._read_mail, self._watch) if self.size > 1 else ())
        ]
        for thread in self._threads:
            thread.start()
        runtime.on_loss = self._lose  # a thread that asks the coordinator while it ends waits for ever
        at_exit(self.leave, self._is_busy)

    def lane(self, ranks: tuple[int, ...], channel: int) -> tuple[Any, Lane]:
        """Return the clique of some ranks on a channel, and its thread."""
        key = (ranks, channel)
        found = self.cliques.get(key)
        if found is None:
            lane = Lane(f"ranks {list(ranks)}", self.explain)
            found = self.cliques[key] = (self.runtime.clique(ranks, channel), lane)
            self.lanes.append(lane)
        return found

    def leave(self) -> None:
        """Tell the other ranks that this one leaves, and end this world's threads."""
        if self._over.is_set():
            return
        self._over.set()
        error = getattr(sys, "last_value", None)
        why = "left the group" if error is None else f"ended with {type(error).__name__}: {error}"
        with contextlib.suppress(Unreachable):
            self.runtime.set(f"left/{self.rank}", why.encode())
            if self._threads:
                self.post(self.rank, {"over": True})
        for thread in self._threads:
            thread.join(_ANSWER)

    def _is_busy(self) -> bool:
        """Whether a thread of this world is, or may be, inside JAX."""
        return any(lane.current is not None for lane in self.lanes) or any(
            map(threading.Thread.is_alive, self._threads)
        )

    # --- other ranks

    def peer(self, rank: int) -> tuple[str, int] | None:
        """Return a rank's host and process id, or None before the rank has stored them."""
        if rank not in self._peers:
            found = self.runtime.find(f"peer/{rank}")
            if found is None:
                return None
            host, process = json.loads(found)
            self._peers[rank] = (host, process)
        return self._peers[rank]

    def dead(self, ranks: Iterable[int]) -> dict[int, str]:
        """Return the ranks that have ended, each with the known reason."""
        found = {}
        for rank in ranks:
            if rank == self.rank:
                continue
            peer = self.peer(rank)
            if peer is not None and not self._is_alive(rank, *peer):
                why = self.runtime.find(f"left/{rank}")
                found[rank] = f"rank {rank} (process {peer[1]}) " + (
                    why.decode() if why else "died: it was killed or crashed"
                )
        return found

    def _is_alive(self, rank: int, host: str, process: int) -> bool:
        """Whether a rank's process runs: looked up on this machine, judged by signs of life on others."""
        if host == self.runtime.hostname:
            return _is_running(process)
        return rank not in self._beats or time.monotonic() - self._beats[rank][1] < _HEARTBEAT

    def gone(self, ranks: Iterable[int]) -> dict[int, str]:
        """Return the ranks that have ended or left, on any host."""
        found = self.dead(ranks)
        for rank in ranks:
            if rank != self.rank and rank not in found:
                why = self.runtime.find(f"left/{rank}")
                if why is not None:
                    found[rank] = f"rank {rank} {why.decode()}"
        return found

    def ask(self, ranks: Iterable[int], work: Work | None = None) -> dict[int, str]:
        """Ask ranks where they are, and return their answers; an answer that asks this rank to wait begins with WAIT.

        `work`: the call in which this rank waits.
        """
        self._asked += 1
        call = None if work is None or work.call is None else [work.call.group, work.call.number]
        keys = {rank: f"answer/{self.rank}/{self._asked}/{rank}" for rank in ranks if rank != self.rank}
        for rank, key in keys.items():
            self.post(rank, {"where": key, "call": call})
        answers, end = {}, time.monotonic() + _ANSWER
        for rank, key in keys.items():
            try:
                answers[rank] = self.runtime.get(key, max(0.05, end - time.monotonic())).decode()
            except StoreTimeout:
                answers[rank] = "does not answer"
        return answers

    def post(self, rank: int, letter: dict[str, Any]) -> None:
        """Put a letter into a rank's mailbox."""
        number = self.runtime.add(f"mail/{rank}/count", 1)
        self.runtime.set(f"mail/{rank}/{number}", json.dumps(letter).encode())

    def _read_mail(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            try:
                letter = json.loads(self.runtime.get(f"mail/{self.rank}/{number}"))
                if "where" in letter:
                    self.runtime.set(letter["where"], self._whereabouts(letter["call"]).encode())
                elif "fault" in letter:
                    self._told.add(letter["group"])
                    for lane in self.lanes:
                        if letter["for_good"] and letter["group"] in lane.groups:
                            lane.fail(lost(letter["fault"]))
                        elif lane.current is not None and lane.current.call is not None:
                            if lane.current.call.group == letter["group"]:
                                lane.fail(lost(letter["fault"]))
            except (Unreachable, StoreTimeout):
                return

    def _whereabouts(self, call: list[Any] | None) -> str:
        """Return where this rank is, for a rank that waits for it in a call."""
        if tracer.compiling:
            return f"{WAIT}compiles {tracer.compiling}"
        for lane in self.lanes:
            work = lane.current
            if work is not None and work.computes and work.call is not None and [*work.call[:2]] == call:
                in_hook = recorder.runs_user_code(lane.thread)
                return recorder.whereabouts(lane.thread) if in_hook else f"{WAIT}computes {work.call}"
        return recorder.whereabouts()

    # --- faults

    def _watch(self) -> None:
        while not self._over.wait(_TICK):
            try:
                self._beat()
                for lane in self.lanes:
                    self._check(lane)
            except Unreachable as error:
                self._lose(str(error))
                if self.runtime.lost.is_set():
                    return

    def _lose(self, why: str = GONE) -> None:
        """Fail all collectives: the coordinator does not answer."""
        if not self._over.is_set():
            for lane in self.lanes:
                work = lane.current
                lane.fail(lost(f"{why}: no collective is possible" if work is None else f"{_during(work)}: {why}"))

    def _check(self, lane: Lane) -> None:
        """Fail a lane's current collective if a rank has died or the deadline has passed."""
        work = lane.current
        if work is None or lane.broken is not None:
            return
        dead = self.dead(work.peers)
        if dead and lane.current is work:
            time.sleep(_TICK)  # the lane may find the error itself, or be about to end
        if lane.current is not work:
            return
        if dead:
            self._fail(lane, work, "; ".join(dead.values()))
        elif work.is_overdue():
            self._overdue(lane, work)

    def _beat(self) -> None:
        """Write a sign of life for ranks on other machines, and read theirs."""
        if self.runtime.lost.is_set():
            raise Unreachable(GONE)
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + _BEAT
        if self._is_remote is None:
            peers = [self.peer(rank) for rank in range(self.size)]
            if None in peers:
                return
            self._is_remote = any(peer is not None and peer[0] != self.runtime.hostname for peer in peers)
        if self._is_remote:
            self.runtime.add(f"beat/{self.rank}", 1)
            for key, beat in self.runtime.below("beat").items():
                rank = int(key.rpartition("/")[2])
                if self._beats.get(rank, (b"", 0.0))[0] != beat:
                    self._beats[rank] = (beat, now)

    def _overdue(self, lane: Lane, work: Work) -> None:
        """Fail a collective whose deadline has passed, and report where other ranks are; wait for a rank that compiles."""
        if work.computes and recorder.runs_user_code(lane.thread):
            work.deadline = time.monotonic() + 1.0  # this rank waits for no other
            return
        answers = self.ask(work.peers, work)
        lines = [f"  rank {rank} {answer.removeprefix(WAIT)}" for rank, answer in answers.items()]
        if not any(answer.startswith(WAIT) for answer in answers.values()):
            self._fail(lane, work, "\n".join([f"timed out after {work.timeout:g} s", *lines]))
            return
        if not work.was_excused:
            work.was_excused = True
            warn("\n".join([f"{work.call} goes on waiting after {work.timeout:g} s:", *lines]))
        work.deadline = time.monotonic() + 1.0

    def explain(self, work: Work, error: BaseException) -> BaseException:
        """Return the error for a job that failed inside JAX; it names the rank that has ended, if one has."""
        if isinstance(error, DistBackendError):
            return error
        end = time.monotonic() + _DYING
        gone: dict[int, str] = {}
        try:
            while not gone and time.monotonic() < end:
                gone = self.dead(work.peers)
                if not gone:
                    time.sleep(0.05)
            gone = gone or self.gone(work.peers)
            reason = "; ".join(gone.values()) or (str(error).splitlines() or [type(error).__name__])[0]
            fault = self._fault(work, reason)
            fault.__cause__ = error
            return fault
        except Unreachable as unreachable:
            return lost(f"{_during(work)}: {unreachable}")

    def _fail(self, lane: Lane, work: Work, reason: str) -> None:
        lane.fail(self._fault(work, reason))

    def _fault(self, work: Work, reason: str) -> DistBackendError:
        """Return an error, and send it to the group's other ranks, unless it came from one of them."""
        if work.call is not None and work.call.group not in self._told:
            self._told.add(work.call.group)
            self._tell(work.peers, work.call.group, f"rank {self.rank} failed in {work.call}: {reason}")
        return lost(f"{_during(work)}: {reason}")

    def _tell(self, ranks: Iterable[int], group: str, fault: str, for_good: bool = False) -> None:
        for rank in ranks:
            if rank != self.rank:
                with contextlib.suppress(Unreachable):
                    self.post(rank, {"fault": fault, "group": group, "for_good": for_good})

    def abandon(self, lane: Lane, ranks: Iterable[int], group: str, reason: str) -> None:
        """End a group's communication: this rank has left a step that the others have completed."""
        fault = f"rank {self.rank} {reason}"
        self._tell(ranks, group, fault, for_good=True)
        lane.fail(lost(fault))


def lost(text: str) -> DistBackendError:
    """Return the error for a collective that failed because of another rank or the coordinator."""
    error = DistBackendError(text)
    error.lost_peer = True
    return error


def _during(work: Work) -> str:
    return f"{work.call} failed" if work.call is not None else "a message failed"


def _is_running(process: int) -> bool:
    """Whether a process of this machine runs; a zombie process does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        pass
    if os.path.isdir("/proc/self"):
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
