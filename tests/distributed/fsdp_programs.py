"""fully_shard: programs that every rank of a pool runs, on undertow and on PyTorch."""

from __future__ import annotations

import copy
import importlib
from typing import Any


class Kit:
    """What the programs share: models, a mesh, and short descriptions of tensors."""

    def __init__(self, torch: Any, show: Any) -> None:
        self.torch, self.show, self.nn, self.dist = torch, show, torch.nn, torch.distributed
        self.F = importlib.import_module(f"{torch.__name__}.distributed.fsdp")
        self.T = importlib.import_module(f"{torch.__name__}.distributed.tensor")
        self.meshes = importlib.import_module(f"{torch.__name__}.distributed.device_mesh")
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()

    def v(self, value: Any) -> Any:
        """Describe a tensor: its class, placements, shapes and values, rounded."""
        if isinstance(value, self.T.DTensor):
            return (value.placements, tuple(value.shape), self.v(value.to_local()))
        if isinstance(value, self.torch.Tensor):
            return (
                type(value).__name__,
                tuple(value.shape),
                [round(float(x), 4) + 0.0 for x in value.detach().reshape(-1)[:4]],
            )
        if isinstance(value, (list, tuple)):
            return [self.v(each) for each in value]
        return value

    def mlp(self) -> Any:
        self.torch.manual_seed(0)
        nn = self.nn
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4, bias=False), nn.Tanh(), nn.Linear(4, 1))

    def sharded(self, model: Any = None, **options: Any) -> Any:
        model = self.mlp() if model is None else model
        for layer in model:
            if list(layer.parameters()):
                self.F.fully_shard(layer, **options)
        return self.F.fully_shard(model, **options)

    def x(self, step: int = 0) -> Any:
        return self.torch.linspace(-1, 1 + self.rank + step, 12).reshape(4, 3)

    def train(self, model: Any, optimizer: Any, steps: int = 3, clip: Any = None) -> list[Any]:
        found = []
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(self.x(step)).square().mean()
            loss.backward()
            if clip is not None:
                found.append(self.v(self.torch.nn.utils.clip_grad_norm_(model.parameters(), clip)))
            optimizer.step()
            found.append(round(loss.item(), 4))
        return found

    def outcome(self, call: Any, words: int = 5) -> None:
        """Show a call's result, or the class and first words of its error."""
        try:
            self.show(self.v(call()))
        except Exception as error:
            self.show(type(error).__name__, " ".join(str(error).replace(":", "").split()[:words]))


def construction(torch: Any, show: Any) -> None:
    """Show what becomes of a model and its parameters."""
    kit = Kit(torch, show)
    model = kit.mlp()
    weight = model[0].weight
    result = kit.sharded(model)
    show(result is model, type(model).__name__, [type(layer).__name__ for layer in model], model[0].weight is weight)
    show(
        isinstance(model, kit.F.FSDPModule), isinstance(model[1], kit.F.FSDPModule), isinstance(model[0], kit.nn.Linear)
    )
    show([(name, kit.v(param), param.requires_grad, param.is_leaf) for name, param in model.named_parameters()])
    show([isinstance(param, kit.nn.Parameter) for param in model.parameters()], model[0].weight.device_mesh)
    show([(name, kit.v(value)) for name, value in model.state_dict().items()])
    show(str(model))
    kit.outcome(lambda: model(kit.x()))
    show([(name, kit.v(param)) for name, param in model.named_parameters()])
    mesh = kit.meshes.init_device_mesh("cpu", (kit.size,), mesh_dim_names=("dp",))
    lone = kit.F.fully_shard(kit.nn.Linear(4, 3), mesh=mesh)
    show(lone.weight.placements, lone.weight.device_mesh, tuple(lone.bias.to_local().shape))
    kit.outcome(lambda: kit.F.fully_shard(lone, mesh=mesh))
    kit.outcome(lambda: kit.F.fully_shard(kit.nn.ModuleList([kit.nn.Linear(1, 1)]), mesh=mesh))
    by_column = kit.F.fully_shard(
        kit.nn.Linear(4, 3, bias=False), mesh=mesh, shard_placement_fn=lambda param: kit.T.Shard(1)
    )
    show(kit.v(by_column.weight)[:2])
    several = [kit.nn.Linear(2, 2), kit.nn.Linear(2, 2)]
    kit.F.fully_shard(several, mesh=mesh)
    show([type(each).__name__ for each in several], several[0].weight.placements)
    ignored = kit.nn.Linear(2, 2)
    kit.F.fully_shard(ignored, mesh=mesh, ignored_params={ignored.bias})
    show(type(ignored.weight).__name__, type(ignored.bias).__name__)


