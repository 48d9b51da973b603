"""Steps of sharded models that every rank of a pool runs: compiled on undertow, as they are written on PyTorch."""

from typing import Any

from tests.distributed import fsdp_programs
from tests.distributed.compiled_programs import compiled
from tests.distributed.fsdp_programs import Kit


class _Kit(Kit):
    """Values with three digits: a program may add up in another order."""

    def v(self, value: Any) -> Any:
        if isinstance(value, self.torch.Tensor) and not isinstance(value, self.T.DTensor):
            return [round(float(x), 3) + 0.0 for x in value.detach().float().reshape(-1)[:4]]
        return round(value, 3) if isinstance(value, float) else super().v(value)

    def all_of(self, model: Any) -> Any:
        return [self.v(param.grad) for param in model.parameters()], [self.v(param) for param in model.parameters()]

    def step(self, model: Any, optimizer: Any, clip: Any = None) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if clip is not None:
                self.torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            return loss.detach()

        return step


def training(torch: Any, show: Any) -> None:
    """Several calls of one program, and calls of others between them; some shards are empty."""
    kit = _Kit(torch, show)
    model = kit.sharded()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    step = kit.step(model, optimizer)
    run, kept = compiled(torch, step), []
    for number in range(3):
        show(number, kit.v(run(kit.x(number))), *kit.all_of(model), type(model[0].weight).__name__)
        kept.append(model[0].weight.grad)
    show([kit.v(each) for each in kept], len({id(each) for each in kept}))
    show({key: kit.v(value) for key, value in optimizer.state[model[0].weight].items()})
    saved, state = {key: each.clone() for key, each in model.state_dict().items()}, optimizer.state_dict()
    show("eager", kit.v(step(kit.x())), "compiled", kit.v(run(kit.x())), *kit.all_of(model))
    model.load_state_dict(saved)
    optimizer.load_state_dict(state)
    with torch.no_grad():
        model[0].weight.mul_(0.5)
    show("loaded", kit.v(run(kit.x())), *kit.all_of(model))
    evaluated = compiled(torch, lambda x: model(x))
    with torch.no_grad():
        show([kit.v(evaluated(kit.x())) for _ in range(2)], [type(param).__name__ for param in model.parameters()])
    model.reshard()
    show(kit.v(run(kit.x())), *kit.all_of(model))


def settings(torch: Any, show: Any) -> None:
    """Settings that change between calls, or in the step; gradients that stay on a rank for a later call."""
    kit = _Kit(torch, show)
    model = kit.sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def accumulate(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    run = compiled(torch, accumulate)
    for number, sync in enumerate((True, False, False, True, True)):
        model.set_requires_gradient_sync(sync)
        show(sync, kit.v(run(kit.x(number))), *kit.all_of(model))
    show("eager", kit.v(accumulate(kit.x())), *kit.all_of(model))
    model.set_reshard_after_forward(False)
    model.set_reshard_after_backward(False)
    show(kit.v(run(kit.x())), *kit.all_of(model))
    model.set_reshard_after_forward(True)
    model.set_reshard_after_backward(True)
    model[0].unshard()
    show(kit.v(run(kit.x())), *kit.all_of(model))
    model[0].bias.requires_grad_(False)

    def both(x: Any, z: Any) -> Any:
        optimizer.zero_grad()
        model.set_requires_gradient_sync(False)
        model(x).square().mean().backward()
        model.set_requires_gradient_sync(True)
        (model(x).sum() + model(z).square().mean()).backward()
        optimizer.step()

    run = compiled(torch, both)
    for number in range(2):
        run(kit.x(number), kit.x(number + 1))
        show("both", *kit.all_of(model))
    lower = kit.F.MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    model = kit.sharded(mp_policy=lower)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=True)
    run = compiled(torch, kit.step(model, optimizer, clip=0.1))
    for number in range(2):
        show("lower", [round(x, 2) for x in kit.v(run(kit.x(number)))])


def hooks(torch: Any, show: Any) -> None:
    """Hooks of a sharded model: what they see, in which order, and a gradient that one changes."""
    kit = _Kit(torch, show)
    log: list[Any] = []
    kept: list[Any] = []
    model = kit.sharded()
    v = kit.v
    for number, layer in enumerate(model):
        if isinstance(layer, torch.nn.Linear):
            layer.weight.register_post_accumulate_grad_hook(lambda p, n=number: log.append(("post", n, v(p.grad))))
            layer.register_forward_hook(lambda m, i, o, n=number: log.append(("forward", n, v(i), v(o))))
            layer.register_full_backward_hook(lambda m, gi, go, n=number: log.append(("backward", n, v(gi), v(go))))
    model[0].weight.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2.0), None)[1])
    model[0].weight.register_post_accumulate_grad_hook(lambda p: kept.append(p.grad))
    model[2].weight.register_post_accumulate_grad_hook(
        lambda p: log.append((p.grad.placements, p.grad.to_local().sum().item() > 9))
    )

    def both(param: Any) -> None:
        log.append(("sets",))
        param.grad = param.grad * 2

    def reads(module: Any, inputs: Any) -> None:
        log.append((v(module.weight.tolist()), type(module.weight).__name__, round(module.weight.sum().item(), 3)))

    model[4].weight.register_post_accumulate_grad_hook(both)
    model[4].register_forward_pre_hook(reads)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = compiled(torch, kit.step(model, optimizer))
    for number in range(3):
        show(number, v(run(kit.x(number))), *kit.all_of(model))
        for entry in log:
            show(*entry)
        log.clear()
        show(kept[-1] is model[0].weight.grad, [v(each) for each in kept])


def optimizer_between(torch: Any, show: Any) -> None:
    """Step the optimizer between forward and backward."""
    fsdp_programs.optimizer_between(torch, show, lambda step: compiled(torch, step))


def refused(torch: Any, show: Any) -> None:
    """What can't be compiled is refused on every rank; run on undertow alone."""
    kit = _Kit(torch, show)

    def attempt(register: Any, sync: bool = True) -> None:
        model = kit.sharded()
        model.set_requires_gradient_sync(sync)
        register(model)
        try:
            torch.compile(kit.step(model, torch.optim.SGD(model.parameters(), lr=0.1)))(kit.x())
            show("ran")
        except Exception as error:
            show(type(error).__name__, str(error).replace("\n", " | "))

    attempt(lambda model: None, sync=kit.rank == 0)
    attempt(lambda model: model[0].weight.register_post_accumulate_grad_hook(lambda p: print(p.grad.full_tensor())))
