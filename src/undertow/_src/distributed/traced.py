"""Collectives in a step that is compiled: the program calls back to the host, which communicates as eager mode does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base import tracer
from undertow._src.distributed import collectives, recorder
from undertow._src.distributed.arguments import put
from undertow._src.distributed.errors import DifferentPrograms, DistBackendError
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.work import Done, Work

_MARK = "; of program "

Compute = Callable[[Any, list[Any]], Sequence[Any]]


def traced(
    group: ProcessGroup, op: str, detail: str, what: str, given: Sequence[Any], outputs: Sequence[Any], async_op: bool,
    compute: Compute,
) -> Work | None:  # fmt: skip
    """Make a collective part of the program: `compute(call, values)` returns the arrays for `outputs`."""
    trace = tracer.running()
    trace.adopt([*given, *outputs])
    site = recorder.user_line()
    found = trace.collectives.emit(
        f"{op}({what}) [{detail}] at {site}",
        lambda number, calls, values: _run(group, op, detail, what, site, compute, number, calls, values),
        [tensor._array for tensor in given],
        [tensor._array for tensor in outputs],
    )
    for tensor, value in zip(outputs, found, strict=True):
        put(tensor, value)
    return Done(list(outputs)) if async_op else None


def _run(
    group: ProcessGroup, op: str, detail: str, what: str, site: str, compute: Compute, number: int, calls: list[str],
    values: list[Any],
) -> Sequence[Any]:  # fmt: skip
    """Communicate while the program waits. The first collective of a call compares the ranks' programs."""
    if number == 0:
        detail += _MARK + _fingerprint(calls)
    try:
        return group.start(op, detail, what, lambda call: compute(call, values), site=site).result()
    except DistBackendError as error:
        if number or not error.details or not all(_MARK in each for each in error.details):
            raise
    mine = json.dumps(calls).encode()
    everywhere = group.start(
        "all_gather", "programs", "the collectives of a program",
        lambda call: collectives.gather_bytes(group, call, mine), site=site,
    ).result()  # fmt: skip
    raise DifferentPrograms(_difference(group.ranks, [json.loads(each) for each in everywhere]))


def _fingerprint(calls: list[str]) -> str:
    """Return a digest of collectives, without their lines."""
    text = "\n".join([call.rpartition(" at ")[0] for call in calls])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _difference(ranks: Sequence[int], programs: list[list[str]]) -> str:
    """Say which collective is the first that differs."""
    longest = max(map(len, programs))
    padded = [program + ["no collective"] * (longest - len(program)) for program in programs]
    for number, row in enumerate(zip(*padded, strict=True)):
        if len({call.rpartition(" at ")[0] for call in row}) > 1:
            lines = [f"\n  rank {rank}: {call}" for rank, call in zip(ranks, row, strict=True)]
            return f"the ranks run different programs. Collective {number + 1} of a call is" + "".join(lines)
    return "the ranks run different programs"
