"""ZeroRedundancyOptimizer: programs that every rank of a pool runs, on undertow and on PyTorch."""

from __future__ import annotations

import copy
import importlib
from typing import Any


def _zero(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.distributed.optim").ZeroRedundancyOptimizer


def _numbers(tensor: Any) -> list[float]:
    return [round(float(x), 4) + 0.0 for x in tensor.detach().reshape(-1)[:4]]


def _model(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    )


def _train(torch: Any, model: Any, optimizer: Any, steps: int = 3) -> list[float]:
    rank = torch.distributed.get_rank()
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1 + rank + step, 12).reshape(4, 3)
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses


def _outcome(show: Any, call: Any, words: int = 4) -> None:
    try:
        show(call())
    except Exception as error:
        show(type(error).__name__, " ".join(str(error).split()[:words]))


def partition(torch: Any, show: Any) -> None:
    """Show which rank updates which parameter, and what each local optimizer holds."""
    model = _model(torch)
    groups = [
        {"params": list(model[0].parameters()), "lr": 0.1},
        {"params": [*model[2].parameters(), *model[4].parameters()], "momentum": 0.5},
    ]
    optimizer = _zero(torch)(groups, optimizer_class=torch.optim.SGD, lr=0.01)
    show(len(optimizer.param_groups), [len(group["params"]) for group in optimizer.param_groups])
    show([[tuple(p.shape) for p in group["params"]] for group in optimizer.optim.param_groups])
    show([{k: v for k, v in group.items() if k != "params"} for group in optimizer.optim.param_groups])
    show([{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups])
    show(type(optimizer.optim).__name__, len(optimizer.state), sorted(optimizer.defaults))
    extra = torch.nn.Parameter(torch.ones(7))
    optimizer.add_param_group({"params": [extra, torch.nn.Parameter(torch.ones(2))], "lr": 0.5})
    show([[tuple(p.shape) for p in group["params"]] for group in optimizer.optim.param_groups])
    show(str(optimizer).split())


def training(torch: Any, show: Any) -> None:
    """Train with and without DDP, and show losses, parameters and the size of the local state."""
    ddp = torch.nn.parallel.DistributedDataParallel
    for kind, options in (
        ("SGD", {"lr": 0.05, "momentum": 0.9}),
        ("Adam", {"lr": 0.05}),
        ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
        ("Adagrad", {"lr": 0.05}),
    ):
        for viewed in (False, True):
            model = ddp(_model(torch))
            optimizer = _zero(torch)(
                model.parameters(),
                optimizer_class=getattr(torch.optim, kind),
                parameters_as_bucket_view=viewed,
                **options,
            )
            show(kind, viewed, _train(torch, model, optimizer))
            show([_numbers(p) for p in model.parameters()], len(optimizer.optim.state))
    local = _model(torch)
    optimizer = _zero(torch)(local.parameters(), torch.optim.SGD, lr=0.1)
    show(_train(torch, local, optimizer), [_numbers(p) for p in local.parameters()])


def checkpoints(torch: Any, show: Any) -> None:
    """Collect the state on one rank, and load it on all."""
    dist = torch.distributed
    model = torch.nn.parallel.DistributedDataParallel(_model(torch))
    optimizer = _zero(torch)(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.05)
    _train(torch, model, optimizer)
    _outcome(show, lambda: optimizer.state_dict())
    for to in (0, 1):
        optimizer.consolidate_state_dict(to=to)
        if dist.get_rank() == to:
            state = optimizer.state_dict()
            show(list(state), [{k: v for k, v in g.items() if k in ("lr", "params")} for g in state["param_groups"]])
            for number, values in state["state"].items():
                show(number, {key: _numbers(value) for key, value in values.items()})
        else:
            _outcome(show, lambda: len(optimizer.state_dict()["state"]))
    shared = [copy.deepcopy(state) if dist.get_rank() == 1 else None]
    dist.broadcast_object_list(shared, src=1)
    weights = copy.deepcopy(model.state_dict())
    before = _train(torch, model, optimizer)
    model.load_state_dict(weights)
    again = _zero(torch)(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.7)
    again.load_state_dict(shared[0])
    show(again.param_groups[0]["lr"], again.optim.param_groups[0]["lr"], len(again.optim.state))
    show([again.state[param] is None for param in model.parameters()])
    show(before == _train(torch, model, again), before)


def schedules(torch: Any, show: Any) -> None:
    """Change options between steps: through the outer groups, by a scheduler, by hooks of the step."""
    model = torch.nn.parallel.DistributedDataParallel(_model(torch))
    optimizer = _zero(torch)(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer.register_step_pre_hook(lambda o, a, k: show("pre", type(o).__name__))
    optimizer.register_step_post_hook(lambda o, a, k: show("post", o.param_groups[0]["lr"]))
    for _ in range(3):
        show(_train(torch, model, optimizer, 1), optimizer.optim.param_groups[0]["lr"])
        scheduler.step()
    optimizer.param_groups[0]["lr"] = 0.3
    show(_train(torch, model, optimizer, 1), optimizer.optim.param_groups[0]["lr"])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3)).sum()
        loss.backward()
        return loss

    show(_numbers(optimizer.step(closure)), [_numbers(p) for p in model.parameters()])


def joined(torch: Any, show: Any) -> None:
    """Join: ranks with different numbers of batches."""
    join = importlib.import_module(f"{torch.__name__}.distributed.algorithms.join").Join
    model = torch.nn.parallel.DistributedDataParallel(_model(torch))
    optimizer = _zero(torch)(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.05)
    with join([model, optimizer]):
        show(_train(torch, model, optimizer, 2 + torch.distributed.get_rank()))
    show([_numbers(p) for p in model.parameters()])


def refused(torch: Any, show: Any) -> None:
    """Show the errors of the constructor."""
    kind = _zero(torch)
    weight = torch.nn.Parameter(torch.ones(2))
    for params in ([], 3, torch.ones(2), [3], [weight, "a"], [{"lr": 1.0}], [weight, {"params": [weight]}]):
        _outcome(show, lambda params=params: kind(params, optimizer_class=torch.optim.SGD, lr=0.1))
    _outcome(show, lambda: kind([weight], torch.optim.SGD))
    _outcome(show, lambda: kind([weight], lr=0.1), 2)
    made = kind([weight], optimizer_class=torch.optim.SGD, lr=0.1)
    _outcome(show, lambda: made.add_param_group({"params": [weight]}))
    _outcome(show, lambda: (made.join_device, made.join_process_group is torch.distributed.group.WORLD))
    _outcome(show, lambda: made.load_state_dict({"state": {}, "param_groups": []}))
