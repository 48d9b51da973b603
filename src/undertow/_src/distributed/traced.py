"""Collectives in a compiled step: part of the program, or callbacks to the host, which runs them as in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base import tracer
from undertow._src.distributed import recorder
from undertow._src.distributed.arguments import put
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.rank_programs import MARK, fingerprint, refuse_different
from undertow._src.distributed.work import Done, Work

Compute = Callable[[Any, list[Any]], Sequence[Any]]
Inside = Callable[[Any, list[Any]], Sequence[Any]]


def traced(
    group: ProcessGroup, op: str, detail: str, what: str, given: Sequence[Any], outputs: Sequence[Any], async_op: bool,
    compute: Compute, inside: Inside | None, results: Sequence[Any] | None = None,
) -> Work | None:  # fmt: skip
    """Add a collective to the program.

    `inside(program, values)` computes the values of `outputs` in the program, with its `all_reduce` and `all_gather`;
    if it is None or that is not possible, `compute(call, values)` computes them on the host. `results` are the tensors of
    the returned handle, if not the outputs.
    """
    trace = tracer.running()
    trace.adopt([*given, *outputs])
    site = recorder.user_line()
    found = trace.collectives.emit(
        f"{op}({what}) [{detail}] at {site}",
        group,
        inside,
        lambda number, calls, values: _run(group, op, detail, what, site, compute, number, calls, values),
        [tensor._array for tensor in given],
        [tensor._array for tensor in outputs],
    )
    for tensor, value in zip(outputs, found, strict=True):
        put(tensor, value)
    return Done(list(outputs if results is None else results)) if async_op else None


def _run(
    group: ProcessGroup, op: str, detail: str, what: str, site: str, compute: Compute, number: int, calls: list[str],
    values: list[Any],
) -> Sequence[Any]:  # fmt: skip
    """Run a collective while the program waits. The first collective of a call compares the ranks' programs."""
    if number == 0:
        detail += MARK + fingerprint(calls)
    try:
        return group.start(op, detail, what, lambda call: compute(call, values), site=site).result()
    except DistBackendError as error:
        if number == 0:
            refuse_different(group, error, calls, site)
        raise
