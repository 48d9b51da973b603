"""Steps that draw single numbers from generators of Python and NumPy: each call draws as eager mode does."""

from __future__ import annotations

import functools
import io
import random
from random import uniform
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow._src.compile import CompileError
from undertow.optim.lr_scheduler import StepLR


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(6, 3),)


def case(make: Any) -> Case:
    """Return the case of a step that is made of a model and an optimizer; it also compares the generators."""
    random.seed(3)
    np.random.seed(3)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[Any] = []
    step, *generators = make(model, optimizer, kept)

    def look() -> Any:
        return [random.random(), np.random.rand(), *[each.random() for each in generators], list(kept)]

    return Case(step, model, optimizer, args=batch, look=look)


def update(optimizer: Any, loss: Any) -> float:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()  # type: ignore[no-any-return]


def test_numbers_that_are_drawn() -> None:
    """By several generators, in nested calls, beside torch's draws and a scheduler, and left in places and results."""

    class Noise:
        def __init__(self) -> None:
            self.generator = np.random.default_rng(7)

        def __call__(self, x: Any) -> Any:
            return x * self.generator.uniform(0.9, 1.1) + torch.randn_like(x) * random.gauss(0, 0.1)

    def make(model: Any, optimizer: Any, kept: list[Any]) -> Any:
        noise, own, older = Noise(), random.Random(4), np.random.RandomState(5)
        scheduler = StepLR(optimizer, 2, 0.5)

        def step(x: Any) -> Any:
            weight = np.random.beta(1.0, 1.0)
            out = weight * model(noise(x)) + (1 - weight) * own.random() + older.normal(0, weight)
            loss = update(optimizer, (out * uniform(0.5, 1.5)).pow(2).mean())
            kept.append((weight, loss))
            scheduler.step()
            return loss * random.randint(1, 3), weight

        return step, noise.generator, own, older

    agree(lambda: case(make), steps=4, programs=2)


def test_choices_among_what_the_step_changes() -> None:
    class Choices:
        def __init__(self) -> None:
            self.grown = [1.0, 2.0]

    def make(model: Any, optimizer: Any, kept: list[Any]) -> Any:
        shrunk, own = [1.0, 2.0, 5.0, 3.0, 4.0, 5.0, 6.0, 7.0], Choices()

        def step(x: Any) -> Any:
            shrunk.pop()
            own.grown.append(len(own.grown) + 0.5)
            return model(x).detach() * random.choice(shrunk) * random.choice(own.grown)

        return (step,)

    agree(lambda: case(make), steps=6)


def test_branches_on_numbers_that_are_drawn() -> None:
    def make(model: Any, optimizer: Any, kept: list[Any]) -> Any:
        def step(x: Any) -> Any:
            if random.random() < 0.5:
                kept.append("flipped")
                x = x.flip(0)
            size = random.choice([2, 4])
            return update(optimizer, model(x[:size]).pow(2).sum()), size

        return (step,)

    agree(lambda: case(make), steps=8)


def test_statements_on_the_host_draw_in_order() -> None:
    """A statement that could run after the program draws before it, with the others."""

    def make(model: Any, optimizer: Any, kept: list[Any]) -> Any:
        def step(x: Any) -> Any:
            if random.random() < 0.4:
                kept.append("before")
            loss = update(optimizer, model(x * random.random()).pow(2).sum())
            if random.random() < 0.4:
                kept.append(loss)
            return loss

        return (step,)

    agree(lambda: case(make), steps=5)


def test_a_hook_that_raises_leaves_the_draws_of_eager_mode() -> None:
    def make(model: Any, optimizer: Any, kept: list[Any]) -> Any:
        def hook(g: Any) -> None:
            kept.append(g.norm().item())
            if len(kept) == 3:
                raise ValueError("the third")

        model.weight.register_hook(hook)

        def step(x: Any) -> Any:
            try:
                return update(optimizer, model(x * random.random()).pow(2).sum())
            except ValueError:
                return random.random()

        return (step,)

    agree(lambda: case(make), steps=4)