def training(torch: Any, show: Any) -> None:
    """Train with several optimizers and options."""
    kit = Kit(torch, show)
    for name, options in (
        ("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.05}), ("AdamW", {"lr": 0.05, "foreach": True}),
        ("Adagrad", {"lr": 0.05}),
    ):  # fmt: skip
        for reshard in (True, False, None):
            model = kit.sharded(reshard_after_forward=reshard)
            optimizer = getattr(torch.optim, name)(model.parameters(), **options)
            show(name, reshard, kit.train(model, optimizer))
            show([kit.v(param) for param in model.parameters()])
            show([kit.v(param.grad) for param in model.parameters()])
            show({key: kit.v(value) for key, value in optimizer.state[model[0].weight].items()})
    model = kit.sharded()
    show(kit.train(model, torch.optim.SGD(model.parameters(), lr=0.1), clip=0.05))
    show([kit.v(param.full_tensor()) for param in model.parameters()])
    with torch.no_grad():
        kit.outcome(lambda: model(kit.x()))
    model.eval()
    kit.outcome(lambda: model(kit.x()))
    lone = kit.F.fully_shard(kit.mlp())
    show(kit.train(lone, torch.optim.Adam(lone.parameters(), lr=0.05)), [kit.v(p) for p in lone.parameters()])


def hooks(torch: Any, show: Any) -> None:
    """Show when hooks fire that PyTorch keeps, and what they see."""
    kit = Kit(torch, show)
    v = kit.v
    model = kit.nn.Sequential(kit.nn.Linear(2, 2, bias=False), kit.nn.Linear(2, 2, bias=False))
    for param in model.parameters():
        kit.nn.init.ones_(param)
    for layer in model:
        kit.F.fully_shard(layer)
    kit.F.fully_shard(model)
    for number, layer in enumerate(model):
        layer.weight.register_post_accumulate_grad_hook(lambda p, n=number: show("post accumulate", n, v(p.grad)))
        layer.register_forward_pre_hook(lambda m, i, n=number: show("forward pre", n, v(m.weight)))
        layer.register_forward_hook(
            lambda m, i, o, n=number: (
                show("forward", n, v(m.weight)),
                o.register_hook(lambda g: show("out", n, v(g))),
                None,
            )[2]
        )
        layer.register_full_backward_hook(
            lambda m, gi, go, n=number: show("full backward", n, v(m.weight), v(gi), v(go))
        )
        layer.register_full_backward_pre_hook(lambda m, go, n=number: show("full backward pre", n, v(go)))
    for step in range(2):
        x = torch.full((1, 2), float(kit.rank + 1 + step), requires_grad=step == 0)
        show("step", step)
        model(x).sum().backward()
        show([v(param.grad) for param in model.parameters()], v(x.grad))


def accumulation(torch: Any, show: Any) -> None:
    """Accumulate gradients with and without communication."""
    kit = Kit(torch, show)
    model = kit.sharded()

    def grads() -> Any:
        return [kit.v(param.grad) for param in model.parameters()]

    for sync in (False, False, True, True):
        model.set_requires_gradient_sync(sync)
        model(kit.x()).sum().backward()
        show(sync, grads())
    model.zero_grad()
    show(grads())
    model.set_requires_all_reduce(True)
    model.set_is_last_backward(False)
    model(kit.x()).sum().backward()
    model.set_is_last_backward(True)
    model(kit.x(1)).sum().backward()
    show(grads())
    total = model(kit.x()).sum() + model(kit.x(1)).sum()
    model.zero_grad(set_to_none=False)
    total.backward()
    show(grads())


def accumulation_over_replicas(torch: Any, show: Any) -> None:
    """Gradients that are not yet reduced over the replicas wait for the backward that reduces them."""
    kit = Kit(torch, show)
    mesh = kit.meshes.init_device_mesh("cpu", (kit.size, 1), mesh_dim_names=("replicas", "shards"))
    model = kit.sharded(mesh=mesh)
    for reduces in (False, False, True, True):
        model.set_requires_all_reduce(reduces)
        model(kit.x()).square().mean().backward()
        show([param.grad is None or kit.v(param.grad) for param in model.parameters()])


def conversions(torch: Any, show: Any) -> None:
    """A sharded model is converted before its first forward, and is not copied."""
    kit = Kit(torch, show)
    model = kit.sharded().double()
    model(kit.x().double()).square().mean().backward()
    show([(param.grad.dtype, kit.v(param.grad)) for param in model.parameters()])
    kit.outcome(lambda: copy.deepcopy(model))


def methods(torch: Any, show: Any) -> None:
    """Call the methods of FSDPModule."""
    kit = Kit(torch, show)
    model = kit.sharded()
    show(kit.v(model[0].weight))
    kit.outcome(lambda: model[0].unshard())
    show(kit.v(model[0].weight), kit.v(model[2].weight))
    kit.outcome(lambda: model[0].reshard())
    show(kit.v(model[0].weight))
    handle = model[0].unshard(async_op=True)
    kit.outcome(lambda: handle.wait())
    show(kit.v(model[0].weight))
    model[0].reshard()
    for call in (
        lambda: model.set_reshard_after_forward(False), lambda: model.set_reshard_after_backward(False),
        lambda: model.set_reshard_after_backward(True), lambda: model.set_modules_to_forward_prefetch([model[0]]),
        lambda: model.set_modules_to_backward_prefetch([model[2]]),
        lambda: model.set_unshard_in_backward(True), lambda: model.set_requires_all_reduce(True),
    ):  # fmt: skip
        kit.outcome(call)
    model(kit.x())
    show([kit.v(param)[:2] for param in model.parameters()])
    model.reshard()
    model(kit.x()).sum().backward()
    show([kit.v(param.grad) for param in model.parameters()])
    other = kit.sharded(reshard_after_forward=False)
    other(kit.x())
    show([kit.v(param)[:2] for param in other.parameters()])
    other(kit.x()).sum().backward()
    show([kit.v(param)[:2] for param in other.parameters()])

    class Custom(kit.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = kit.nn.Parameter(torch.arange(4.0).reshape(2, 2))

        def forward(self, x: Any) -> Any:
            return x @ self.weight

        def other(self, x: Any) -> Any:
            return x * self.weight.sum()

    custom = kit.F.fully_shard(Custom())
    kit.F.register_fsdp_forward_method(custom, "other")
    kit.outcome(lambda: custom.other(torch.ones(1, 2)))
    custom.other(torch.ones(1, 2)).sum().backward()
    show(kit.v(custom.weight.grad))


def mixed_precision(torch: Any, show: Any) -> None:
    """Train with lower precision in forward and backward."""
    kit = Kit(torch, show)
    policy = kit.F.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    show(policy)
    for options in (
        {"param_dtype": torch.bfloat16}, {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32},
        {"param_dtype": torch.bfloat16, "output_dtype": torch.float32}, {"reduce_dtype": torch.float64},
    ):  # fmt: skip
        model = kit.sharded(mp_policy=kit.F.MixedPrecisionPolicy(**options))
        seen: list[Any] = []
        model[2].register_forward_pre_hook(lambda m, i, seen=seen: seen.append((m.weight.dtype, i[0].dtype)))
        out = model(kit.x())
        show(out.dtype, seen, model[0].weight.dtype)
        out.float().sum().backward()
        show([(param.grad.dtype, kit.v(param.grad)[:2]) for param in model.parameters()])
        show([round(float(param.grad.full_tensor().sum()), 1) for param in model.parameters()])
    model = kit.sharded(mp_policy=policy)
    for sync in (False, False, False, True):
        model.set_requires_gradient_sync(sync)
        model(kit.x() * 1.37).square().sum().backward()
    show([kit.v(param.grad) for param in model.parameters()])
    show(kit.F.OffloadPolicy(), kit.F.CPUOffloadPolicy(pin_memory=False))


def state(torch: Any, show: Any) -> None:
    """Save and load state dicts, frozen parameters, shared parameters, buffers, initialization after sharding."""
    kit = Kit(torch, show)
    model = kit.sharded()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    kit.train(model, optimizer)
    saved = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer_state = optimizer.state_dict()
    show([(key, kit.v(value)) for key, value in optimizer_state["state"][0].items()])
    other = kit.sharded()
    show(other.load_state_dict(saved))
    show([kit.v(param) for param in other.parameters()])
    again = torch.optim.Adam(other.parameters(), lr=0.05)
    again.load_state_dict(optimizer_state)
    show(kit.train(other, again), kit.train(model, optimizer))
    frozen = kit.mlp()
    frozen[0].requires_grad_(False)
    frozen = kit.sharded(frozen)
    show([param.requires_grad for param in frozen.parameters()])
    show(kit.train(frozen, torch.optim.SGD(frozen.parameters(), lr=0.1)), [kit.v(p.grad) for p in frozen.parameters()])

    class Tied(kit.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = kit.nn.Linear(3, 3, bias=False), kit.nn.Linear(3, 3, bias=False)
            self.two.weight = self.one.weight
            self.norm = kit.nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            return self.norm(self.two(self.one(x).tanh()))

    torch.manual_seed(0)
    tied = kit.F.fully_shard(Tied())
    show(tied.one.weight is tied.two.weight, [name for name, _ in tied.named_parameters()])
    show(kit.train(tied, torch.optim.SGD(tied.parameters(), lr=0.1)), [kit.v(p) for p in tied.parameters()])
    show([kit.v(buffer) for buffer in tied.buffers()], sorted(tied.state_dict()))
    with torch.device("meta"):
        later = kit.mlp()
    later = kit.sharded(later)
    show(
        [(param.device.type, kit.v(param)[:2] if param.device.type == "cpu" else None) for param in later.parameters()]
    )
    later.to_empty(device="cpu")
    for param in later.parameters():
        kit.nn.init.constant_(param, 0.1)
    show(kit.train(later, torch.optim.SGD(later.parameters(), lr=0.1)), [kit.v(p) for p in later.parameters()])


def hybrid(torch: Any, show: Any) -> None:
    """Shard in one dim of a mesh and replicate in the other; for four ranks."""
    kit = Kit(torch, show)
    mesh = kit.meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = kit.sharded(mesh=mesh)
    show([kit.v(param) for param in model.parameters()])
    show(kit.train(model, torch.optim.Adam(model.parameters(), lr=0.05), clip=0.5))
    show([kit.v(param) for param in model.parameters()], [kit.v(param.grad) for param in model.parameters()])
    show([kit.v(param.full_tensor()) for param in model.parameters()])


def optimizer_between(torch: Any, show: Any, prepared: Any = lambda step: step) -> None:
    """Step the optimizer between forward and backward: parameters that are gathered again have the new weights."""
    kit = Kit(torch, show)
    for reshards in (True, False):
        model = kit.sharded(reshard_after_forward=reshards)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            first, second = model(x).square().sum(), model(x * 2).sum()
            for param in model.parameters():
                param.grad = torch.ones_like(param)
            optimizer.step()
            optimizer.zero_grad()
            first.backward()
            second.backward()
            return first.detach()

        run = prepared(step)
        for number in range(2):
            show(reshards, kit.v(run(kit.x(number))), [kit.v(param.grad) for param in model.parameters()])


def backward_again(torch: Any, show: Any) -> None:
    """A backward pass that fails does not keep the next one from reducing the gradients."""
    kit = Kit(torch, show)
    model = kit.F.fully_shard(kit.mlp())
    for raises in (True, False):

        def hook(g: Any, raises: bool = raises) -> None:
            if raises:
                raise ValueError("no gradient")

        handle = model[0].register_forward_hook(lambda m, i, out, hook=hook: out.register_hook(hook) and None)
        kit.outcome(lambda: model(kit.x()).sum().backward())
        handle.remove()
    show([kit.v(param.grad)[:2] for param in model.parameters()])


def hooks_that_pytorch_loses(torch: Any, show: Any) -> None:
    """Hooks on parameters, from before `fully_shard` and after; PyTorch calls only the last kind."""
    kit = Kit(torch, show)
    layer = kit.nn.Linear(2, 2, bias=False)
    kit.nn.init.ones_(layer.weight)
    removed = layer.weight.register_hook(lambda g: show("removed"))
    layer.weight.register_hook(lambda g: show("tensor, before", kit.v(g)))
    layer.weight.register_post_accumulate_grad_hook(lambda p: show("post accumulate, before", kit.v(p.grad)))
    kit.F.fully_shard(layer)
    layer.weight.register_hook(lambda g: g * 2)
    layer.weight.register_hook(lambda g: show("tensor, after", kit.v(g)))
    layer.weight.register_post_accumulate_grad_hook(lambda p: show("post accumulate, after", kit.v(p.grad)))
    node = layer.weight.view_as(layer.weight).grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: show("node pre", kit.v(grads)))
    node.register_hook(lambda inputs, outputs: show("node post", kit.v(outputs)))
    removed.remove()
    for _ in range(2):
        layer(torch.full((1, 2), float(kit.rank + 1))).sum().backward()
        show(kit.v(layer.weight.grad))
