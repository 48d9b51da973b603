"""Process groups: the ranks in them, and the exchange with which each of their collectives begins.

NOTE exchange. Every collective begins with the same program: each rank sends a block of fixed size, and gets those of
all ranks. A block describes the rank's call (number, op, dtype, size, line), and has the data if they are small. So
if the calls differ, all ranks know, and raise the same error before a program runs that would hang or abort. Only data
that do not fit need a second program.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.distributed import recorder
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.recorder import Call
from undertow._src.distributed.work import Refused, Work
from undertow._src.distributed.world import World

Array = np.ndarray[Any, Any]
HEAD = 1024  # bytes of a block that describe the call
SMALL = 3072  # bytes of data in a block
_LONGEST = 250  # characters of each description in it


class ProcessGroup:
    """Ranks that communicate with each other."""

    __module__ = "torch.distributed.distributed_c10d"

    def __init__(
        self, world: World, ranks: Sequence[int], name: str, timeout: float, channel: int, description: str = ""
    ) -> None:
        self.world = world
        self.ranks = tuple(ranks)
        self.group_name = name
        self.group_desc = description
        self.timeout = timeout
        self.bound_device_id = None
        self.left = ""  # how this rank has left a compiled step since its last collective
        self._number = 0
        self._block = np.zeros(HEAD + SMALL, np.uint8)
        self._channel = channel
        self.clique, self.lane = world.lane(self.ranks, channel)
        self.lane.groups.append(name)

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return self.ranks.index(self.world.rank)

    def size(self) -> int:
        """Return how many ranks are in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the backend's name."""
        return "gloo"

    def _get_backend_name(self) -> str:
        return "gloo"

    def local_rank_of(self, rank: int) -> int:
        """Return the rank in the group of a global rank."""
        return self.ranks.index(rank)

    def start(
        self, op: str, detail: str, what: str, run: Callable[[Call], Any], timeout: float | None = None, site: str = ""
    ) -> Work:
        """Begin a collective. The group's thread calls `run`, its body. `site`: its line, unless it is the current one."""
        left, self.left = self.left, ""
        if left:
            detail, run = f"{detail}, {left}", self._after_error(run, left)
        call = recorder.record(self.group_name, self._number, op, short(detail), what, site or recorder.user_line())
        work = self.lane.submit(Work(call, lambda: run(call), timeout or self.timeout, self.ranks))
        self._number += 1
        return work

    def _after_error(self, run: Callable[[Call], Any], left: str) -> Callable[[Call], Any]:
        """Return the body of a collective that ends the group unless all ranks have left the same step."""

        def checked(call: Call) -> Any:
            try:
                return run(call)
            except Refused:
                self.world.abandon(self.lane, self.ranks, self.group_name, f"went on {left}")
                raise

        return checked

    def exchange(self, call: Call, data: Array | bytes | None = None) -> tuple[list[int], Array]:
        """Exchange the description of a collective with the other ranks; raise if they differ.

        Return the number of bytes that each rank has, and the blocks' data: one row for each rank, which has all of them
        only if they are at most SMALL.
        """
        count = 0 if data is None else len(data)
        block = self._block
        head = _head(call, count)
        block[: len(head)] = np.frombuffer(head, np.uint8)
        if 0 < count <= SMALL:
            block[HEAD : HEAD + count] = np.frombuffer(data, np.uint8)  # type: ignore[arg-type]
        blocks = self.clique.gather(block)
        heads = [marshal.loads(row[:HEAD].tobytes()) for row in blocks]
        if any(head[:4] != heads[0][:4] for head in heads):
            raise Refused(self._disagreement(heads))
        return [head[4] for head in heads], blocks[:, HEAD:]

    def _disagreement(self, heads: list[Any]) -> DistBackendError:
        """Return the error for ranks that call different collectives; it is the same on all ranks."""
        calls = [f"rank {self.ranks[n]}: {_shown(head)}" for n, head in enumerate(heads)]
        same = len({head[2] for head in heads}) == 1
        kind = f"{heads[0][2]} with different arguments" if same else "different collectives"
        error = DistBackendError(f"the ranks of the group called {kind}:\n  " + "\n  ".join(calls))
        error.details = [head[3] for head in heads]
        return error


def _head(call: Call, count: int) -> bytes:
    return marshal.dumps((call.group, call.number, call.op, call.detail, count, short(call.what), short(call.site)))


def short(text: str) -> str:
    """Return the last characters of a description, in ASCII."""
    return text.encode("ascii", "backslashreplace").decode()[-_LONGEST:]


def _shown(head: Any) -> str:
    _, number, op, detail, _, what, site = head
    extra = f" [{detail}]" if detail else ""
    return f"{op}({what}){extra}, its collective number {number}, at {site}"
