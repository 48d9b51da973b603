"""Programs that every rank of a pool runs, on undertow and on PyTorch; each shows what must be equal on both."""

from __future__ import annotations

from typing import Any

FLOATS = ("float32", "float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int64", "int32", "bool", "uint8", "int8")


def _outcome(show: Any, title: str, call: Any) -> None:
    """Show a call's result, or the class of its error."""
    try:
        show(title, call())
    except Exception as error:
        show(title, type(error).__name__)


def all_reduce(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.arange(4.0) + rank
    version = x._version
    show(dist.all_reduce(x), x, x._version - version)
    for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        for dtype in DTYPES:
            for count in (2, 5000):

                def reduced(op: str = op, dtype: str = dtype, count: int = count) -> Any:
                    y = (torch.ones(count) * (rank + 2)).to(getattr(torch, dtype))
                    dist.all_reduce(y, op=getattr(dist.ReduceOp, op))
                    return y[:2], y[-1], y.dtype

                _outcome(show, f"{op} {dtype} {count}", reduced)
    for tensor in (torch.ones(2, 3).t(), torch.ones(()), torch.ones(0), torch.ones(2) * (1 + 2j)):
        dist.all_reduce(tensor)
        show(tensor)


def work_handles(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.full((3,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    show(work.wait(), work.is_completed(), x, work.get_future().wait())
    later = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] * 10)
    show(later.wait(), x)
    works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(20)]
    show([work.wait() for work in works])
    show(dist.barrier(), type(dist.barrier(async_op=True).wait()))


def gather_and_broadcast(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (3, 3000):
        for dtype in DTYPES:
            parts = [torch.zeros(count, dtype=getattr(torch, dtype)) for _ in range(size)]
            dist.all_gather(parts, torch.full((count,), rank + 1).to(getattr(torch, dtype)))
            show([part[-2:] for part in parts])
        for source in range(size):
            value = torch.full((count,), float(rank))
            dist.broadcast(value, source)
            show(value[-1])
    _outcome(show, "short list", lambda: dist.all_gather([torch.zeros(2)], torch.ones(2)))
    _outcome(show, "other size", lambda: dist.all_gather([torch.zeros(3)] * size, torch.ones(2)))
    _outcome(show, "no tensor", lambda: dist.all_reduce([1]))
    _outcome(show, "no op", lambda: dist.all_reduce(torch.ones(1), op="sum"))


def groups(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    show(dist.is_available(), dist.is_initialized(), size, dist.get_backend(), dist.get_process_group_ranks(None))
    for ranks in ([0], [1], [1, 0], None):
        group = dist.new_group(ranks)
        show(group == dist.GroupMember.NON_GROUP_MEMBER, dist.get_rank(group), dist.get_world_size(group))
        x = torch.full((2,), float(rank + 1))
        dist.all_reduce(x, group=group)
        show(x)
        if rank in (ranks or range(size)):
            show(dist.get_process_group_ranks(group), dist.get_global_rank(group, 0), dist.get_group_rank(group, rank))
    _outcome(show, "twice", lambda: dist.init_process_group("gloo"))
    _outcome(show, "no such rank", lambda: dist.new_group([0, 7]))
