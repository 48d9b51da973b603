"""Masks whose number of rows only the program knows: one program while rows are added up, else one for each number."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.nn import functional as F

STEPS = 4
LABELS = [[0, -100, 2, 1, -100, 3], [1, 1, 2, -100, 0, 0], [0, -100, -100, -100, -100, 3], [2, 1, 2, 1, 0, 3]]


def batches(turn: int) -> tuple[Any, ...]:
    return torch.randn(6, 3), torch.tensor(LABELS[turn % len(LABELS)])


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))


def training(loss: Any, prepare: Any = None, batches: Any = batches) -> Case:
    net, log = model(), []  # type: ignore[var-annotated]
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    if prepare is not None:
        prepare(net, log)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss(net, x, y, log)
        value.backward()
        optimizer.step()
        return value

    return Case(step, net, log, args=batches)


def accuracy(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    kept = y != -100
    scores = net(x)[kept]
    share = (scores.argmax(-1) == y[kept]).float().mean()
    log.append(share.item())
    return F.cross_entropy(scores, y[kept], label_smoothing=0.1)


def of_rows(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    hidden = net[1](net[0](x))[y != -100]
    return F.layer_norm(net[2](hidden), (4,)).relu().sum(-1).mean()


def written_back(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    out, kept = net(x) * 1, y > 0
    out[kept] = out[kept] * 2
    return out.pow(2).mean()


def guarded(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y == 7]
    if chosen.numel() == 0:
        return net(x).mean()
    return chosen.mean()


def second_order(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    x = x.clone().requires_grad_()
    total = net(x)[y != -100].pow(2).sum()
    (grad,) = torch.autograd.grad(total, x, create_graph=True)
    return grad[y != -100].norm(dim=1).sub(1).pow(2).mean() + total


def contrasted(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    rows = F.normalize(net(x), dim=1)
    alike, same = rows @ rows.t(), y[:, None] == y
    return (1 - alike[same]).mean() + F.relu(alike[~same] - 0.1).sum()


def mixed_precision(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.cross_entropy(net(x[y != -100]), y[y != -100])


ONE_PROGRAM: dict[str, Any] = {
    "mean": lambda net, x, y, log: net(x)[y != -100].pow(2).mean(),
    "losses": lambda net, x, y, log: F.cross_entropy(net(x), y, reduction="none")[y != -100].sum() / (y != -100).sum(),
    "cross_entropy": lambda net, x, y, log: F.cross_entropy(net(x)[y != -100], y[y != -100]),
    "nll_loss": lambda net, x, y, log: F.nll_loss(net(x)[y != -100].log_softmax(1), y[y != -100], reduction="sum"),
    "accuracy": accuracy,
    "layers": of_rows,
    "numel": lambda net, x, y, log: (lambda chosen: chosen.pow(2).sum() / chosen.numel())(net(x)[y != -100]),
    "shape": lambda net, x, y, log: (lambda chosen: chosen.exp().sum() / chosen.shape[0])(net(x)[y != -100]),
    "masked_select": lambda net, x, y, log: net(x).masked_select(net(x) > 0).sqrt().sum(),
    "pooled": lambda net, x, y, log: net(x)[y != -100].mean(0).pow(2).sum(),
    "nonzero": lambda net, x, y, log: net(x)[(y != -100).nonzero().squeeze(1)].pow(2).mean(),
    "where": lambda net, x, y, log: net(x)[torch.where(y != -100)[0]].pow(2).mean(),
    "by two": lambda net, x, y, log: (lambda at: net(x)[at, y[at]].mean())(torch.where(y != -100)[0]),
    "mse_loss": lambda net, x, y, log: F.mse_loss(net(x)[y != -100][:, :3], x[y != -100]),
    "bce": lambda net, x, y, log: nn.BCEWithLogitsLoss()(net(x)[:, 0][y != -100], (y > 1).float()[y != -100]),
    "gather": lambda net, x, y, log: -net(x).log_softmax(-1)[y != -100].gather(1, y[y != -100][:, None]).mean(),
    "written back": written_back,
    "matrix": lambda net, x, y, log: net(x).view(2, 3, 4)[(y != -100).view(2, 3)][..., 1].relu().sum(),
    "beside": lambda net, x, y, log: (net(x)[y != -100] + net[2].bias).pow(2).mean(),
    "reshaped": lambda net, x, y, log: net(x)[y != -100].view(-1, 2, 2).sum((1, 2)).reshape(-1).mean(),
    "nothing": lambda net, x, y, log: net(x)[y == 7].sum() + net(x).mean(),
    "guarded": guarded,
    "a parameter": lambda net, x, y, log: net[0].weight[net[0].weight.abs() > 0.3].pow(2).sum(),
    "second order": second_order,
    "contrasted": contrasted,
    "half precision": mixed_precision,
    "another index beside": lambda net, x, y, log: net(x)[y != -100, 1].sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_PROGRAM)
def test_rows_that_are_added_up_are_one_program(name: str) -> None:
    agree(lambda: training(ONE_PROGRAM[name]), steps=STEPS, programs=2)  # the first call makes gradients


def kept(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    log.append(chosen.detach())
    return chosen.sum()


def hooked(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    chosen.register_hook(lambda g: log.append(g.shape))
    return chosen.sum()


def nodes(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    result = chosen.exp()
    log.append((chosen.grad_fn.name(), result.grad_fn.name()))
    return result.sum()


def in_place(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    chosen.mul_(2)
    return chosen.pow(2).mean()


def of_its_type(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    return chosen.sum() if type(chosen) is torch.Tensor else chosen.sum() * 2


def handled(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    try:
        return (net(x)[y != -100] * net(x)[y == -100]).sum()
    except RuntimeError:
        return net(x).sum()


def looked_up(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
    chosen = net(x)[y != -100]
    return chosen.sum() * {4: 2.0}.get(chosen.shape[0], 3.0)


A_PROGRAM_EACH: dict[str, Any] = {
    "cat": lambda net, x, y, log: torch.cat([net(x)[y != -100], x.new_ones(2, 4)]).mean(),
    "sorted": lambda net, x, y, log: net(x)[:, 0][y != -100].sort().values[0],
    "spread": lambda net, x, y, log: net(x)[y != -100].std(),
    "dropped": lambda net, x, y, log: F.dropout(net(x)[y != -100], 0.5).pow(2).mean(),
    "len": lambda net, x, y, log: net(x)[y != -100].sum() / len(x[y != -100]),
    "largest": lambda net, x, y, log: net(x)[y != -100].max(),
    "two axes": lambda net, x, y, log: (lambda chosen: (chosen @ chosen.t()).mean())(net(x)[y != -100]),
    "of none": lambda net, x, y, log: (lambda none: none.sum() + none[none[:, 0] > 0].sum(-1).cumsum(0).sum())(
        net(x)[y == 7].sort(-1).values
    ),
    "behind an axis": lambda net, x, y, log: net(x).t()[:, y != -100].mean(),
    "kept": kept, "hooked": hooked, "nodes": nodes, "in place": in_place, "type": of_its_type, "handled": handled,
    "looked up": looked_up,
}  # fmt: skip


@pytest.mark.parametrize("name", A_PROGRAM_EACH)
def test_all_else_is_a_program_for_each_number(name: str) -> None:
    agree(lambda: training(A_PROGRAM_EACH[name]))


def on_host(net: Any, log: list[Any]) -> None:
    net[2].register_forward_hook(lambda module, args, out: log.append((tuple(args[0].shape), out.sum().item())))
    net[2].register_full_backward_hook(
        lambda module, given, got: log.append((tuple(got[0].shape), given[0].sum().item()))
    )


def in_program(net: Any, log: list[Any]) -> None:
    net[2].register_forward_hook(lambda module, args, out: out * 2)
    net[2].weight.register_hook(lambda g: log.append(g.sum().item()))


@pytest.mark.parametrize(("prepare", "programs"), [(on_host, None), (in_program, 2)])
def test_hooks_are_given_the_rows(prepare: Any, programs: int | None) -> None:
    agree(lambda: training(of_rows, prepare), steps=STEPS, programs=programs)


def test_rows_that_are_not_selected_leave_no_trace() -> None:
    """Not even NaN: what they would give where the function has no gradient."""

    def loss(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
        return net[2](net[1](net[0](x))[y != -100]).abs().sqrt().log().sum()

    def infinite(turn: int) -> tuple[Any, ...]:
        x, y = batches(turn)
        return torch.where((y == -100)[:, None], float("inf"), x), y

    agree(lambda: training(loss, batches=infinite), steps=STEPS)


def test_a_forward_alone_and_a_backward_outside() -> None:
    net = model()
    forward = torch.compile(lambda x, y: (net(x)[y != -100].mean(), net(x)[y != -100]))
    for turn in range(3):
        x, y = batches(turn)
        found = []
        for run in (forward, lambda x, y: (net(x)[y != -100].mean(), net(x)[y != -100])):
            net.zero_grad()
            mean, rows = run(x, y)
            (mean + rows.pow(2).sum()).backward()
            found.append([mean.detach(), rows.detach(), *[p.grad for p in net.parameters()]])
        for one, other in zip(*found):
            torch.testing.assert_close(one, other)


def test_hooks_on_saved_tensors_would_be_given_another_index() -> None:
    def loss(net: Any, x: Any, y: Any, log: list[Any]) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return net(x)[y != -100].mean()

    with pytest.raises(CompileError, match=r"test_steps_masks.py:\d+, indexing with a mask"):
        torch.compile(training(loss).step)(*batches(0))
