"""Hooks that act on undertow's own objects and on the graph: they do so in the trace, and what else they do on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow._src.compile.splitting.effect_splitting import EffectSplitter

case = Cases()


@pytest.mark.parametrize("name", case)
def test_acts_as_in_eager_mode(name: str) -> None:
    agree(case[name], programs=2)


def trained(model: Any, look: Callable[[], Any] | None = None) -> Case:
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=look)


def small() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))


@case
def registers_hooks_on_what_a_module_gives() -> Case:
    model, gradients = small(), dict[Any, Any]()

    def watch(module: Any, args: Any, out: Any) -> None:
        out.register_hook(lambda gradient: gradients.__setitem__(module, gradient))
        out.grad_fn.register_prehook(lambda gradients: (gradients[0] * 0.5,))
        torch.autograd.graph.register_multi_grad_hook((out,), lambda given: order.append(given[0].sum().item()))

    order: list[float] = []
    model[0].register_forward_hook(watch)
    model[2].register_forward_hook(watch)
    return trained(model, lambda: [*gradients.values(), *order])


@case
def keeps_tensors_that_retain_their_gradients() -> Case:
    model, kept = small(), list[Any]()
    model[0].register_forward_hook(lambda module, args, out: out.retain_grad())
    model[0].register_forward_hook(lambda module, args, out: kept.append(out))
    return trained(model, lambda: [[out.detach(), out.grad] for out in kept])


@case
def keeps_a_tensor_that_it_finds_by_name() -> Case:
    weight, kept = nn.Parameter(torch.ones(3)), list[Any]()

    def step(x: Any) -> None:
        product = weight * x
        product.retain_grad()
        product.register_hook(lambda gradient: kept.append(product))
        product.sum().backward()

    return Case(step, weight, args=lambda turn: (torch.full((3,), 1.0 + turn),),
                look=lambda: [[each.detach(), each.grad] for each in kept])  # fmt: skip


@case
def switches_a_module_and_the_random_stream() -> Case:
    model = small()

    def switch(module: Any, args: Any) -> None:
        torch.manual_seed(3)
        module[1].p = 0.25

    model.register_forward_pre_hook(switch)
    return trained(model, lambda: torch.rand(2))


@case
def switches_gradients_off_and_on() -> Case:
    model = small()
    model[0].register_forward_pre_hook(lambda module, args: torch.set_grad_enabled(False) and None)
    model[0].register_forward_hook(lambda module, args, out: torch.set_grad_enabled(True) and None)
    return trained(model)


MODES = [torch.no_grad(), torch.enable_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)]


@pytest.mark.parametrize("around", MODES, ids=lambda mode: type(mode).__name__)
def test_one_that_a_mode_is_written_above_is_the_users(around: Any) -> None:
    weight, log = nn.Parameter(torch.ones(3)), []

    @around
    def note(gradient: Any) -> None:
        log.append(gradient.sum().item())

    weight.register_hook(note)

    @torch.compile
    def step(x: Any) -> None:
        weight.grad = None
        (weight * x).sum().backward()

    for turn in range(4):
        step(torch.full((3,), 1.0 + turn))
    assert log == [3, 6, 9, 12]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.share, self.calls = nn.Parameter(torch.tensor(0.5)), 0

    def forward(self, gradient: Any) -> Any:
        self.calls += 1
        return gradient * self.share.detach()


def test_modules_and_compiled_functions_as_hooks() -> None:
    weight, counting, log = nn.Parameter(torch.ones(3)), Counting(), list[int]()
    weight.register_hook(counting)
    weight.register_hook(torch.compile(lambda gradient: log.append(len(log))))

    @torch.compile
    def step() -> None:
        weight.grad = None
        weight.sum().backward()

    for turn in range(3):
        counting.share.data.fill_(turn)
        step()
        assert weight.grad is not None and weight.grad[0] == turn
    assert counting.calls == 3 and log == [0, 1, 2]


WITH_MORE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "retains": (lambda module, out: out.retain_grad(), "retain_grad"),
    "detaches": (lambda module, out: out.detach_(), "detach_"),
    "freezes": (lambda module, out: module.weight.requires_grad_(False), "requires_grad_"),
    "registers": (lambda module, out: out.grad_fn.register_prehook(print), "register_prehook"),
    "hangs": (lambda module, out: out.register_hook(print), "registers a hook"),
    "evaluates": (lambda module, out: module.eval(), "eval"),
    "loads": (lambda module, out: module.load_state_dict(module.state_dict()), "load_state_dict"),
    "seeds": (lambda module, out: torch.manual_seed(1), "manual_seed"),
    "switches": (lambda module, out: torch.set_grad_enabled(False), "set_grad_enabled"),
    "sets": (lambda module, out: setattr(module, "bias", None), "bias"),
    "tags": (lambda module, out: setattr(out, "tag", 1), "tag"),
}


@pytest.mark.parametrize("name", WITH_MORE)
def test_one_of_one_piece_that_also_has_to_run_on_the_host_is_named(name: str) -> None:
    act, word = WITH_MORE[name]
    layer, log = nn.Linear(3, 2), []  # type: Any, Any
    layer.register_forward_hook(lambda module, args, out: act(module, out) and log.append(1))

    @torch.compile
    def step(x: Any) -> None:
        layer(x).sum().backward()

    with pytest.raises(CompileError, match=rf"(?s)the hook .*lambda.*registered at .*test_steps_own_hooks.py:.*{word}"):
        step(torch.ones(1, 3))


@case
def notes_something_as_well() -> Case:
    act_on = ("loads", "detaches", "retains", "registers", "hangs", "evaluates", "seeds")
    model, log = nn.Sequential(*[nn.Linear(3, 3) for _ in act_on]), list[Any]()

    def acting(name: str) -> Callable[..., None]:
        def also(module: Any, args: Any, out: Any) -> None:
            log.append(name)
            WITH_MORE[name][0](module, out)
            log.append(out)

        return also

    for layer, name in zip(model, act_on, strict=True):
        layer.register_forward_hook(acting(name))
    noted = lambda each: each if isinstance(each, str) else [each, each.retains_grad and each.grad]
    return trained(model, lambda: [*map(noted, log)])


@case
def notes_something_and_gives_another_result() -> Case:
    model, log = small(), list[Any]()

    def doubled(module: Any, args: Any, out: Any) -> Any:
        log.append(out.sum().item())
        return out * 2

    def halved(module: Any, args: Any, out: Any) -> None:
        norm = out.norm().item()
        out.mul_(0.5)
        log.append((norm, out.norm().item()))

    def negated(module: Any, args: Any, kwargs: Any) -> Any:
        log.append(len(args))
        return (-args[0],), kwargs

    model[0].register_forward_hook(doubled)
    model[2].register_forward_hook(halved)
    model[2].register_forward_pre_hook(negated, with_kwargs=True)
    return trained(model, lambda: log)


@case
def steps_in_the_backward_pass_and_counts() -> Case:
    model, counts = small(), {"steps": 0}
    optimizers = {weight: optim.SGD([weight], lr=0.1) for weight in model.parameters()}

    def step_now(weight: Any) -> None:
        norm = weight.grad.norm()
        optimizers[weight].step()
        weight.grad = None
        counts["steps"] += 1
        counts[f"norm {counts['steps']}"] = norm.item()

    for weight in model.parameters():
        weight.register_post_accumulate_grad_hook(step_now)
    return Case(lambda x: model(x).pow(2).mean().backward(), model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),),
                look=lambda: dict(counts))  # fmt: skip


def test_one_that_each_step_makes_anew_stays_in_one_piece() -> None:
    layer, log = nn.Linear(3, 2), list[int]()

    @torch.compile
    def step(x: Any) -> None:
        def also(gradient: Any) -> Any:
            log.append(1)
            return gradient * 2

        out = layer(x)
        out.register_hook(also)
        out.sum().backward()

    for _ in range(3):
        step(torch.ones(1, 3))
    assert len(log) == 3 and layer.bias.grad.tolist() == [6, 6]


def test_what_the_step_makes_and_a_hook_changes_is_there_when_the_step_reads_it() -> None:
    layer, outside = nn.Linear(3, 2), list[Any]()

    def step(x: Any) -> Any:
        kept, calls, features, also_outside, counts = list[Any](), 0, list[Any](), outside, {"hooks": 0}

        def hook(gradient: Any) -> None:
            nonlocal calls
            calls += 1
            counts["hooks"] += 1

        handle = layer.register_forward_hook(lambda module, args, out: features.append(out))
        out = layer(x)
        handle.remove()
        out.register_hook(lambda gradient: kept.append(gradient))
        out.register_hook(hook)
        out.register_hook(lambda gradient: also_outside.append(gradient.sum().item()))
        (out * x.sum()).sum().backward()
        return kept[0] * calls if kept else None, len(kept), features[0] * 2, counts["hooks"]

    compiled = torch.compile(step)
    for value in (1.0, 2.0, 3.0):
        expected, found = step(torch.full((1, 3), value)), compiled(torch.full((1, 3), value))
        assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(expected, found, strict=True))
    assert outside == [6, 6, 12, 12, 18, 18]


def test_what_the_step_makes_and_a_hook_on_the_host_changes_is_refused() -> None:
    layer = nn.Linear(3, 2)

    @torch.compile
    def step(x: Any) -> Any:
        values: list[Any] = []
        handle = layer.register_forward_hook(lambda module, args, out: values.extend([print(end="")]))
        out = layer(x).sum()
        handle.remove()
        return out * len(values)

    with pytest.raises(CompileError, match="which the step itself has made"):
        step(torch.ones(1, 3))


def test_a_step_that_leaves_gradients_switched_off_is_refused() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        torch.set_grad_enabled(False)
        return x * 2

    try:
        with pytest.raises(CompileError, match="returns with gradients switched off"):
            step(torch.ones(1))
    finally:
        torch.set_grad_enabled(True)


def test_hooks_of_one_definition_come_apart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them used to take another trace."""
    model, log, weight = (
        nn.Sequential(*[nn.Linear(2, 2) for _ in range(4)]),
        list[Any](),
        torch.ones(2, requires_grad=True),
    )

    def noting(name: str) -> Callable[..., Any]:
        def clipped(gradient: Any) -> Any:
            log.append((name, gradient.sum().item()))
            return gradient.clamp(-1, 1)

        return clipped

    def doubled(module: Any, args: Any, out: Any) -> Any:
        log.append(out.sum().item())
        return out * 2

    for layer in model:
        layer.register_forward_hook(doubled)
    for name, parameter in model.named_parameters():
        parameter.register_hook(noting(name))

    @torch.compile
    def step(x: Any) -> Any:
        made = weight * x
        made.register_hook(noting("made"))  # another one in each trace
        loss = (model(x) + made).sum()
        loss.backward()
        return loss

    split = mock.Mock(wraps=EffectSplitter.split_hook)
    monkeypatch.setattr(EffectSplitter, "split_hook", functools.partialmethod(split))
    step(torch.ones(1, 2))
    assert split.call_count < 8 and len(log) == 4 + 1 + 8
