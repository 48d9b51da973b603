"""Compiled steps whose collectives are part of the XLA program.

JAX lowers the step for one device. The module is then compiled as one of several replicas on the devices of
a group's ranks, which XLA's collectives connect. Ranks need not have equal modules, only equal collectives in an
equal order.

A call begins with the group's exchange, which has a fingerprint of the program's collectives: if ranks run different
programs, all of them know before any can hang. The program runs in the group's thread, so that a rank that is
killed or absent is found as in eager mode, and this process goes on with an error. Arguments are never donated, so the
parameters are still there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.distributed import collectives
from undertow._src.distributed.errors import DifferentPrograms, DistBackendError
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.recorder import Call
from undertow._src.distributed.world import lost

MARK = "; of program "


class RankProgram:
    """A jitted step, compiled for the ranks of a group."""

    def __init__(self, group: ProcessGroup, calls: Sequence[str], jitted: Any, options: dict[str, Any]) -> None:
        self._group, self._calls, self._jitted, self._options = group, list(calls), jitted, options
        first, _, self._site = self._calls[0].rpartition(" at ")
        self._what = first.partition(" [")[0] + (f" and {len(calls) - 1} more" if len(calls) > 1 else "")
        self._detail = MARK + fingerprint(self._calls)
        self._execute: Callable[[Sequence[Any]], list[Any]] | None = None

    def __call__(self, *values: Any) -> list[Any]:
        """Run the program together with the other ranks."""
        group = self._group
        if self._execute is None:
            self._execute = group.clique.compile(self._jitted, values, self._options)
        execute = self._execute

        def run(call: Call) -> list[Any]:
            group.exchange(call)
            if group.lane.current is not None:
                group.lane.current.computes = True
            return execute(values)

        try:
            return group.start("compiled step", self._detail, self._what, run, site=self._site).result()
        except DistBackendError as error:
            refuse_different(group, error, self._calls, self._site)
            raise

    def report(self, error: BaseException | None) -> None:
        """Exchange the errors of hooks, before any rank changes its tensors. Raise if only other ranks have one."""
        group, mine = self._group, "" if error is None else f"{type(error).__name__}: {error}"
        texts = group.start(
            "all_gather", "errors", "the errors of hooks",
            lambda call: collectives.gather_bytes(group, call, mine.encode()), site=self._site,
        ).result()  # fmt: skip
        if error is None:
            failed = [
                f"rank {rank} raised {text.decode()}" for rank, text in zip(group.ranks, texts, strict=True) if text
            ]
            raise lost(f"compiled step({self._what}) at {self._site} failed: {'; '.join(failed)}")


class Agreement:
    """Whether the ranks' programs have guessed the branches on values right, in the current call.

    A collective can't be repeated by one rank alone. So if a guess was wrong on any rank, all ranks repeat the call: this
    one with another program, the others with the same.
    """

    def __init__(self, group: ProcessGroup, site: str, guesses_before: int) -> None:
        self._group, self._site = group, site
        self.guesses_before = guesses_before  # the first collective
        self._is_broken = False

    def begin(self) -> None:
        """Begin a call of the program."""
        self._is_broken = False

    def holds(self, is_right: bool) -> bool:
        """Return whether all ranks' guesses are right so far; all ranks call it at the same places."""
        if not self._is_broken:
            group, mine = self._group, b"1" if is_right else b"0"
            found = group.start(
                "all_gather", "branches", "the outcomes of branches on values",
                lambda call: collectives.gather_bytes(group, call, mine), site=self._site,
            ).result()  # fmt: skip
            self._is_broken = b"0" in found
        return not self._is_broken


def note_error(group: ProcessGroup, site: str, error: BaseException) -> None:
    """Record that this rank has left a step after its communication. The next collective fails unless all ranks have."""
    group.left = f"after a compiled step at {site} raised {type(error).__name__}"


def fingerprint(calls: Sequence[str]) -> str:
    """Return a digest of collectives, without their lines."""
    text = "\n".join([call.rpartition(" at ")[0] for call in calls])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def refuse_different(group: ProcessGroup, error: DistBackendError, calls: Sequence[str], site: str) -> None:
    """Raise DifferentPrograms if all ranks disagreed at the beginning of a program."""
    if not error.details or not all(MARK in each for each in error.details):
        return
    mine = json.dumps([*calls]).encode()
    everywhere = group.start(
        "all_gather", "programs", "the collectives of a program",
        lambda call: collectives.gather_bytes(group, call, mine), site=site,
    ).result()  # fmt: skip
    raise DifferentPrograms(_difference(group.ranks, [json.loads(each) for each in everywhere]))


def _difference(ranks: Sequence[int], programs: list[list[str]]) -> str:
    """Return a message that names the first collective that differs."""
    longest = max(map(len, programs))
    padded = [program + ["no collective"] * (longest - len(program)) for program in programs]
    for number, row in enumerate(zip(*padded, strict=True)):
        if len({call.rpartition(" at ")[0] for call in row}) > 1:
            lines = [f"\n  rank {rank}: {call}" for rank, call in zip(ranks, row, strict=True)]
            return f"the ranks run different programs. Collective {number + 1} of a call is" + "".join(lines)
    return "the ranks run different programs"
