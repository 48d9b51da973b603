"""Programs with faults, for undertow's ranks alone: on PyTorch they hang, abort or compute nonsense."""

from __future__ import annotations

import time
import warnings
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


def _step(torch: Any, timeout: float, hook: Any = None, **options: Any) -> tuple[Any, Any, Any]:
    """Return a model, its compiled step and its group, which has a timeout of its own."""
    dist = torch.distributed
    group = dist.new_group([0, 1], timeout=timedelta(seconds=timeout))
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
    if hook is not None:
        module[0].weight.register_hook(hook)
    model = torch.nn.parallel.DistributedDataParallel(module, process_group=group, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return module, torch.compile(step), group


def _weights(module: Any) -> list[float]:
    return [round(value, 5) for param in module.parameters() for value in param.detach().reshape(-1).tolist()]


def compiling(torch: Any, show: Any) -> None:
    """Rank 1 compiles for longer than the timeout, first with rank 0 and then alone, for a batch of another size."""
    dist = torch.distributed
    rank = dist.get_rank()
    module, run, group = _step(torch, 1.0)
    compile_quickly = group.clique.compile

    def compile_slowly(*arguments: Any) -> Any:
        time.sleep(2.5)
        return compile_quickly(*arguments)

    if rank == 1:
        group.clique.compile = compile_slowly
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in (2, 2, 2, 2 + rank):
            run(torch.ones(count, 3))
    show(_weights(module))
    for each in caught:
        show(each.message)


def raising_hooks(torch: Any, show: Any) -> None:
    """A hook that the program waits for raises on rank 1, then on both ranks; the group goes on."""
    rank = torch.distributed.get_rank()
    raises: list[int] = []

    def hook(grad: Any) -> Any:
        size = grad.abs().sum().item()
        if rank in raises:
            raise ValueError(f"no gradient of rank {rank}")
        return grad * (2.0 if size > 0 else 1.0)

    module, run, _ = _step(torch, 20.0, hook)
    for who in ([], [], [], [1], [0, 1], []):
        raises[:] = who
        before = _weights(module)
        show(_error(lambda: run(torch.ones(2, 3))))
        show(_weights(module) == before, [param.grad is None for param in module.parameters()])
    show(_weights(module))


def raising_later(torch: Any, show: Any) -> None:
    """A hook that only looks raises on rank 1, after the program: the ranks are no longer equal."""
    rank, log = torch.distributed.get_rank(), []

    def hook(grad: Any) -> None:
        log.append(grad.abs().sum().item())
        if rank == 1 and len(log) == 4:
            raise ValueError("no more")

    _, run, group = _step(torch, 20.0, hook)
    for _ in range(4):
        show(_error(lambda: run(torch.ones(2, 3))))
    time.sleep(0.5)
    show(_error(lambda: torch.distributed.barrier(group)))
    show(_error(lambda: run(torch.ones(2, 3))))


def blocking_hook(torch: Any, show: Any) -> None:
    """A hook of rank 1 does not return for longer than the timeout, while rank 0 is in the program."""
    rank = torch.distributed.get_rank()
    blocks: list[bool] = []

    def hook(grad: Any) -> Any:
        if blocks and grad.abs().sum().item() >= 0:
            time.sleep(3.0)
        return grad * (1.0 if grad.sum().item() > 0 else 2.0)

    module, run, _ = _step(torch, 1.0, hook)
    for number in range(4):
        if number == 3 and rank == 1:
            blocks.append(True)
        before, begin = _weights(module), time.monotonic()
        show(_error(lambda: run(torch.ones(2, 3))))
    show(_weights(module) == before, time.monotonic() - begin)
