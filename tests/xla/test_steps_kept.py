"""What hooks and statements on the host keep of a step: tensors and containers go on changing as in eager mode."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_is_kept_as_in_eager_mode(name: str) -> None:
    agree(case[name], programs=2, tolerance=1e-3)  # normalizing small batches makes much of little


class Record:
    def __init__(self, name: str) -> None:
        self.name, self.values = name, list[Any]()


def images(turn: int) -> tuple[Any]:
    return (torch.arange(18.0).view(6, 3).sin() + 0.1 * turn,)


def trained(model: Any, look: Any, after: Any = lambda: None, noting: Any = lambda x, loss: None) -> Case:
    """A training step; what is done before the optimizer's turn, and noted at the end."""
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        after()
        optimizer.step()
        noting(x, loss)
        return loss

    return Case(step, model, args=images, look=look)


def layers() -> Any:
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.BatchNorm1d(3), nn.Linear(3, 2))


@case
def outputs_that_a_later_op_writes_to() -> Case:
    model, kept = layers(), list[Any]()
    model[0].register_forward_hook(lambda module, args, out: kept.append(out))
    model[0].register_forward_hook(lambda module, args, out: kept.append(out.detach().view(-1)[:2]))
    model[1].register_forward_hook(lambda module, args, out: kept.append((args[0].sum().item(), out)))
    return trained(model, lambda: [kept, [kept[-3] is kept[-1][1]]])


@case
def outputs_kept_inside_the_program() -> Case:
    model, kept = layers(), list[Any]()

    def keeps_and_writes(module: Any, args: Any, out: Any) -> None:
        kept.append(out)
        print(end="")
        module.weight.data.add_(0.01 * len(kept) / len(kept))

    model[0].register_forward_hook(keeps_and_writes)
    return trained(model, lambda: kept)


@case
def memory_of_parameters() -> Case:
    model, kept = layers(), list[Any]()
    model[0].register_forward_hook(lambda module, args, out: kept.append(module.weight.data))
    model[3].register_forward_hook(
        lambda module, args, out: kept.append([module.weight.detach()[0], module.weight.norm()])
    )
    model[2].register_forward_hook(
        lambda module, args, out: kept.append([module.running_mean, dict(module.state_dict())])
    )
    return trained(model, lambda: [kept, [kept[-2][0] is model[2].running_mean]])


@case
def gradients_that_are_clipped_afterwards() -> Case:
    model, kept = layers(), list[Any]()
    model[0].weight.register_post_accumulate_grad_hook(lambda weight: kept.append(weight.grad))
    model[3].weight.register_hook(lambda gradient: kept.append(gradient))

    def clip() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        kept.append([weight.grad for weight in model.parameters()])

    return trained(model, lambda: [kept, [kept[-2] is model[0].weight.grad, kept[-1][0] is kept[-2]]], clip)


@case
def gradients_that_are_zeroed_in_place() -> Case:
    weight, kept = nn.Parameter(torch.ones(3)), list[Any]()
    weight.register_post_accumulate_grad_hook(lambda weight: kept.append(weight.grad))

    def step(x: Any) -> None:
        (weight * x).pow(2).sum().backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=0.01)
        weight.grad.zero_()

    return Case(step, weight, args=images, look=lambda: [kept, [kept[0] is kept[-1] is weight.grad]])


@case
def arguments_and_results() -> Case:
    model, kept, given = layers(), list[Any](), list[Any]()
    model[0].register_forward_pre_hook(lambda module, args: kept.append(args[0]))
    built = trained(model, lambda: [kept, given, [kept[-1][0] is given[-1], kept[-2] is given[-1]]],
                    noting=lambda x, loss: kept.append((x, loss)))  # fmt: skip

    training = built.step

    def step(x: Any) -> Any:
        loss = training(x)
        x.mul_(3)
        return loss

    def args(turn: int) -> tuple[Any]:
        given.append(images(turn)[0])
        return (given[-1],)

    return Case(step, model, args=args, look=built.look)


