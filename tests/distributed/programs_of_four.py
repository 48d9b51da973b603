"""Programs for worlds of four ranks: groups that overlap, meshes of two dims, trees of reductions."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any


def all_at_once(torch: Any, show: Any) -> None:
    dist = torch.distributed
    module = __import__(f"{torch.__name__}.distributed.device_mesh", fromlist=["init_device_mesh"])
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (3, 5000):
        for op in ("SUM", "MIN", "MAX", "PRODUCT", "AVG"):
            x = torch.arange(float(count)) % 7 + rank
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
            show(op, x[:3], x[-1])
        parts = [torch.zeros(count) for _ in range(size)]
        dist.all_gather(parts, torch.full((count,), float(rank)))
        show([part[-1] for part in parts])
        for root in (1, 3):
            y = torch.full((count,), float(rank))
            dist.broadcast(y, root)
            show(y[-1])
        own = torch.zeros(count)
        dist.reduce_scatter(own, [torch.full((count,), float(rank + n)) for n in range(size)])
        show(own[-1])
        dist.all_to_all(parts, [torch.full((count,), float(rank * 10 + n)) for n in range(size)])
        show([part[-1] for part in parts])
        right, left = (rank + 1) % size, (rank - 1) % size
        works = [dist.isend(torch.full((count,), float(rank)), right), dist.irecv(own, left)]
        show([work.wait() for work in works], own[-1])
    whole = torch.zeros(1)
    if rank == 0:
        show(sorted(dist.recv(whole) for _ in range(size - 1)))
    else:
        dist.send(whole + rank, 0)
    for ranks in ([1, 3], [0, 1], [2, 3], [3, 0, 1]):
        group = dist.new_group(ranks)
        x = torch.ones(2) * rank
        if rank in ranks:
            dist.all_reduce(x, group=group)
            dist.broadcast(x, ranks[-1], group=group)
        show(x, dist.get_rank(group))
    mesh = module.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    show(mesh, mesh["dp"].mesh, mesh["tp"].mesh, mesh.get_coordinate(), mesh._flatten())
    for dim in ("dp", "tp"):
        x = torch.ones(1) * rank
        dist.all_reduce(x, group=mesh.get_group(dim))
        show(x, dist.get_process_group_ranks(mesh.get_group(dim)))
    found: list[Any] = [None] * size
    dist.all_gather_object(found, "x" * (rank * 2000))
    show([len(each) for each in found])


def late_after_any(torch: Any, show: Any) -> None:
    """Receive from any rank; what that asked of other ranks has no deadline when nothing waits for it any more."""
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(timeout=timedelta(seconds=4))
    x = torch.zeros(1)
    if rank == 0:
        show(sorted(dist.recv(x, group=group) for _ in range(size - 1)))
    else:
        dist.send(x + rank, 0, group=group)
    time.sleep(5)
    for source in range(1, size):
        if rank == 0:
            dist.recv(x, source, group=group)
            show(x)
        elif rank == source:
            dist.send(x + 10 * rank, 0, group=group)
    show(rank)