def draws_in_a_hook(model: Any) -> Any:
    seen: list[float] = []
    model.register_forward_hook(lambda module, args, output: seen.append(random.random()))
    return lambda x: model(x) * random.random()


def draws_by_another_name(model: Any) -> Any:
    def step(x: Any) -> Any:
        from random import random as drawn

        return model(x) * drawn()

    return step


def draws_by_a_map(model: Any) -> Any:
    return lambda x: model(x) * sum(map(random.uniform, [0, 1], [1, 2]))


def draws_by_a_partial(model: Any) -> Any:
    drawn = functools.partial(np.random.default_rng(1).random)
    return lambda x: model(x) * drawn()


def draws_an_array(model: Any) -> Any:
    return lambda x: model(x * float(np.random.rand(2)[0]))


def draws_within_a_value(model: Any) -> Any:
    return lambda x: model(x) * random.uniform(0, x.sum().item())


def shuffles_what_it_made(model: Any) -> Any:
    def step(x: Any) -> Any:
        order = [1.0, 2.0, 3.0]
        random.shuffle(order)
        return model(x) * order[0]

    return step


def shuffles_an_array(model: Any) -> Any:
    def step(x: Any) -> Any:
        order = np.arange(3.0)
        np.random.shuffle(order)
        return model(x) * float(order[0])

    return step


def shuffles_what_is_outside(model: Any) -> Any:
    order, generator = [1.0, 2.0, 3.0], np.random.default_rng(1)

    def step(x: Any) -> Any:
        generator.shuffle(order)
        return model(x) * order[0]

    return step


def fills_arrays(model: Any) -> Any:
    def step(x: Any) -> Any:
        array = np.zeros(1)
        generator = np.random.default_rng(0)
        generator.random(out=array)
        return x * float(array[0])

    return step


def fills_bytes(model: Any) -> Any:
    def step(x: Any) -> Any:
        read = bytearray(4)
        file = io.BytesIO(b"abcd")
        file.readinto(read)
        return x * read[0]

    return step


def chooses_among_what_a_hook_changes(model: Any) -> Any:
    choices = [1.0, 2.0]

    def step(x: Any) -> Any:
        y = model(x)
        y.register_hook(lambda gradient: choices.append(gradient.sum().item()))
        y.sum().backward()
        return y.detach() * random.choice(choices)

    return step


def draws_and_compares_types(model: Any) -> Any:
    def step(x: Any) -> Any:
        number = random.random()
        return model(x) * (number if type(number) is float else 0)

    return step


def seeds(model: Any) -> Any:
    def step(x: Any) -> Any:
        random.seed(1)
        return model(x) * random.random()

    return step


REFUSED = (
    draws_in_a_hook, draws_by_another_name, draws_by_a_map, draws_by_a_partial, draws_an_array, draws_within_a_value,
    draws_and_compares_types, seeds,
)  # fmt: skip


@pytest.mark.parametrize("make", REFUSED)
def test_draws_that_are_refused(make: Any) -> None:
    before = random.getstate(), np.random.get_state()[1].copy()  # type: ignore[union-attr, index]
    with pytest.raises(CompileError, match=r"random numbers|draws from|torch\.rand"):
        torch.compile(make(nn.Linear(3, 2)))(torch.ones(2, 3))
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # type: ignore[union-attr, index]


WRITTEN = (
    shuffles_what_it_made, shuffles_an_array, shuffles_what_is_outside, fills_arrays, fills_bytes,
    chooses_among_what_a_hook_changes,
)  # fmt: skip


@pytest.mark.parametrize("make", WRITTEN)
def test_contents_that_other_code_changes_are_refused(make: Any) -> None:
    """A trace would hold what the objects had then."""
    with pytest.raises(CompileError):
        torch.compile(make(nn.Linear(3, 2)))(torch.ones(2, 3))
