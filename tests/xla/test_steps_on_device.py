"""Steps on a device act as eager mode does there: where tensors are, and what hooks see, keep and compute.

`xla` is whatever JAX takes by default, so these run where there is no GPU.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow import nn
from undertow._src.compile.errors import CompileError

F = nn.functional


@pytest.fixture(autouse=True)
def on_device() -> Any:
    with torch.device("xla"):
        yield


def both(run: Callable[..., Any], what: Any) -> list[Any]:
    """What a run gives when compiled, and when not."""
    found = [run(what, compiled) for compiled in (True, False)]
    gc.collect()
    gc.collect()  # while a tensor lives on a device, ops look where their inputs are
    return found


def outcome(function: Callable[[Any], Any], compiled: bool) -> Any:
    """Where a result is and what it holds, or the error."""
    torch.manual_seed(0)
    try:
        result = (torch.compile(function) if compiled else function)(torch.arange(3.0))
    except RuntimeError as error:
        return str(error)
    return str(result.device), result.cpu().tolist()


def differentiated_twice(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that returns the gradient of a loss's gradient; x is given as one row and again reversed."""

    def function(x: Any) -> Any:
        rows = torch.stack([x, x.flip(0)]).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(rows**2), rows, create_graph=True)
        return torch.autograd.grad(gradient.pow(2).sum(), rows)[0].round(decimals=3)

    return function


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "twice, classes": differentiated_twice(lambda x: F.cross_entropy(x, torch.tensor([0, 2]))),
    "twice, weighted classes": differentiated_twice(
        lambda x: F.cross_entropy(x, torch.tensor([0, 2]), weight=torch.arange(1.0, 4), label_smoothing=0.1)
    ),
    "twice, several labels": differentiated_twice(
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, 1, -1], [2, -1, -1]]))
    ),
    "moved to the CPU": lambda x: x.cpu(),
    "moved to the first CPU": lambda x: x.to(torch.device("cpu", 0)) + torch.ones(3, device="cpu:0"),
    "computed on the CPU": lambda x: x.cpu() * 2 + torch.ones(3, device="cpu"),
    "moved back": lambda x: (x.cpu() * 2).to(x.device) + x,
    "made on the CPU": lambda x: torch.ones(3, device="cpu") * 2,
    "made there": lambda x: torch.ones(3) + x,
    "drawn on the CPU": lambda x: torch.rand(3, device="cpu"),
    "drawn there": lambda x: torch.rand(3) + torch.rand_like(x),
    "permuted": lambda x: torch.randperm(3),
    "both": lambda x: x + torch.ones(3, device="cpu"),
    "both, moved": lambda x: x.cpu() + x,
    "joined": lambda x: torch.cat([x, torch.zeros(1, device="cpu")]),
    "masked by the CPU": lambda x: x.masked_fill(torch.tensor([True, False, True], device="cpu"), 0.0),
    "a number on the CPU": lambda x: torch.tensor(2.0, device="cpu") * x,
    "a number on the right": lambda x: x - torch.tensor(2.0, device="cpu"),
    "indices on the CPU": lambda x: x[torch.tensor([0, 1], device="cpu")],
    "a mask on the CPU": lambda x: x[torch.tensor([True, False, True], device="cpu")],
    "copied from the CPU": lambda x: torch.zeros(3).copy_(torch.ones(3, device="cpu")),
    "chosen": lambda x: torch.multinomial(x + 1, 2),
    "dropped": lambda x: F.dropout(x, 0.5),
    "normalised": lambda x: F.softmax(x, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_are_where_eager_mode_has_them(name: str) -> None:
    found, expected = both(outcome, FUNCTIONS[name])
    assert found == expected


def kept_by(make: Callable[[list[Any], Any], tuple[Any, Any]], compiled: bool) -> Any:
    """What hooks of three steps keep, and the parameter after them."""
    torch.manual_seed(0)
    weight, kept = nn.Parameter(torch.ones(3)), list[Any]()
    step, look = make(kept, weight)
    step = torch.compile(step) if compiled else step
    for turn in range(3):
        with contextlib.suppress(ValueError):
            step(torch.arange(3.0) + turn)
    shown = [(str(each.device), each.tolist()) if isinstance(each, torch.Tensor) else each for each in (*kept, *look())]
    return shown, weight.cpu().tolist()


def _stepping(weight: Any) -> Callable[[Any], None]:
    def step(x: Any) -> None:
        weight.grad = None
        (weight * x).sum().backward()
        with torch.no_grad():
            weight.sub_(0.1 * weight.grad)

    return step


def keeps_and_returns(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    """The program waits for the hook."""

    def hook(gradient: Any) -> Any:
        kept.append(gradient)
        kept.append(gradient.detach().clone() * len(kept))
        kept.append(gradient.cpu())
        kept.append((str(gradient.device), gradient.is_cpu, repr(gradient), type(gradient) is torch.Tensor))
        return gradient * (2 if len(kept) % 8 else 3)

    weight.register_hook(hook)
    return _stepping(weight), list


def computes_with_what_it_kept(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    def hook(gradient: Any) -> Any:
        kept.append(gradient + kept[-1] if kept else gradient + torch.ones(3))
        return gradient + kept[-1] / 10

    weight.register_hook(hook)
    return _stepping(weight), list


def copies_before_it_writes(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    def hook(leaf: Any) -> None:
        kept.append(leaf.grad.detach().cpu().numpy().tolist())
        kept.append(leaf.grad.detach().cpu())
        leaf.grad.clamp_(-1, 1)

    weight.register_post_accumulate_grad_hook(hook)
    return _stepping(weight), list


def keeps_a_gradient(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    def hook(leaf: Any) -> None:
        kept.append(leaf.grad)
        leaf.grad.mul_(len(kept))

    weight.register_post_accumulate_grad_hook(hook)
    return _stepping(weight), lambda: [kept[-1] is weight.grad]


def raises_after_one_that_returns(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    """What the first hook returned in the program is used again when the step runs as it is written."""

    def hook(gradient: Any) -> Any:
        kept.append(gradient.sum().item())
        return gradient * 2

    def raising(leaf: Any) -> None:
        kept.append(str(leaf.grad.device))
        if len(kept) == 4:
            raise ValueError("twice")

    weight.register_hook(hook)
    weight.register_post_accumulate_grad_hook(raising)
    step = _stepping(weight)
    return step, lambda: [str(weight.grad.device), weight.grad.tolist()]


def differentiates_and_drops(kept: list[Any], weight: Any) -> tuple[Any, Any]:
    def hook(gradient: Any) -> Any:
        with torch.enable_grad():
            leaf = gradient.detach().clone().requires_grad_()
            F.relu(leaf * gradient.sum().item()).sum().backward()
        kept.append(leaf.grad)
        return F.dropout(gradient, 0.0) + leaf.grad

    weight.register_hook(hook)
    return _stepping(weight), list


@pytest.mark.parametrize(
    "make",
    [
        keeps_and_returns, computes_with_what_it_kept, copies_before_it_writes, keeps_a_gradient,
        raises_after_one_that_returns, differentiates_and_drops,
    ],
)  # fmt: skip
def test_hooks_inside_a_program_see_tensors_there(make: Any) -> None:
    found, expected = both(kept_by, make)
    assert found == expected


def test_a_weight_is_not_read_from_where_an_alias_of_it_was_kept() -> None:
    def run(_: None, compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model, kept = nn.Linear(2, 3), dict[str, Any]()
        handle = model.register_forward_hook(lambda *given: kept.__setitem__("last", model.weight.detach()))

        def step(x: Any) -> Any:
            kept["last"] = x * 1
            return model(x)

        called, found = torch.compile(step) if compiled else step, []
        for turn in range(4):
            found.append(called(torch.full((3, 2), turn + 1.0)).tolist())
            if not turn:
                handle.remove()  # the alias is there when the step is compiled again, and then no more
        return found

    found, expected = both(run, None)
    assert found == expected


def test_an_alias_of_a_parameter_that_a_hook_inside_a_program_keeps_is_refused() -> None:
    def run(_: None, compiled: bool) -> str:
        weight, kept = nn.Parameter(torch.ones(3)), list[Any]()

        def hook(leaf: Any) -> None:
            kept.append(leaf.detach())
            leaf.grad.mul_(len(kept))

        weight.register_post_accumulate_grad_hook(hook)
        try:
            (torch.compile(_stepping(weight)) if compiled else _stepping(weight))(torch.ones(3))
        except CompileError as error:
            return str(error)
        return ""

    refusal, _ = both(run, None)
    assert "keeps an alias" in refusal and "clone()" in refusal


def test_a_tensor_kept_by_a_hook_takes_part_in_later_backward_passes() -> None:
    def run(_: None, compiled: bool) -> Any:
        weight, kept = nn.Parameter(torch.ones(3)), list[Any]()

        def hook(gradient: Any) -> Any:
            kept.append(gradient * gradient.sum().item())
            return gradient * len(kept)

        weight.register_hook(hook)
        (torch.compile(_stepping(weight)) if compiled else _stepping(weight))(torch.ones(3))
        other = nn.Parameter(torch.ones(3))
        (other * kept[-1]).sum().backward()
        torch.optim.Adam([other]).step()
        return str(other.grad.device), other.grad.tolist(), other.tolist()

    found, expected = both(run, None)
    assert found == expected


SHARED: dict[str, Callable[[Any], Any]] = {
    "all of it": lambda memory: memory,
    "a part": lambda memory: memory[2:],
    "the part of another order": lambda memory: memory.reshape(3, 2)[:, 1],
    "a copy": lambda memory: memory[:3].clone(),
}


@pytest.mark.parametrize("name", SHARED)
def test_memory_that_a_parameter_is_given_stays_shared(name: str) -> None:
    def run(share: Callable[[Any], Any], compiled: bool) -> Any:
        memory = torch.arange(3.0 if name == "all of it" else 5.0 if name == "a part" else 6.0)
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.5)

        def train(x: Any) -> None:
            optimizer.zero_grad()
            (weight * x).sum().backward()
            optimizer.step()

        step = torch.compile(train) if compiled else train
        found = []
        for turn in range(6):
            if turn == 3:
                weight.data = share(memory)
            if turn == 5:
                memory.add_(10)
            step(torch.arange(3.0) + 1)
            found.append([weight.tolist(), memory.tolist()])
        return found

    found, expected = both(run, SHARED[name])
    assert found == expected


def noted(_: None, compiled: bool) -> Any:
    """Return what hooks note of a step that changes parameters and gradients after them."""
    torch.manual_seed(0)
    first, layer, log, state = nn.Linear(3, 3), nn.Linear(3, 3), list[Any](), {"step": 0, "last": 0.0}
    whole = nn.Parameter(torch.ones(3, dtype=torch.float64))
    layer.register_forward_hook(lambda m, args, out: log.append((state["step"], out.detach().norm().item())))
    layer.weight.register_hook(lambda g: log.append(g.abs().max().item()))
    layer.register_full_backward_hook(lambda m, into, out: log.append([(out[0] > 0).sum().item(), state["last"]]))
    whole.register_hook(lambda g: log.append(f"{g.mean().item():.3f}"))
    optimizer, x = torch.optim.Adam([*layer.parameters(), whole], lr=0.1), torch.arange(6.0).view(2, 3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (layer(first(x)) * whole).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = torch.compile(step) if compiled else step
    losses = []
    for _ in range(4):
        losses.append(step().item())
        log.append(whole.grad.sum().item())
        state["last"], state["step"] = losses[-1], state["step"] + 1
    if compiled:
        program = max((each for kept in step.programs.values() for each in kept), key=lambda each: each.used)
        assert program.callbacks.are_notes
    return losses, log, state, layer.weight.tolist()


def test_numbers_that_hooks_note_are_those_of_eager_mode() -> None:
    compiled, eager = both(noted, None)
    assert compiled[2]["step"] == eager[2]["step"] == 4
    assert [str(each)[:7] for each in compiled[1]] == [str(each)[:7] for each in eager[1]]
    assert [type(each) for each in compiled[1]] == [type(each) for each in eager[1]]
    torch.testing.assert_close(compiled[0] + compiled[3][0], eager[0] + eager[3][0])
