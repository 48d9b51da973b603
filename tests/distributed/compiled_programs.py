"""Steps that every rank of a pool runs: compiled on undertow, as they are written on PyTorch. The lines must be equal."""

import copy
import importlib
import warnings
from collections.abc import Callable
from typing import Any

from tests.distributed.ddp_programs import Kit
from tests.distributed.ddp_programs import v as shown


def v(tensor: Any) -> Any:
    """Return values with three digits: a program may add up in another order."""
    return None if tensor is None else [round(value, 3) + 0.0 for value in shown(tensor)]


def every(tensor: Any) -> Any:
    """Return all values, where `v` returns the first four."""
    return [v(each)[0] for each in tensor.reshape(-1)]


def _grads(module: Any) -> list[Any]:
    return [v(param.grad) for param in module.parameters()]


def compiled(torch: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step, compiled on undertow; it raises if it runs eagerly instead."""
    warnings.filterwarnings("error", message=".* (ran|runs) eagerly")
    return torch.compile(step) if torch.__name__ == "undertow" else step


def _network(torch: Any) -> Any:
    torch.manual_seed(2)
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))


def _trained(kit: Kit, module: Any, steps: int = 4, comm: Any = None, **options: Any) -> None:
    torch, show = kit.torch, kit.show
    model = kit.ddp(module, **options)
    if comm is not None:
        model.register_comm_hook(None, comm)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(torch, step)
    for number in range(steps):
        torch.manual_seed(10 * number + kit.rank)
        loss = run(torch.randn(3, 4), torch.randn(3, 2))
        show(number, v(loss), _grads(module))
    show([v(p) for p in module.parameters()], [v(b) for b in module.buffers()])


def training(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    together = {"find_unused_parameters": True, "gradient_as_bucket_view": True, "broadcast_buffers": False}
    for options in ({}, {"bucket_cap_mb": 1e-7, "static_graph": True}, together):
        show(options)
        _trained(kit, _network(torch), **options)


def hooks(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    module = _network(torch)
    log: list[Any] = []
    kit.show = lambda *values: log.append(values)
    kit.hook(module, "before")
    model = kit.ddp(module, bucket_cap_mb=1e-7)
    module[0].register_forward_hook(lambda m, i, o: log.append(("forward", v(o))))
    module[3].register_full_backward_hook(lambda m, gi, go: log.append(("backward", v(gi[0]), v(go[0]))))
    module[0].weight.register_hook(lambda g: g * 2)
    module[3].bias.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(3.0), None)[1])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(torch, step)
    for number in range(4):
        torch.manual_seed(10 * number + kit.rank)
        loss = run(torch.randn(3, 4))
        for entry in log:
            show(*entry)
        log.clear()
        show(number, v(loss), _grads(module))


def few_hooks(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    module = kit.chain()
    kit.hook(module, "before")
    model = kit.ddp(module, bucket_cap_mb=1e-7)

    def step(x: Any) -> Any:
        model.zero_grad()
        model(x).sum().backward()

    run = compiled(torch, step)
    for _ in range(3):
        run(kit.x())
        show(_grads(module))


def no_sync(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    module = _network(torch)
    model = kit.ddp(module)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any, z: Any) -> Any:
        optimizer.zero_grad()
        with model.no_sync():
            (model(x) ** 2).mean().backward()
        loss = (model(z) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def local(x: Any) -> Any:
        with model.no_sync():
            (model(x) ** 2).mean().backward()

    run, run_local = compiled(torch, step), compiled(torch, local)
    for number in range(3):
        torch.manual_seed(10 * number + kit.rank)
        loss = run(torch.randn(3, 4), torch.randn(3, 4))
        show(number, v(loss), _grads(module), [v(b) for b in module.buffers()])
        run_local(torch.randn(3, 4))
        show("local", _grads(module), [v(b) for b in module.buffers()])


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


def built_in_hooks(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    default = importlib.import_module(torch.__name__ + ".distributed.algorithms.ddp_comm_hooks.default_hooks")
    for hook in (default.allreduce_hook, default.fp16_compress_hook):
        _trained(kit, _network(torch), comm=hook)


def comm_hooks(torch: Any, show: Any) -> None:
    """Communication hooks that users write; the last one reads a number that changes between calls."""
    kit = Kit(torch, show)
    dist = kit.dist

    class State:
        scale = 1.0

    def done(value: Any) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(value)
        return future

    def doubled(state, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer().div_(kit.size), async_op=True)
        return work.get_future().then(lambda future: future.value()[0] * 2)

    def local(state, bucket):  # type: ignore[no-untyped-def]
        return done(bucket.buffer())

    def clipped(state, bucket):  # type: ignore[no-untyped-def]
        sent = bucket.buffer() / bucket.buffer().norm().clamp(min=0.1)
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda future: future.value()[0] / kit.size)

    def gathered(state, bucket):  # type: ignore[no-untyped-def]
        rows = [torch.empty_like(bucket.buffer()) for _ in range(kit.size)]
        dist.all_gather(rows, bucket.buffer())
        return done(sum(rows) / kit.size)

    def by_parameter(state, bucket):  # type: ignore[no-untyped-def]
        sent = torch.cat([gradient.square().reshape(-1) for gradient in bucket.gradients()])
        dist.all_reduce(sent)
        return done(sent)

    for hook in (doubled, local, clipped, gathered, by_parameter):
        show(hook.__name__)
        _trained(kit, _network(torch), comm=hook, steps=3)

    def scaled(state, bucket):  # type: ignore[no-untyped-def]
        sent = bucket.buffer() * state.scale
        dist.all_reduce(sent)
        return done(sent)

    state, model = State(), kit.ddp(_network(torch))
    model.register_comm_hook(state, scaled)

    def step(x: Any) -> None:
        model(x).sum().backward()

    run = compiled(torch, step)
    for scale in (1.0, 1.0, 3.0, 0.5):
        state.scale = scale
        model.zero_grad()
        run(torch.linspace(-1, 1 + kit.rank, 12).reshape(3, 4))
        show(scale, _grads(model.module))


def equal_parameters(torch: Any, show: Any) -> None:
    """A hundred compiled steps: the ranks' parameters stay bit-equal."""
    kit = Kit(torch, show)
    module = _network(torch)
    model = kit.ddp(module)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = compiled(torch, step)
    torch.manual_seed(kit.rank)
    for number in range(100):
        loss = run(torch.randn(8, 4))
        if number % 25 == 0:
            show(number, round(float(loss), 3))
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    everywhere = [torch.zeros_like(flat) for _ in range(kit.size)]
    kit.dist.all_gather(everywhere, flat)
    show([bool(torch.equal(each, flat)) for each in everywhere])


def sync_batch_norm(torch: Any, show: Any) -> None:
    """SyncBatchNorm compiled against SyncBatchNorm as written; run on undertow alone."""
    kit = Kit(torch, show)
    layers = torch.nn.SyncBatchNorm.convert_sync_batchnorm(_network(torch))
    results = []
    for make in (compiled, lambda torch, step: step):
        module = copy.deepcopy(layers)
        model = kit.ddp(module)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()

        run = make(torch, step)
        for number in range(3):
            torch.manual_seed(10 * number + kit.rank)
            run(torch.randn(3, 4))
        results.append([*module.parameters(), *module.buffers()])
    show([bool(torch.allclose(one, other, atol=1e-6)) for one, other in zip(*results, strict=True)])


def refused(torch: Any, show: Any) -> None:
    """What can't be compiled is refused, on every rank; run on undertow alone."""
    kit = Kit(torch, lambda *values: None)
    dist = kit.dist

    def attempt(step: Callable[..., Any], *args: Any) -> None:
        try:
            show("ran", (step if hasattr(step, "programs") else torch.compile(step))(*args))
        except Exception as error:
            show(type(error).__name__, str(error).replace("\n", " | "))

    def trained(model: Any) -> Callable[[Any], None]:
        def step(x: Any) -> None:
            model(x).sum().backward()

        return step

    attempt(trained(kit.ddp(kit.chain(3, skip=(1,)))), kit.x())

    def halved(state, bucket):  # type: ignore[no-untyped-def]
        return dist.all_reduce(bucket.buffer() / 2, async_op=True).get_future().then(lambda done: done.value()[0])

    chain = kit.chain(3, skip=(kit.rank,))
    attempt(trained(kit.ddp(chain, find_unused_parameters=True, bucket_cap_mb=1e-7)), kit.x())
    model = kit.ddp(chain, find_unused_parameters=True)
    model.register_comm_hook(None, halved)
    attempt(trained(model), kit.x())
    model = kit.ddp(chain, find_unused_parameters=True)
    model.register_comm_hook(None, kit.comm())
    attempt(trained(model), kit.x())
    chain.skip = (1,)
    run = torch.compile(trained(kit.ddp(chain, static_graph=True)))
    run(kit.x())
    chain.skip = ()
    attempt(run, kit.x())
    powers = importlib.import_module(torch.__name__ + ".distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
    model = kit.ddp(kit.chain())
    model.register_comm_hook(powers.PowerSGDState(None), powers.powerSGD_hook)
    attempt(trained(model), kit.x())
    model = kit.ddp(kit.chain(), bucket_cap_mb=1e-7)
    model.register_comm_hook(None, halved)
    attempt(trained(model), kit.x())
    trained(model)(kit.x())
    trained(model)(kit.x())
    attempt(trained(model), kit.x())
    model = kit.ddp(kit.chain())
    attempt(lambda x: model(x).sum(), kit.x())
    attempt(lambda x: dist.barrier(), kit.x())

    def decides(x: Any) -> Any:
        x = x + 1
        dist.all_reduce(x)
        if x.sum() > 1:
            x = x * 2
        dist.all_reduce(x)
        return x

    attempt(decides, kit.x())

    def receives(x: Any, y: Any) -> Any:
        if kit.rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(y, 0)
        return y * 2

    def told(x: Any) -> Any:
        objects = [kit.rank + 5]
        dist.broadcast_object_list(objects, src=0)
        return x * objects[0]

    attempt(receives, kit.x(), kit.x())
    attempt(told, kit.x())

    def differs(x: Any) -> Any:
        x = x + 1
        dist.all_reduce(x)
        if kit.rank == 0:
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
        else:
            dist.broadcast(x, src=0)
        return x

    attempt(differs, kit.x())
    options = {"late": False}

    def raises(x: Any) -> Any:
        x = x + 1
        dist.all_reduce(x)
        if options["late"]:
            raise ValueError("only here")
        return x

    run = torch.compile(raises)
    run(kit.x())
    options["late"] = kit.rank == 1
    try:
        run(kit.x())
    except Exception as error:
        show(type(error).__name__, str(error).replace("\n", " | "))
    again = kit.x()
    dist.all_reduce(again)
    show(v(again))


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


def recompiled(torch: Any, show: Any) -> None:
    """One rank compiles again: for a larger batch, a new hook, or a number that it reads."""
    kit = Kit(torch, show)
    torch.manual_seed(0)
    module, log = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), []
    optimizer = torch.optim.SGD(kit.ddp(module).parameters(), 0.1)
    model, options = kit.ddp(module), {"power": 2}

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** options["power"]).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def doubled(grad: Any) -> Any:
        log.append(v(grad))
        return grad * 2

    run = compiled(torch, step)
    for number in range(9):
        torch.manual_seed(10 * number + kit.rank)
        if number == 4 and kit.rank == 0:
            module[0].weight.register_hook(doubled)
        options["power"] = 4 if number == 6 and kit.rank == 1 else 2
        loss = run(torch.randn(5 if number == 2 and kit.rank == 0 else 3, 4))
        show(number, v(loss), _grads(module), log)
    show([v(p) for p in module.parameters()])


