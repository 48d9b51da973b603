"""What calls return and leave behind: objects of their own at each call, as eager code would make them."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    agree(case[name], steps=4)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((3,), 1.0 + turn),)


def causes(step: Any) -> list[str]:
    return torch.compile.explain(step).data[0]["recompiles"]


# --- tensors in the place of others


@case
def an_average_that_is_collected() -> Case:
    held, history = types.SimpleNamespace(average=torch.zeros(3)), []

    def step(x: Any) -> None:
        held.average = 0.9 * held.average + x

    def look() -> Any:
        history.append(held.average)
        return [list(history), len({id(each) for each in history})]

    return Case(step, args=one, look=look)


class Swapping(nn.Module):
    a: torch.Tensor
    b: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(3))
        self.register_buffer("b", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.a, self.b = self.b + x, self.a
        return self.a - self.b


@case
def buffers_that_change_places() -> Case:
    model = Swapping()
    first = model.a
    return Case(lambda x: model(x), model, args=one, look=lambda: [first, model.a is first, model.b is first])


@case
def a_gradient_that_a_hook_stores() -> Case:
    weight, stored = torch.ones(3, requires_grad=True), {}  # type: ignore[var-annotated]
    weight.register_hook(lambda gradient: stored.update(last=gradient))
    weight.register_hook(lambda gradient: setattr(weight, "doubled", gradient * 2))

    def step(x: Any) -> None:
        (weight * x).sum().backward()

    return Case(step, args=one, look=lambda: [dict(stored), weight.doubled])


def test_a_tensor_that_each_step_replaces_needs_one_program() -> None:
    held = types.SimpleNamespace(average=torch.zeros(3))

    @torch.compile
    def step(x: Any) -> None:
        held.average = 0.9 * held.average + x

    for turn in range(3):
        step(*one(turn))
    held.average = torch.zeros(3)
    step(*one(0))
    assert held.average.tolist() == [1.0, 1.0, 1.0] and not causes(step)


@case
def a_flag_that_is_turned() -> Case:
    weight = nn.Parameter(torch.ones(3))

    def step(x: Any) -> Any:
        weight.requires_grad_(not weight.requires_grad)
        return (weight * x).detach()

    return Case(step, args=one, look=lambda: weight.requires_grad)


@case
def a_tensor_with_its_graph_in_an_attribute() -> Case:
    weight, held = torch.ones(3, requires_grad=True), types.SimpleNamespace()

    def step(x: Any) -> None:
        held.loss = (weight * weight * x).sum()

    def look() -> Any:
        held.loss.backward()
        return [held.loss.detach(), weight.grad]

    return Case(step, args=one, look=look)


# --- results


@dataclass
class Output:
    loss: Any
    more: Any = None


class Slotted:
    __slots__ = ("loss",)

    def __init__(self, loss: Any) -> None:
        self.loss = loss


RESULTS = {
    "dataclass": (lambda y: Output(y.sum(), {"all": [y]}), lambda result: [result.loss, result.more["all"][0]]),
    "namespace": (lambda y: types.SimpleNamespace(loss=y), lambda result: [result.loss]),
    "slots": (Slotted, lambda result: [result.loss]),
    "set": (lambda y: {y}, list),
    "deque": (lambda y: deque([y, y]), list),
    "defaultdict": (lambda y: defaultdict(list, loss=[y]), lambda result: [*result["loss"], *result["none"]]),
    "ordered": (lambda y: OrderedDict(a=y, b=y + 1), lambda result: list(result.values())),
    "distribution": (lambda y: torch.distributions.Normal(y, 1.0), lambda result: [result.loc]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_made_anew(name: str) -> None:
    make, tensors = RESULTS[name]
    weight = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda x: make(weight * x))
    results = [step(*one(turn)) for turn in range(3)]
    assert len({id(each) for each in results}) == 3 and type(results[0]) is type(make(weight))
    for turn, result in enumerate(results):
        expected = tensors(make(weight * one(turn)[0]))
        assert [each.tolist() for each in tensors(result)] == [each.tolist() for each in expected]
    tensors(results[1])[0].sum().backward()
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_list_of_the_steps_own_is_returned_itself() -> None:
    kept: list[Any] = []

    @torch.compile
    def step(x: Any) -> Any:
        kept.append(x * 2)
        return kept

    assert step(*one(0)) is kept and step(*one(1)) is kept
    assert [each.tolist() for each in kept] == [[2.0] * 3, [4.0] * 3]


def giving(y: Any) -> Iterator[Any]:
    yield y
    yield y + 1


async def giving_later(y: Any) -> AsyncIterator[Any]:
    yield y


UNCHANGEABLE: dict[str, Any] = {
    "a function": lambda y: lambda: y, "a list_iterator": lambda y: iter([y]),
    "a generator": lambda y: (each for each in [y]), "a map": lambda y: {"kept": [map(abs, [1, 2])]},
    "a zip": lambda y: (y, zip([1], [2])), "a async_generator": giving_later,
}  # fmt: skip


@pytest.mark.parametrize("what", UNCHANGEABLE)
def test_what_can_not_be_made_anew_is_refused(what: str) -> None:
    make = UNCHANGEABLE[what]
    step = torch.compile(lambda x: make(x * 2))
    with pytest.raises(CompileError, match=f"returns or stores {what}.* can't make"):
        step(*one(0))


@pytest.mark.parametrize("make", [giving, giving_later])
def test_a_generator_function_itself_is_refused(make: Any) -> None:
    with pytest.raises(CompileError, match=r"can't make .*`list\(...\)`"):
        torch.compile(make)(*one(0))


@case
def a_sum_over_what_a_generator_gives() -> Case:
    weight = torch.ones(3, requires_grad=True)
    return Case(lambda x: (weight * x, sum(each.sum().item() for each in giving(weight * x))), weight, args=one)


def test_a_function_that_holds_an_argument_is_refused() -> None:
    kept: dict[str, Any] = {}

    @torch.compile
    def step(x: Any) -> Any:
        kept["later"] = lambda: x.sum()
        return x * 2

    with pytest.raises(CompileError, match="a function or an iterator that holds tensors"):
        step(*one(0))
    assert not kept


def test_a_list_in_a_record_among_the_arguments_that_the_host_changes_is_refused() -> None:
    @dataclass
    class Record:
        losses: list[float]

    @torch.compile
    def step(x: Any, record: Record) -> None:
        record.losses.append(x.sum().item())

    (x,) = one(0)
    with pytest.raises(CompileError, match="changes a Record among its arguments"):
        step(x, Record([]))


# --- more that hooks leave


@case
def activations_of_several_modules_in_one_dict() -> Case:
    model, found, kept = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), {}, []

    def storing(name: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            found[name] = output.detach()

        return hook

    for name, module in model.named_children():
        module.register_forward_hook(storing(name))

    def look() -> Any:
        kept.append(dict(found))
        return list(kept)

    return Case(lambda x: model(x).detach(), args=one, look=look)


@case
def a_backward_pass_inside_a_hook() -> Case:
    weight, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def hook(gradient: Any) -> None:
        with torch.enable_grad():
            (other * gradient.sum()).sum().backward()

    weight.register_hook(hook)
    return Case(lambda x: (weight * x).sum().backward(), args=one, look=lambda: [weight.grad, other.grad])


@case
def a_gradient_that_is_not_there_yet() -> Case:
    weight, log = torch.ones(3, requires_grad=True), []
    weight.register_hook(lambda gradient: log.append(weight.grad is None))

    def step(x: Any) -> None:
        weight.grad = None
        (weight * x).sum().backward()

    return Case(step, args=one, look=lambda: list(log))


def test_a_trace_that_comes_to_nothing_leaves_nothing() -> None:
    weight, names, held = nn.Parameter(torch.ones(3)), set(), types.SimpleNamespace()

    def step(x: Any) -> Any:
        names.add("x")
        held.value = x * 2
        weight.register_hook(lambda gradient: gradient * 2)
        weight.requires_grad_(False)
        return x.unique()

    compiled = torch.compile(step)
    for _ in range(2):
        with pytest.raises(CompileError):
            compiled(*one(0))
    assert not names and not vars(held) and not weight._backward_hooks and weight.requires_grad


def test_a_sparse_gradient_that_a_step_finds_is_refused() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    index = torch.tensor([1, 2, 1])
    step = torch.compile(lambda: table(index).pow(2).sum().backward())
    table(index).sum().backward()
    with pytest.raises(CompileError, match=r"sparse gradient, of shape \[4, 2\]"):
        step()
    assert table.weight.grad.is_sparse
    table.zero_grad()
    step()
    assert not table.weight.grad.is_sparse