@case
def kept_before_and_read_at_a_later_turn() -> Case:
    model, kept, sums = layers(), list[Any](), list[Any]()
    model[0].register_forward_hook(lambda module, args, out: kept.append(module.weight.data))
    model[3].register_forward_hook(lambda module, args, out: sums.append([each.sum().item() for each in kept]))

    def step(x: Any) -> Any:
        kept.append(x)
        x.mul_(1.5)
        with torch.no_grad():
            model[0](x)
            model[0].weight.mul_(0.5)
        return model[3](x).sum()

    return Case(step, model, args=images, look=lambda: [kept, sums])


@case
def kept_before_a_call_that_is_skipped() -> Case:
    model, kept, steps = nn.Linear(3, 2), list[Any](), list[int]()
    optimizer, scaler = optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    model.register_forward_hook(lambda module, args, out: kept.append(out))
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: steps.append(len(kept)))

    def step(x: Any, factor: Any) -> None:
        optimizer.zero_grad()
        out = model(x)
        loss = (out * 1).sum() * factor
        with torch.no_grad():
            out.mul_(3)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def args(turn: int) -> tuple[Any, Any]:
        return (*images(0), torch.tensor([1.0, float("inf"), 2.0][turn]))

    return Case(step, model, args=args, look=lambda: [[out.detach() for out in kept], steps])


@case
def state_that_the_step_left_before() -> Case:
    model, kept, state = layers(), list[Any](), {"hidden": torch.zeros(6, 3)}
    model[3].register_forward_hook(lambda module, args, out: kept.append(state["hidden"].sum().item()))

    def step(x: Any) -> Any:
        state["hidden"] = (state["hidden"] * 0.5 + model[0](x)).detach()
        return model[3](state["hidden"]).sum()

    return Case(step, args=images, look=lambda: [kept, state])


@case
def containers_that_the_step_fills_later() -> Case:
    model, kept = layers(), list[Any]()

    def step(x: Any) -> Any:
        rows, info = list[Any](), dict[str, Any]()
        gc.collect()  # what the step makes is told from what was there by Python's collector
        kept.append((rows, info))
        hidden = model[0](x)
        rows.append(hidden.detach())
        info["hidden"] = hidden.detach()
        kept.append(info)
        info["mean"] = model[3](hidden).mean().detach()
        rows.append(info["mean"])
        return rows, info

    def look() -> Any:
        rows, info = kept[-2]
        return [kept, [info is kept[-1], len(rows), len({id(each) for each, _ in kept[::2]})]]

    return Case(step, args=images, look=look)


def test_containers_in_a_circle() -> None:
    kept: list[Any] = []

    @torch.compile
    def step(x: Any) -> Any:
        inner: list[Any] = []
        outer = [inner]
        inner.append(outer)
        inner.append(x * 2)
        kept.append(inner)
        return outer

    for turn in range(3):
        outer = step(torch.full((2,), float(turn)))
        assert outer[0] is kept[-1] and outer[0][0] is outer and outer[0][1].tolist() == [2.0 * turn] * 2
    assert len({id(each) for each in kept}) == 3


def named() -> list[str]:
    return ["made", "elsewhere"]


@case
def plain_things_that_each_call_makes() -> Case:
    model, kept = layers(), list[Any]()

    def step(x: Any) -> Any:
        names, record = named(), Record("k")
        kept.append(names)
        kept.append(record)
        return model(x).sum(), record, names

    def between(turn: int) -> None:
        kept[-2].append(turn)
        kept[-1].values.append(turn)

    return Case(step, args=images, look=lambda: kept, between=between)


@case
def attributes_of_what_is_returned() -> Case:
    model = layers()

    def step(x: Any) -> Any:
        out = model(x)
        out.tag, out.doubled = "out", out.detach() * 2
        return {"out": out}

    def plain(x: Any) -> Any:
        out = step(x)["out"]
        return [out, out.tag, out.doubled]

    return Case(plain, args=images)


def test_attributes_are_there_in_each_call() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        out = x * 2
        out.tag, out.next = "out", out + 1
        return out

    for turn in range(3):
        out = step(torch.full((2,), float(turn)))
        assert out.tag == "out" and out.next.tolist() == [2.0 * turn + 1] * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_on_a_device(compiled: bool) -> None:
    keep_on_a_device(compiled)
    gc.collect()  # while tensors live on a device, ops look where they are


