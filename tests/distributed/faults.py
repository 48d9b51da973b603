"""Programs with faults, for undertow's ranks alone: on PyTorch they hang, abort or compute nonsense."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def disagreement(torch: Any, show: Any) -> None:
    """Ranks call different collectives, with few data and with many; the group works afterwards."""
    dist = torch.distributed
    rank = dist.get_rank()
    for count in (2, 4000):
        show(_error(lambda count=count: dist.all_reduce(torch.ones(count + rank))))
        show(_error(lambda count=count: dist.all_reduce(torch.ones(count, dtype=[torch.float32, torch.int64][rank]))))
        value = torch.ones(count)
        show(_error(lambda value=value: dist.all_reduce(value) if rank else dist.broadcast(value, 0)))
        show(_error(lambda value=value: dist.broadcast(value, rank)))
        show(_error(lambda value=value: dist.all_reduce(value, [dist.ReduceOp.MAX, dist.ReduceOp.MIN][rank])))
    show(_error(lambda: dist.new_group([rank])))
    show(_error(lambda: dist.all_to_all_single(torch.zeros(2), torch.zeros(2), [1, 1], [[1, 1], [2, 0]][rank])))
    if rank == 0:
        dist.send(torch.ones(3), 1)
    else:
        show(_error(lambda: dist.recv(torch.zeros(2), 0)))
    value = torch.ones(3)
    dist.all_reduce(value)
    show(value)


def absence(torch: Any, show: Any) -> None:
    """Rank 1 never comes to a collective of a group with a short timeout."""
    dist = torch.distributed
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        begin = time.monotonic()
        show(_error(lambda: dist.all_reduce(torch.ones(2), group=group)))
        show(time.monotonic() - begin)
        show(_error(lambda: dist.all_reduce(torch.ones(2), group=group)))
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
    dist.barrier()
