"""`compile(model)`, and compiled functions that are differentiated from outside: forward and backward as two programs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import nn, optim
from undertow._src.compile import CompileError


def twins(make: Any = None) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = (make or (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))))()
    other = copy.deepcopy(model)
    return model, other, torch.compile(other)


def same(a: Any, b: Any) -> None:
    if a is None or b is None:
        assert a is b
        return
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-5)


def same_state(model: nn.Module, other: nn.Module) -> None:
    for (name, a), (also, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert name == also
        same(a, b)
        same(a.grad, b.grad)
    for a, b in zip(model.buffers(), other.buffers(), strict=True):
        same(a, b)


def test_training_from_outside() -> None:
    model, other, compiled = twins()
    optimizers = [optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, other)]
    for _ in range(4):
        x = torch.randn(5, 3)
        for run, optimizer in ((model, optimizers[0]), (compiled, optimizers[1])):
            optimizer.zero_grad()
            run(x).pow(2).mean().backward()
            optimizer.step()
    same_state(model, other)
    # Gradients that come and go don't count.
    assert len(torch.compile.explain(compiled._forward).data[0]["programs"]) == 1


def test_several_forwards_before_a_backward() -> None:
    model, other, compiled = twins()
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    for run in (model, compiled):
        a, b = run(x), run(y)
        (a.sum() * 2 + b.pow(2).sum()).backward()
        (run(x) - run(y).detach()).pow(2).sum().backward()
    same_state(model, other)


def test_inputs_with_history() -> None:
    model, other, compiled = twins()
    leaves = [torch.full((5, 3), 0.5, requires_grad=True) for _ in range(2)]
    for run, leaf in ((model, leaves[0]), (compiled, leaves[1])):
        for scale in (1.0, 2.0):
            run(leaf * scale).pow(2).sum().backward()
    same(leaves[0].grad, leaves[1].grad)
    same_state(model, other)


def test_modes() -> None:
    model, other, compiled = twins(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))
    x = torch.randn(5, 3)
    for run in (model, compiled):
        torch.manual_seed(5)
        run(x).sum().backward()
        run.eval()
        with torch.no_grad():
            shown = run(x)
        assert not shown.requires_grad and shown.grad_fn is None
        run.train()
        run(x).sum().backward()
    same_state(model, other)
    other.eval()
    model.eval()
    same(model(x), compiled(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype is torch.bfloat16


def note(log: list[Any], what: str, value: Any) -> None:
    log.append((what, round(value.sum().item(), 3)))


def test_hooks_inside_and_on_parameters() -> None:
    model, other, compiled = twins()
    logs: list[list[Any]] = [[], []]
    for each, log in ((model, logs[0]), (other, logs[1])):
        each[0].register_forward_hook(lambda m, i, o: o * 2)
        each[1].register_forward_hook(lambda m, i, o, log=log: note(log, "forward", o))
        each[1].register_full_backward_hook(lambda m, gi, go, log=log: note(log, "backward", go[0]))
        each[0].weight.register_hook(lambda g, log=log: note(log, "weight", g))
        each[2].weight.register_hook(lambda g: g * 0.5)
        each[2].bias.register_post_accumulate_grad_hook(lambda p, log=log: note(log, "bias", p.grad))
    for _ in range(2):
        x = torch.randn(5, 3)
        model(x).pow(2).sum().backward()
        compiled(x).pow(2).sum().backward()
    # Hooks on parameters belong to the pass around the module: they fire when its own backward is through.
    for ours in (lambda kind: kind in ("forward", "backward"), lambda kind: kind not in ("forward", "backward")):
        assert [each for each in logs[0] if ours(each[0])] == [each for each in logs[1] if ours(each[0])]
    same_state(model, other)


def test_results_of_all_kinds() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x: Any, scale: float = 1.0, *, extra: Any = None) -> Any:
            out = self.inner(x) * scale
            return {"out": out, "pair": (out.detach(), out.argmax(1)), "name": "many", "extra": extra}

    model, other, compiled = twins(Many)
    x = torch.randn(5, 3)
    a, b = model(x, 2.0, extra="e"), compiled(x, 2.0, extra="e")
    same(a["out"], b["out"])
    same(a["pair"][1], b["pair"][1])
    assert b["name"] == "many" and b["extra"] == "e" and not b["pair"][0].requires_grad
    a["out"].sum().backward()
    b["out"].sum().backward()
    same_state(model, other)


def test_it_is_a_module() -> None:
    model, other, compiled = twins()
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in other.parameters()]
    compiled.load_state_dict({f"_orig_mod.{name}": value * 2 for name, value in model.state_dict().items()})
    x = torch.randn(5, 3)
    again = copy.deepcopy(compiled)
    same(compiled(x), again(x))
    again._orig_mod[0].weight.data.zero_()
    assert not torch.equal(compiled(x), again(x))
    assert not compiled.eval().training


def test_a_compiled_function_is_differentiated_from_outside() -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)

    @torch.compile
    def loss(x: Any, y: Any) -> Any:
        return ((weight * x - y) ** 2).sum()

    for scale in (1.0, 3.0):
        x, y = torch.tensor([scale, 2.0], requires_grad=True), torch.ones(2)
        weight.grad = None
        loss(x, y).backward()
        gradients = [x.grad.clone(), weight.grad.clone()]
        x.grad = weight.grad = None
        ((weight * x - y) ** 2).sum().backward()
        same(x.grad, gradients[0])
        same(weight.grad, gradients[1])
    value = loss(x, y)
    value.backward(retain_graph=True)
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_only_one_of_several_results_is_used() -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)

    @torch.compile
    def both(x: Any) -> Any:
        return weight * x, (weight**2).sum()

    for pick in (0, 1, 0):
        weight.grad = None
        both(torch.ones(2))[pick].sum().backward()
        same(weight.grad, torch.ones(2) if pick == 0 else 2 * weight.detach())


def test_an_argument_computed_outside_may_not_be_reached_by_a_backward_inside() -> None:
    weight = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x: Any) -> None:
        x.sum().backward()

    with pytest.raises(CompileError, match="computed outside"):
        step(weight * 2)
    assert weight.grad is None


def test_a_module_may_become_one_of_another_class() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2

    layer = nn.Linear(2, 1)
    step = torch.compile(lambda x: layer(x).detach())
    before = step(torch.ones(1, 2))
    layer.__class__ = Doubled
    assert torch.equal(step(torch.ones(1, 2)), before * 2)


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_hooks_on_parameters_fire_in_the_order_of_eager_mode(depth: int) -> None:
    def fired(compiled: bool) -> list[str]:
        model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(depth)])
        log: list[str] = []
        for name, parameter in model.named_parameters():
            parameter.register_hook(lambda gradient, name=name: log.append(name))
            parameter.register_post_accumulate_grad_hook(lambda parameter, name=name: log.append(f"after {name}"))
        call = torch.compile(model) if compiled else model
        for _ in range(2):
            call(torch.ones(2, 3)).sum().backward()
        return log

    assert fired(compiled=True) == fired(compiled=False)