def keep_on_a_device(compiled: bool) -> None:
    torch.manual_seed(0)
    model, kept = layers().to("xla"), list[Any]()
    model[0].register_forward_hook(lambda module, args, out: kept.append(out))
    model[0].register_forward_hook(lambda module, args, out: kept.append(module.weight.data))
    model[0].weight.register_post_accumulate_grad_hook(lambda weight: kept.append(weight.grad))

    def clip() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    step = trained(model, None, clip).step
    step = torch.compile(step) if compiled else step
    for turn in range(3):
        step(images(turn)[0].to("xla"))
    outs, weights, gradients = kept[0::3], kept[1::3], kept[2::3]
    assert all(each.device.type == "xla" for each in kept)
    assert all(out.min().item() == 0 for out in outs) and gradients[-1] is model[0].weight.grad
    assert all(weight.tolist() == model[0].weight.tolist() for weight in weights)
    assert all(0 < gradient.norm().item() < 0.1 for gradient in gradients)


@case
def hook_in_the_program_keeps_an_alias_of_the_gradient():
    weight, kept = torch.ones(3, requires_grad=True), {}

    def keep(gradient):
        kept["gradient"] = gradient.detach()

    weight.register_hook(keep)

    def step(x):
        weight.grad = None
        (weight * x).pow(2).sum().backward()
        weight.grad.mul_(0.5)

    return Case(step, weight, kept, args=lambda turn: (torch.full((3,), turn + 1.0),), look=lambda: kept["gradient"])


def test_a_hook_keeps_an_alias_of_the_parameter_and_writes_to_its_gradient() -> None:
    def build() -> Case:
        held, log = {"n": 0, "last": None}, list[Any]()  # found before the model, by name
        model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))

        def keep(parameter: Any) -> None:
            held["last"] = parameter.detach()
            parameter.grad.mul_(0.5)

        def step(x: Any) -> None:
            model(x).pow(2).mean().backward()
            log.append(held["n"])

        def register(turn: int) -> None:
            if turn < 2:
                hook = keep if turn == 0 else lambda parameter: None
                model[2 * turn].weight.register_post_accumulate_grad_hook(hook)

        look = lambda: [parameter.detach().numpy().sum() for parameter in model.parameters()]
        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), log=log, between=register, look=look)

    agree(build, steps=4)


@pytest.mark.parametrize("keeps", ["a statement", "a hook"])
@pytest.mark.parametrize("asks", ["grad", "unused", "several", "backward", "in a step"])
def test_a_graph_that_nothing_has_is_not_left_out_of_a_backward_pass(keeps: str, asks: str) -> None:
    """Where inputs are named, only what leads to them runs. Eager mode goes back through the graph of what is kept."""
    model, kept, counts = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), list[Any](), list[int]()
    weight = model[0].weight

    def notes(module: Any, args: Any, out: Any) -> None:
        kept.append(out)
        counts.append(len(kept))

    if keeps == "a hook":
        model.register_forward_hook(notes)

    @torch.compile
    def step(x: Any) -> None:
        out = model(x)
        if keeps == "a statement":
            kept.append(out)
        out.pow(2).mean().backward(retain_graph=True)

    @torch.compile
    def other(x: Any) -> Any:
        return torch.autograd.grad(model[2](model[1](model[0](x))).sum() + kept[0].sum(), [weight])[0]

    step(torch.ones(2, 2))
    with pytest.raises(CompileError, match=r"no graph to go back through|computed in an earlier call"):
        if asks == "grad":
            torch.autograd.grad(kept[0].sum(), [weight])
        elif asks == "unused":
            torch.autograd.grad(kept[0], [weight], torch.ones(2, 2), allow_unused=True)
        elif asks == "several":
            torch.autograd.grad([weight.sum(), kept[0].sum()], [weight])
        elif asks == "backward":
            (weight.sum() + kept[0].sum()).backward(inputs=[weight])
        else:
            other(torch.ones(2, 2))
