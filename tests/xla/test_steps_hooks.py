"""Hooks in compiled steps: each acts as it does eagerly, in its turn and with the values of its turn, or is refused."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.base.hooks import fire
from undertow._src.compile import CompileError
from undertow.autograd import graph

case = Cases()


@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    agree(case[name])


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


def hooked(hang: Any) -> Any:
    """A small training step with hooks hung on it by `hang(model, optimizer, log)`."""

    def build() -> Case:
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        log: list[Any] = []
        hang(model, optimizer, log)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return Case(step, model, optimizer, args=batch, log=log)

    build.__name__ = hang.__name__
    return build


# --- gradients of tensors


@case
@hooked
def clips(model: Any, optimizer: Any, log: list[Any]) -> None:
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.1, 0.1))


@case
@hooked
def logs_norms(model: Any, optimizer: Any, log: list[Any]) -> None:
    for name, p in model.named_parameters():
        p.register_hook(lambda g, name=name: log.append((name, g.norm().item())))


@case
@hooked
def appends_gradients(model: Any, optimizer: Any, log: list[Any]) -> None:
    model[0].weight.register_hook(log.append)


@case
@hooked
def logs_and_changes(model: Any, optimizer: Any, log: list[Any]) -> None:
    def change(g: Any) -> Any:
        log.append(("change", float(g.sum())))
        return g * 0.5

    model[0].weight.register_hook(change)
    model[2].weight.register_hook(lambda g: log.append(("look", g.numpy().copy())))
    model[0].bias.register_hook(lambda g: log.append(("look later", g.tolist())))


@case
@hooked
def writes_and_prints(model: Any, optimizer: Any, log: list[Any]) -> None:
    def double(g: Any) -> None:
        log.append(g.sum().item())
        g.mul_(2)

    model[0].weight.register_hook(double)


@case
@hooked
def chooses_by_value(model: Any, optimizer: Any, log: list[Any]) -> None:
    def normalise(g: Any) -> Any:
        if g.norm() > 1:
            return g / g.norm()
        return None

    for p in model.parameters():
        p.register_hook(normalise)


@case
@hooked
def counts(model: Any, optimizer: Any, log: list[Any]) -> None:
    calls = 0

    def count(g: Any) -> None:
        nonlocal calls
        calls += 1
        log.append(calls)

    def scaled(g: Any) -> Any:
        return g * (1 + calls)

    model[2].weight.register_hook(count)
    model[0].weight.register_hook(scaled)


@case
@hooked
def reads_a_parameter(model: Any, optimizer: Any, log: list[Any]) -> None:
    weight = model[0].weight
    model[0].bias.register_hook(lambda g: log.append(weight.sum().item()))
    model[2].bias.register_hook(lambda g: g + weight.mean())
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(weight.sum().item()))


@case
@hooked
def one_shot(model: Any, optimizer: Any, log: list[Any]) -> None:
    def once(g: Any) -> None:
        log.append("once")
        handle.remove()

    handle = model[0].weight.register_hook(once)


@case
@hooked
def noise(model: Any, optimizer: Any, log: list[Any]) -> None:
    model[0].weight.register_hook(lambda g: g + torch.randn_like(g))


# --- after accumulation


@case
@hooked
def post_accumulate(model: Any, optimizer: Any, log: list[Any]) -> None:
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: log.append((p.grad.sum().item(), p.sum().item())))


@case
@hooked
def post_accumulate_changes(model: Any, optimizer: Any, log: list[Any]) -> None:
    def shrink(p: Any) -> None:
        p.grad.mul_(0.5)

    def shrink_aloud(p: Any) -> None:
        log.append(p.grad.sum().item())
        p.grad.mul_(0.5)

    model[0].weight.register_post_accumulate_grad_hook(shrink)
    model[2].weight.register_post_accumulate_grad_hook(shrink_aloud)


@case
def optimizer_in_backward() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizers = {p: optim.Adam([p], lr=0.1) for p in model.parameters()}

    def update(p: Any) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step(x: Any) -> Any:
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    return Case(step, model, *optimizers.values(), args=batch)


@case
@hooked
def drops_gradient(model: Any, optimizer: Any, log: list[Any]) -> None:
    def drop(p: Any) -> None:
        p.grad = None

    model[0].weight.register_post_accumulate_grad_hook(drop)


# --- modules


@case
@hooked
def forward_hooks(model: Any, optimizer: Any, log: list[Any]) -> None:
    model[0].register_forward_hook(lambda m, i, o: o * 2)
    model[0].register_forward_pre_hook(lambda m, i: (i[0] + 1,))
    model[1].register_forward_hook(lambda m, i, o: log.append(("forward", o.mean().item(), i[0].sum().item())))
    model[2].register_forward_pre_hook(lambda m, i: log.append(("before", m.weight.sum().item())))
    model.register_forward_hook(lambda m, a, kw, o: log.append(sorted(kw)), with_kwargs=True)


@case
@hooked
def fills_a_buffer_and_counts(model: Any, optimizer: Any, log: list[Any]) -> None:
    total = torch.zeros(4)

    def note(module: Any, args: Any, out: Any) -> None:
        total.add_(out.detach().sum(0))
        log.append(total.sum().item())

    model[0].register_forward_hook(note)


@case
def extracts_features() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    features: dict[str, Any] = {}
    kept: list[Any] = []

    def taken(name: str) -> Any:
        def take(m: Any, i: Any, o: Any) -> None:
            features[name] = o.detach()

        return take

    for name, module in model.named_children():
        module.register_forward_hook(taken(name))
    model[1].register_forward_hook(lambda m, i, o: kept.append(o.detach()))

    def step(x: Any) -> Any:
        return model(x).sum().detach()

    return Case(step, features, kept, args=batch, between=lambda turn: kept.append(features["1"]))


@case
@hooked
def backward_hooks(model: Any, optimizer: Any, log: list[Any]) -> None:
    model[2].register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))
    model[1].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    model[1].register_full_backward_hook(
        lambda m, gi, go: log.append((gi[0].sum().item(), go[0].sum().item())) if gi[0] is not None else None
    )


@case
@hooked
def backward_hook_logs_and_changes(model: Any, optimizer: Any, log: list[Any]) -> None:
    def change(m: Any, gi: Any, go: Any) -> Any:
        log.append(gi[0].sum().item())
        return (gi[0] * 0.5,)

    model[2].register_full_backward_hook(change)


@case
@hooked
def old_backward_hooks(model: Any, optimizer: Any, log: list[Any]) -> None:
    model[1].register_backward_hook(lambda m, gi, go: log.append(go[0].sum().item()))


@case
@hooked
def module_keeps_statistics(model: Any, optimizer: Any, log: list[Any]) -> None:
    def keep(m: Any, i: Any, o: Any) -> None:
        m.last = o.detach().abs().mean()

    model[1].register_forward_hook(keep)
    model[2].register_forward_hook(lambda m, i, o: log.append(model[1].last.item()))


@case
def on_all_modules() -> Case:
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

    def step(x: Any) -> Any:
        handle = nn.modules.module.register_module_forward_hook(lambda m, i, o: log.append(o.sum().item()))
        loss = model(x).sum()
        loss.backward()
        handle.remove()
        return loss

    return Case(step, model, args=batch, log=log)


# --- nodes, several tensors, saved values, optimizers


@case
def hooks_made_in_the_step() -> Case:
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

    def step(x: Any) -> Any:
        model.zero_grad()
        hidden = model[0](x)
        hidden.register_hook(lambda g: g * 3)
        hidden.register_hook(lambda g: log.append(g.sum().item()))
        out = model[2](hidden.tanh())
        out.grad_fn.register_prehook(lambda g: log.append(("pre", g[0].sum().item())))
        out.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 2 for g in gi))
        out.grad_fn.register_hook(lambda gi, go: log.append(len(gi)))
        out.pow(2).sum().backward()

    return Case(step, model, args=batch, log=log)


@case
def multi_grad() -> Case:
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    graph.register_multi_grad_hook(
        list(model.parameters()), lambda grads: log.append([None if g is None else g.sum().item() for g in grads])
    )
    graph.register_multi_grad_hook(list(model.parameters()), lambda g: log.append(g.sum().item()), mode="any")

    def step(x: Any) -> Any:
        model.zero_grad()
        model(x).pow(2).sum().backward()

    return Case(step, model, args=batch, log=log)


@case
def saved_tensors() -> Case:
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

    def pack(x: Any) -> Any:
        return x * 2

    def unpack(x: Any) -> Any:
        return x / 2

    def step(x: Any) -> Any:
        model.zero_grad()
        with graph.saved_tensors_hooks(pack, unpack):
            loss = model(x).pow(2).sum()
        loss.backward()

    return Case(step, model, args=batch, log=log)


@case
@hooked
def optimizer_hooks(model: Any, optimizer: Any, log: list[Any]) -> None:
    optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(o.param_groups[0]["lr"]))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(model[0].weight.sum().item()))

    def shrink(o: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for p in o.param_groups[0]["params"]:
                p.mul_(0.9)

    optimizer.register_step_post_hook(shrink)


# --- hooks that come, go, and fail


def changing(between: Any) -> Any:
    def build() -> Case:
        made = hooked(lambda model, optimizer, log: None)()
        model, log = made.state[0], made.log
        return Case(made.step, *made.state, args=batch, log=log, between=lambda turn: between(turn, model, log))

    return build


def _add_another(turn: int, model: Any, log: Any) -> None:
    model[0].weight.register_hook(lambda g: log.append((turn, g.sum().item())))
    model[2].weight.register_hook(lambda g: g * 0.5)
    model[1].register_forward_hook(lambda m, i, o: log.append("forward"))


case["added_between"] = changing(_add_another)


@case
def removed_between() -> Case:
    made = hooked(lambda model, optimizer, log: None)()
    model, log = made.state[0], made.log
    handles = [model[0].weight.register_hook(lambda g: log.append(g.sum().item())),
               model[1].register_forward_hook(lambda m, i, o: o * 2)]  # fmt: skip

    def between(turn: int) -> None:
        if handles:
            handles.pop().remove()

    return Case(made.step, *made.state, args=batch, log=log, between=between)


@pytest.mark.parametrize("inside", [False, True])
def test_a_hook_that_raises_leaves_everything_as_it_was(inside: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    fail = [False]

    def check(g: Any) -> Any:
        print(end="")
        if fail[0]:
            raise ValueError("no more")
        return g * 1 if inside else None

    model.weight.register_hook(check)

    @torch.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step(torch.ones(2, 3))
    before = [p.detach().clone() for p in model.parameters()]
    fail[0] = True
    with pytest.raises(ValueError, match="no more"):
        step(torch.ones(2, 3))
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before))
    fail[0] = False
    step(torch.ones(2, 3))
    assert not torch.equal(model.weight, before[0])


def refused(hang: Any, words: str) -> None:
    made = hooked(hang)()
    before = [p.detach().clone() for p in made.state[0].parameters()]
    with pytest.raises(CompileError, match=words) as caught:
        torch.compile(made.step)(torch.ones(5, 3))
    assert "test_steps_hooks.py" in str(caught.value)
    assert all(torch.equal(p, was) for p, was in zip(made.state[0].parameters(), before))


def test_a_hook_that_registers_hooks_is_refused() -> None:
    def hang(model: Any, optimizer: Any, log: Any) -> None:
        model[2].weight.register_hook(lambda g: model[0].weight.register_hook(lambda g: g * 2) and None)

    refused(hang, "registers a hook")


def test_a_forward_hook_whose_result_must_come_from_the_host_is_refused() -> None:
    def hang(model: Any, optimizer: Any, log: Any) -> None:
        model[1].register_forward_hook(lambda m, i, o: o * 2 if print(end="") is None else o)

    refused(hang, "Let one hook compute")


def test_a_forward_hook_that_writes_into_its_result_on_the_host_is_refused() -> None:
    def hang(model: Any, optimizer: Any, log: Any) -> None:
        model[0].register_forward_hook(lambda m, i, o: o.mul_(2) is not o or print(end=""))

    refused(hang, "Let one hook compute")


class Chosen:
    """A hook that calls what it was given to call."""

    def __init__(self) -> None:
        self.chosen = self.halved

    def halved(self, gradient: Any) -> Any:
        return gradient * 0.5

    def doubled(self, gradient: Any) -> Any:
        return gradient * 2

    def __call__(self, gradient: Any) -> Any:
        return self.chosen(gradient)


class Negated:
    def __call__(self, gradient: Any) -> Any:
        return -gradient


def test_what_a_hook_calls_may_be_another_function_or_object_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Case:
        weight, chosen = nn.Parameter(torch.ones(3)), Chosen()
        change: Any = lambda gradient: gradient * 3
        shaped: Any = Chosen()
        monkeypatch.setenv("UNDERTOW_TESTS_SCALE", "1")
        weight.register_hook(chosen)
        weight.register_hook(lambda gradient: shaped(change(gradient)))

        def step(x: Any) -> None:
            weight.grad = None
            (weight * x * float(os.environ["UNDERTOW_TESTS_SCALE"])).sum().backward()

        def between(turn: int) -> None:
            nonlocal change, shaped
            if turn == 1:
                chosen.chosen = chosen.doubled
            elif turn == 2:
                change = lambda gradient: gradient + 1
            elif turn == 3:
                shaped = Negated()
            elif turn == 4:
                monkeypatch.setenv("UNDERTOW_TESTS_SCALE", "7")

        return Case(step, weight, args=lambda turn: (torch.full((3,), 1.0 + turn),), between=between)

    agree(build, steps=6)


def test_one_function_calls_hooks_on_the_host() -> None:
    """After the program, and inside it: `hooks.fire`, as in eager code."""
    callers: list[Any] = []

    def notes(grad: Any) -> None:
        callers.append(sys._getframe(1).f_code is fire.__code__)

    def notes_and_doubles(grad: Any) -> Any:
        callers.append(sys._getframe(1).f_code is fire.__code__)
        return grad * 2

    for hook, where in ((notes, "after the program"), (notes_and_doubles, "inside the program")):
        w = torch.ones(3, requires_grad=True)
        w.register_hook(hook)
        step = torch.compile(lambda w=w: (w * 2).sum().backward())
        step()
        step()
        assert where in str(torch.compile.explain(step))
    assert callers == [True] * 4