def unused_parameters(torch: Any, show: Any) -> None:
    """Parameters that no rank uses, always the same ones, or others from call to call."""
    kit = Kit(torch, lambda *values: None)

    def averaged(state, bucket):  # type: ignore[no-untyped-def]
        work = kit.dist.all_reduce(bucket.buffer() / kit.size, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    changing = {"find_unused_parameters": True}
    for options, comm in (
        (changing, False), ({"static_graph": True}, False), (changing, True), ({"static_graph": True}, True),
        ({**changing, "gradient_as_bucket_view": True, "bucket_cap_mb": 1e-7}, False),
        ({**changing, "skip_all_reduce_unused_params": True, "bucket_cap_mb": 1e-7}, True),
    ):  # fmt: skip
        show(options, comm)
        log: list[Any] = []
        module = kit.chain(3, skip=(1,))
        module.c.register_post_accumulate_grad_hook(lambda p, log=log: log.append(v(p.grad)))
        model = kit.ddp(module, **options)
        if comm:
            model.register_comm_hook(None, averaged)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        if comm:  # which needs buckets that stay
            step(kit.x())
            step(kit.x())
        run = compiled(torch, step)
        for number in range(3):
            if "find_unused_parameters" in options:
                module.skip = ((1,), (0, 2), (1,))[number]
            loss = run(kit.x() + number)
            show(number, v(loss), _grads(module), log)
            log.clear()
        show([v(p) for p in module.parameters()])
    module = kit.chain(3, skip=(1,))
    model = kit.ddp(module, find_unused_parameters=True)
    run = compiled(torch, lambda x: model(x).sum().backward())
    for skip in ((), (1,), (1,), (0,)):  # gradients that stay from earlier calls
        module.skip = skip
        run(kit.x())
        show(skip, _grads(module))


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


def settings_between_calls(torch: Any, show: Any) -> None:
    """What changes around a compiled step: no_sync, a communication hook, buffers' synchronisation, eager iterations."""
    kit = Kit(torch, show)
    module = _network(torch)
    model = kit.ddp(module, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        return loss.detach()

    def doubled(state, bucket):  # type: ignore[no-untyped-def]
        work = kit.dist.all_reduce(bucket.buffer() / kit.size, async_op=True)
        return work.get_future().then(lambda future: future.value()[0] * 2)

    run = compiled(torch, step)
    for number in range(10):
        torch.manual_seed(10 * number + kit.rank)
        x = torch.randn(3, 4)
        if number in (1, 4):
            with model.no_sync():
                show(number, v(run(x)), _grads(module))
        elif number == 6:
            show(number, v(step(x)), _grads(module))
        else:
            if number == 7:
                model.register_comm_hook(None, doubled)
            if number == 8:
                module[0].bias.requires_grad_(False)
            show(number, v(run(x)), _grads(module))
        show([v(b) for b in module.buffers()])
        optimizer.step()
        optimizer.zero_grad(set_to_none=number % 2 == 0)
    show([v(p) for p in module.parameters()])
