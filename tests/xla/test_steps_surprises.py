"""What real programs do besides, and compiled ones once did otherwise or not at all."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import functools
import os
import random
import types
from collections.abc import Iterator
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree, differences, seen
from undertow import nn
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_is_as_in_eager_mode(name: str) -> None:
    agree(case[name])


def x(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 0.5 + turn),)


@case
def returns_arguments_without_their_history() -> Case:
    def step(x: Any) -> Any:
        apart = x.detach().requires_grad_()
        (apart * 2).sum().backward()
        kept = [x.detach(), x.data, x.detach()[0]]
        shared = [each.data_ptr() == x.data_ptr() for each in kept]
        return kept, shared, apart, apart.grad

    return Case(step, args=x)


class Named(torch.Tensor):
    pass


def test_results_have_their_class() -> None:
    step = torch.compile(lambda x: (x.as_subclass(Named) * 2, nn.Parameter(x * 3)))
    assert [type(each) for _ in range(2) for each in step(torch.ones(2))] == [Named, nn.Parameter] * 2


@case
def draws_from_a_generator_that_only_a_hook_knows() -> Case:
    layer, generator = nn.Linear(3, 2), torch.Generator().manual_seed(5)
    layer.weight.register_hook(lambda gradient: gradient + torch.rand(gradient.shape, generator=generator))

    def step(x: Any) -> Any:
        layer.zero_grad()
        layer(x).sum().backward()

    return Case(step, layer, args=x, look=generator.get_state, between=lambda turn: generator.manual_seed(turn // 2))


@case
def differentiates_in_a_hook() -> Case:
    layer = nn.Linear(3, 3)

    def step(x: Any) -> Any:
        z = torch.tanh(layer(x))
        start = z.detach().requires_grad_()
        again = torch.tanh(layer(start))
        z.register_hook(lambda g: torch.autograd.grad(again, start, g, retain_graph=True)[0] + g)
        layer.zero_grad()
        z.sum().backward()
        return z

    return Case(step, layer, args=x)


@case
def notes_what_custom_functions_are_given() -> Case:
    log: list[Any] = []

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float) -> Any:
            ctx.by = by
            return x * by

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            log.append(ctx.by)
            return gradient * ctx.by, None

    weight = nn.Parameter(torch.ones(3))

    def step(by: float) -> Any:
        weight.grad = None
        Scaled.apply(weight, by).sum().backward()

    return Case(step, weight, args=lambda turn: (1.5 + turn,), log=log)


@case
def counts_calls_of_a_forward_without_gradients() -> Case:
    log: list[Any] = []

    class Frozen(nn.Linear):
        @torch.no_grad()
        def forward(self, x: Any) -> Any:
            log.append(len(log))
            return super().forward(x)

    model = nn.Sequential(Frozen(3, 2), nn.ReLU())
    return Case(lambda x: model(x), args=x, log=log)


@case
def puts_computed_indices_together() -> Case:
    table = torch.randn(6, 6)

    def step(start: Any) -> Any:
        found = start.repeat(2, 1)
        for _ in range(2):
            top = table[found[:, -1]].reshape(-1).topk(2)[1]
            found = torch.cat([found[top // 6], (top % 6)[:, None]], 1)
        return found

    return Case(step, args=lambda turn: (torch.tensor([turn]),))


@case
def looks_at_and_writes_to_views_that_the_step_has_cached() -> Case:
    cache: dict[str, Any] = {}

    def step(x: Any) -> Any:
        if not cache:
            cache["turned"], cache["part"] = torch.arange(9.0).view(3, 3).t(), torch.arange(6.0)[2:5]
        return x @ cache["turned"] + cache["part"]

    def between(turn: int) -> None:
        repr(cache["turned"])
        cache["turned"][0, 1] = 7.0 + turn
        cache["part"].mul_(2)

    return Case(step, args=x, between=between, look=lambda: cache)


@dataclasses.dataclass
class Output:
    loss: Any
    logits: Any


@case
def notes_what_an_object_of_its_own_holds() -> Case:
    layer, log = nn.Linear(3, 2), list[float]()

    def step(x: Any) -> Any:
        logits = layer(x)
        output = Output(logits.pow(2).mean(), logits)
        log.append(output.loss.item())
        return output.logits

    return Case(step, layer, args=x, log=log)


@case
def sets_options_of_groups_and_entries_of_a_list_by_another_name() -> Case:
    layer = nn.Linear(3, 2)
    optimizer, kept, log = torch.optim.SGD(layer.parameters(), lr=0.1), [0, torch.zeros(2)], list[Any]()

    def step(x: Any, rate: float) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = rate
            group["note"] = "set"
        mine = kept
        mine[0] += 1
        mine[1] = mine[1] + layer(x).detach().sum(0)
        log.append(mine[0])
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    return Case(step, layer, optimizer, args=lambda turn: (x(turn)[0], 0.1 + turn), log=log, look=lambda: kept)


@case
def asks_for_strides_and_addresses() -> Case:
    def step(x: Any) -> Any:
        y = x.transpose(0, 1) * 2
        addresses = [each.data_ptr() == x.data_ptr() for each in (x.detach(), x.transpose(0, 1), y)]
        return x.stride(), y.stride(), y.is_contiguous(), addresses

    return Case(
        step, args=lambda turn: (torch.ones(2, 3), torch.ones(4, 2, 2).transpose(0, 2))[turn % 2 : turn % 2 + 1]
    )


@case
def leaves_blocks_by_a_stack_of_exits() -> Case:
    layer, log = nn.Linear(3, 2), list[str]()

    def step(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "left")
            stack.enter_context(torch.no_grad())
            return layer(x)

    return Case(step, args=x, log=log)


class Limited:
    """A descriptor that has the last word on what is set."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: Any) -> Any:
        return getattr(instance, self.name)

    def __set__(self, instance: Any, value: float) -> None:
        setattr(instance, self.name, min(value, 3.0))


