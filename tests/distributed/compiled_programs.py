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


def several_forwards(torch: Any, show: Any) -> None:
    """Two models that train each other: one is called three times in a step, and has two backward passes."""
    kit = Kit(torch, show)
    torch.manual_seed(0)
    makes, judges = (kit.ddp(torch.nn.Linear(3, count)) for count in (3, 1))
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (makes, judges)]

    def step(x: Any, y: Any) -> Any:
        made = makes(x)
        optimizers[1].zero_grad()
        first = judges(made.detach()).square().mean() - judges(y).tanh().mean()
        first.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        second = judges(made).tanh().mean()
        second.backward()
        optimizers[0].step()
        return first.detach(), second.detach()

    run = compiled(torch, step)
    for number in range(3):
        torch.manual_seed(10 * number + kit.rank)
        show([v(each) for each in run(torch.randn(2, 3), torch.randn(2, 3))], _grads(makes), _grads(judges))


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
