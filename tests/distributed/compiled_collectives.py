"""Steps with collectives that every rank of a pool runs: compiled on undertow, as they are written on PyTorch."""

import importlib
from typing import Any

from tests.distributed.compiled_programs import _grads, _network, compiled, v
from tests.distributed.ddp_programs import Kit


def every(tensor: Any) -> Any:
    """Return all values, where `v` returns the first four."""
    return [v(each)[0] for each in tensor.reshape(-1)]


def collectives(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    dist = kit.dist

    def step(x: Any) -> Any:
        total = (x * 2).sum().reshape(1)
        dist.all_reduce(total)
        most = x.clone()
        work = dist.all_reduce(most, op=dist.ReduceOp.MAX, async_op=True)
        work.wait()
        parts = [torch.empty_like(x) for _ in range(kit.size)]
        dist.all_gather(parts, x)
        first = x + 1
        dist.broadcast(first, src=kit.size - 1)
        return total * 3, most, torch.stack(parts), first

    run = compiled(torch, step)
    for number in range(3):
        show([v(each) for each in run(torch.full((3,), kit.rank + number + 1.0))])
    mixed = [torch.ones(2), torch.full((2,), 5.0)]
    dist.all_reduce(mixed[0])
    show(v(mixed[0]), v(run(mixed[1])[0]))


def collectives_in_hooks(torch: Any, show: Any) -> None:
    """Hooks that average gradients themselves, one of them with a log."""
    kit = Kit(torch, show)
    dist, module, log = kit.dist, _network(torch), []

    def average(grad: Any) -> Any:
        total = grad.clone()
        dist.all_reduce(total)
        return total / kit.size

    def average_in_place(param: Any) -> None:
        dist.all_reduce(param.grad)
        param.grad.div_(kit.size)

    def watched(grad: Any) -> Any:
        norm = grad.norm()
        dist.all_reduce(norm)
        log.append(round(norm.item(), 3))
        return grad * 2

    module[0].weight.register_hook(average)
    module[3].weight.register_post_accumulate_grad_hook(average_in_place)
    module[3].bias.register_hook(watched)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(torch, step)
    for number in range(3):
        torch.manual_seed(10 * number + kit.rank)
        loss = run(torch.randn(3, 4))
        show(number, v(loss), _grads(module), log)


def other_collectives(torch: Any, show: Any) -> None:
    """Collectives of which each rank gets a part, or one rank everything."""
    kit = Kit(torch, show)
    dist, rank, size = kit.dist, kit.rank, kit.size

    def parts(x: Any) -> Any:
        own = torch.empty_like(x)
        dist.reduce_scatter(own, [x * (n + 1) for n in range(size)])
        largest = torch.empty_like(x)
        dist.reduce_scatter_tensor(largest, torch.cat([x + n for n in range(size)]), op=dist.ReduceOp.MAX)
        whole = x.new_empty(size * x.shape[0])
        dist.all_gather_into_tensor(whole, own + largest)
        stacked = x.new_empty(size * x.shape[0])
        work = dist.all_gather_into_tensor(stacked, x, async_op=True)
        work.wait()
        return own, largest, whole, stacked

    def exchanged(x: Any) -> Any:
        rows = [torch.empty_like(x) for _ in range(size)]
        dist.all_to_all(rows, [x * 10 + n for n in range(size)])
        swapped = x.new_empty(size * 2)
        dist.all_to_all_single(swapped, torch.arange(2.0 * size) + x[0])
        given = [1 + (rank + n) % 2 for n in range(size)]
        uneven = x.new_empty(sum(given))
        dist.all_to_all_single(uneven, torch.arange(float(sum(given))) * x[0], given, given)
        return torch.stack(rows), swapped, uneven

    def rooted(x: Any) -> Any:
        total = x * 2
        dist.reduce(total, dst=size - 1)
        if rank != size - 1:  # what Gloo leaves there is not defined
            total = x * 0
        collected = [torch.zeros_like(x) for _ in range(size)]
        dist.gather(x + 1, collected if rank == 0 else None, dst=0)
        own = torch.zeros_like(x)
        dist.scatter(own, [x * (n + 3) for n in range(size)] if rank == 1 else None, src=1)
        return total, torch.stack(collected), own

    def dtypes(x: Any) -> Any:
        found = []
        for dtype in (torch.int64, torch.bool, torch.float64, torch.complex64):
            value = (x - 2).to(dtype)
            rows = value.new_empty(size * x.shape[0])
            dist.all_gather_into_tensor(rows, value)
            swapped = torch.empty_like(rows)
            dist.all_to_all_single(swapped, rows)
            found += [rows.to(torch.complex64).real, swapped.to(torch.complex64).real]
        product = (x.long() + 1).clone()
        dist.reduce_scatter(product, [x.long() + n for n in range(size)], op=dist.ReduceOp.PRODUCT)
        return *found, product

    for step in (parts, exchanged, rooted, dtypes):
        run = compiled(torch, step)
        for number in range(3):
            show(step.__name__, [every(each) for each in run(torch.full((3,), rank + number + 1.0))])


def several_groups(torch: Any, show: Any) -> None:
    """Collectives of several groups in one step."""
    kit = Kit(torch, show)
    dist, rank, size = kit.dist, kit.rank, kit.size
    other, alone = dist.new_group(list(range(size))), [dist.new_group([n]) for n in range(size)][rank]
    pair = [dist.new_group([n, n + 1]) for n in range(0, size, 2)][rank // 2]

    def step(x: Any) -> Any:
        first = x * 2
        dist.all_reduce(first, group=pair)
        second = first + x
        dist.all_reduce(second)
        third = second * 3
        dist.all_reduce(third, group=alone)
        rows = x.new_empty(size * x.shape[0])
        dist.all_gather_into_tensor(rows, third, group=other)
        part = torch.empty_like(x)
        dist.reduce_scatter_tensor(part, torch.cat([x, rows[-3:]]), group=pair)
        dist.all_reduce(part, op=dist.ReduceOp.AVG if torch.__name__ == "undertow" else dist.ReduceOp.SUM, group=other)
        if torch.__name__ != "undertow":  # Gloo has no mean
            part = part / size
        return first, second, third, rows, part

    run = compiled(torch, step)
    for number in range(3):
        show([every(each) for each in run(torch.full((3,), rank + number + 1.0))])


def with_gradients(torch: Any, show: Any) -> None:
    """Collectives that have gradients, and hooks on what they return."""
    kit = Kit(torch, show)
    dist, size = kit.dist, kit.size
    nn = importlib.import_module(torch.__name__ + ".distributed.nn.functional")
    fun = importlib.import_module(torch.__name__ + ".distributed._functional_collectives")
    weight, log = torch.nn.Parameter(torch.linspace(-1, 1, 2 * size)), []

    def watched(name: str, value: Any) -> Any:
        value.register_hook(lambda g: log.append((name, v(g))))
        return value

    def classic(x: Any) -> Any:
        value = weight * x
        loss = watched("all_reduce", nn.all_reduce(value.clone())).pow(2).sum()
        loss = loss + sum((n + 1) * row.pow(2).sum() for n, row in enumerate(nn.all_gather(value)))
        loss = loss + watched("broadcast", nn.broadcast(value, 0)).pow(2).sum()
        own = nn.reduce_scatter(torch.empty(2), list(value.chunk(size)))
        loss = loss + own.pow(3).sum() + nn.all_to_all_single(torch.empty(2 * size), value.sin()).pow(3).sum()
        loss.backward()
        return loss.detach()

    def functional(x: Any) -> Any:
        value, group = weight * x, dist.group.WORLD
        whole = watched("gather", fun.all_gather_tensor_autograd(value, 0, group))
        part = fun.reduce_scatter_tensor_autograd(whole.pow(2), "sum", 0, group)
        loss = fun.all_to_all_single_autograd(part, None, None, group).pow(2).sum()
        loss.backward()
        return loss.detach()

    for step in (classic, functional):
        run = compiled(torch, step)
        for number in range(3):
            weight.grad = None
            loss = run(torch.linspace(1, 2, 2 * size) + kit.rank + number)
            show(step.__name__, v(loss), every(weight.grad), log)
            log.clear()


def branches(torch: Any, show: Any) -> None:
    """Branches on values after a collective, which may go different ways on each rank; loops, errors, draws."""
    kit = Kit(torch, show)
    dist = kit.dist

    def both_ways(x: Any) -> Any:
        x = x + torch.rand(2)
        dist.all_reduce(x)
        if x.sum() > 10:
            x = x * 2
            dist.broadcast(x, 0)
            if x[1] > 100:
                return x * 0
        elif x[0] > 4:
            x = x + torch.rand(2)
        dist.all_reduce(x)
        return x

    def own_way(x: Any) -> Any:
        dist.all_reduce(x)
        calls = 2 if x.sum() * (kit.rank + 1) > 20 else 1
        y = x * calls
        dist.all_reduce(y)
        return y, calls

    def until_small(x: Any) -> Any:
        count = 0
        while count == 0 or x.max() >= 1:
            dist.all_reduce(x)
            x = x / 3
            count += 1
        return x, count

    def raises(x: Any) -> Any:
        dist.all_reduce(x)
        if x.sum() > 20:
            raise ValueError("too large")
        return x * 2

    torch.manual_seed(kit.rank)
    for step in (both_ways, own_way, until_small, raises):
        run = compiled(torch, step)
        for number in (0.0, 40.0, 2.0, 9.0):
            try:
                found = run(torch.full((2,), number + kit.rank))
                show(step.__name__, number, *[v(each) if isinstance(each, torch.Tensor) else each for each in (found,)])
            except ValueError as error:
                show(step.__name__, number, error)
    model = kit.ddp(_network(torch))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler, skipped = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2), []
    model.module[0].weight.register_hook(lambda g: skipped.append(not g.isfinite().all().item()))

    def scaled(x: Any) -> Any:
        optimizer.zero_grad()
        scaler.scale(model(x).square().mean()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    run = compiled(torch, scaled)
    for number in (1.0, 1.0, float("inf"), 2.0):
        run(torch.full((3, 4), number if kit.rank else 1.0) + torch.arange(3.0).view(3, 1))
        show(scaler.get_scale(), skipped, v(model.module[3].weight))


def tensor_parallel(torch: Any, show: Any) -> None:
    """Layers whose parameters are split over the ranks, with split sequences and rows of an Embedding, and hooks."""
    kit, nn = Kit(torch, show), torch.nn
    T = importlib.import_module(f"{torch.__name__}.distributed.tensor")
    P = importlib.import_module(f"{torch.__name__}.distributed.tensor.parallel")
    mesh = importlib.import_module(f"{torch.__name__}.distributed.device_mesh").init_device_mesh("cpu", (kit.size,))
    column, row, S, R = P.ColwiseParallel, P.RowwiseParallel, T.Shard, T.Replicate()
    for plan in (
        {"1": column(), "3": row()},
        {"0": row(input_layouts=R, output_layouts=S(1)), "1": column(input_layouts=S(1)), "3": row()},
    ):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        model = P.parallelize_module(model, mesh, plan)
        seen: list[float] = []
        model[2].register_full_backward_hook(lambda m, gi, go, seen=seen: seen.append(round(go[0].sum().item(), 3)))
        optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compiled(torch, step)
        for number in range(3):
            loss = run(torch.tensor([[number, 1, 5, 2]]))
            parts = [param.to_local() if isinstance(param, T.DTensor) else param for param in model.parameters()]
            show(v(loss), [v(part) for part in parts], seen)