class Scale:
    value = Limited()

    def __init__(self) -> None:
        self.value = 1.0


@case
def changes_a_number_behind_a_descriptor() -> Case:
    scale = Scale()

    def step(x: Any) -> Any:
        result = x * scale.value
        scale.value = scale.value + 1.5
        return result

    return Case(step, scale, args=x)


class Counted(type):
    made = 0

    def __call__(cls, *args: Any) -> Any:
        Counted.made += 1
        return super().__call__(*args)


class Batch(metaclass=Counted):
    def __init__(self, x: Any) -> None:
        self.x = x


@case
def counts_in_a_metaclass() -> Case:
    Counted.made = 0
    return Case(lambda x: Batch(x * 2).x, args=x, look=lambda: Counted.made)


@case
def fills_a_list_of_the_standard_library() -> Case:
    seen: Any = collections.UserList([1.0])

    def step(x: Any) -> Any:
        seen.append(2.0)
        return x * len(seen)

    return Case(step, args=x, look=lambda: list(seen))


@pytest.mark.parametrize("looks", [lambda x: x * _random.getrandbits(3), lambda x: x * os.path.exists("/nowhere")])
def test_what_nobody_could_watch_is_refused(looks: Any) -> None:
    with pytest.raises(CompileError, match="That would happen when the step is compiled"):
        torch.compile(looks)(torch.ones(2))


_random: random.Random = random.Random(1)


@pytest.mark.filterwarnings("ignore:.* was compiled 9 times")
def test_code_that_is_replaced_is_run() -> None:
    def scale(x: Any, by: float = 2.0) -> Any:
        return x * by

    def other(x: Any, by: float = 2.0) -> Any:
        return x - by

    class Doubled(Scaling):
        pass

    things: Any = types.SimpleNamespace(scaling=Doubled(), layer=nn.Identity())
    numbers, shown = array.array("d", [1.0]), types.MappingProxyType(hidden := {"by": 1.0})

    @torch.compile
    def step(x: Any) -> Any:
        return torch.tanh(scale(things.layer(things.scaling.of(x)))).relu() * numbers[0] * shown["by"] * abs(-1.0)

    def patches() -> Iterator[Any]:
        yield None
        scale.__defaults__ = (3.0,)
        yield None
        scale.__code__ = other.__code__
        yield None
        Doubled.__bases__ = (Halving,)
        yield None
        things.scaling.__class__ = Scaling
        yield None
        numbers[0] = 3.0
        yield None
        hidden["by"] = 4.0
        yield None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "tanh", torch.sin)
            yield None
            patch.setattr(torch.Tensor, "relu", torch.Tensor.neg)
            yield None
            patch.setattr(nn.Identity, "forward", lambda self, x: x * 0.1)
            yield None
            patch.setitem(globals(), "abs", lambda number: number)
            yield None
        yield None

    for _ in patches():
        torch.testing.assert_close(step(torch.ones(2)), step.__wrapped__(torch.ones(2)))


class Scaling:
    def of(self, x: Any) -> Any:
        return x * 2


class Halving(Scaling):
    def of(self, x: Any) -> Any:
        return x / 2


def test_tensors_in_a_cache() -> None:
    @functools.lru_cache
    def mask(n: int) -> Any:
        return torch.tril(torch.ones(n, n))

    step = torch.compile(lambda x: mask(len(x)) @ x)
    assert step(torch.ones(2, 2)).tolist() == (mask(2) @ torch.ones(2, 2)).tolist()
    for _ in range(2):
        mask(2).mul_(2)
        assert step(torch.ones(2, 2)).tolist() == (mask(2) @ torch.ones(2, 2)).tolist()
        mask.cache_clear()


def _with_hooks_on_results(compiled: bool) -> list[Any]:
    torch.manual_seed(0)
    model, log = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), list[Any]()

    def forward(x: Any) -> Any:
        trunk = model[0](x)
        trunk.register_hook(lambda gradient: log.append(["trunk", gradient.sum().item()]))
        middle = model[1](trunk)
        middle.retain_grad()
        results = model[2](middle * middle) + trunk.sum()
        return middle, results, results.mean(), (model[0].weight * 2).sum()

    step = torch.compile(forward) if compiled else forward
    for turn in range(2):
        middle, results, loss, apart = step(*x(turn))
        loss.register_hook(lambda gradient: log.append(["loss", gradient.item()]))
        middle.register_hook(lambda gradient: log.append(["middle", gradient.sum().item()]))
        results.register_hook(lambda gradient: gradient * 2)
        (inner,) = torch.autograd.grad(loss, middle, create_graph=True)
        (inner.pow(2).sum() + loss + middle.sum()).backward()
        apart.backward()
        log += [seen(middle.grad), seen(model), middle.retains_grad]
    return log


def test_hooks_on_results_that_others_were_made_of() -> None:
    assert not differences(_with_hooks_on_results(False), _with_hooks_on_results(True))


@pytest.mark.filterwarnings("ignore:Error detected")
def test_anomaly_mode_runs_the_step_as_it_was_written() -> None:
    weight = nn.Parameter(torch.zeros(2))

    def step(x: Any) -> None:
        (weight * x).sqrt().sum().backward()

    compiled = torch.compile(step)
    compiled(torch.zeros(2))
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="returned nan values"):
        compiled(torch.zeros(2))

    @torch.compile
    def inside(x: Any) -> None:
        with torch.autograd.set_detect_anomaly(True):
            step(x)

    with pytest.raises(CompileError, match="anomaly mode is switched on inside the step"):
        inside(torch.zeros(2))
