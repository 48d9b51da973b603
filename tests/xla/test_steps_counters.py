"""Numbers that steps change and read: they are inputs, and steps are compiled for what is asked of them."""

from __future__ import annotations

import functools
import math
import types
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow.testing import assert_close

once, twice, thrice = Cases(), Cases(), Cases()  # how many programs are enough: one, or one for each answer


@pytest.mark.parametrize("name", once)
def test_one_program_is_enough(name: str) -> None:
    agree(once[name], steps=4, programs=1)


@pytest.mark.parametrize("name", twice)
def test_each_answer_needs_a_program(name: str) -> None:
    agree(twice[name], steps=5, programs=2)


@pytest.mark.parametrize("name", thrice)
def test_first_calls_need_one_more(name: str) -> None:
    agree(thrice[name], steps=5, programs=3)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 0.5 + 0.25 * turn),)


@once
def numbers_that_meet_tensors() -> Case:
    held, count = types.SimpleNamespace(temperature=2.0), 3

    def step(x: Any) -> Any:
        nonlocal count
        held.temperature *= 0.9
        count += 2
        whole = x.long() * count + torch.arange(3)
        return x / held.temperature, whole, 2**-count * x, (x > count, count % 7 < x), min(1.0, count / 100), -count

    return Case(step, args=one, look=lambda: [held.temperature, count])


@thrice  # its first call finds no gradient
def statements_and_hooks_on_the_host_see_the_number_of_their_turn() -> Case:
    weight, held = torch.ones(3, requires_grad=True), types.SimpleNamespace(steps=0)
    seen: list[Any] = []
    weight.register_hook(lambda gradient: seen.append(("hook", held.steps, gradient.sum().item())))

    def step(x: Any) -> Any:
        seen.append(("before", held.steps))
        held.steps += 1
        weight.grad = None
        (weight * x * held.steps).sum().backward()
        held.steps += 2
        seen.append(("after", held.steps, isinstance(held.steps, int)))
        if held.steps > 7:
            held.steps = 1
        seen.append(("begun again", held.steps))
        return held.steps

    return Case(step, weight, args=one, look=lambda: [list(seen), held.steps])


@twice
def every_second_step() -> Case:
    weight, momentum = nn.Parameter(torch.ones(3)), [torch.zeros(3)]
    counts = [0, 1]

    def step(x: Any) -> Any:
        counts[0] += 1
        momentum[0] = 0.5 * momentum[0] + x[0] * counts[1]
        if counts[0] % 2 == 0:
            weight.data -= 0.1 * momentum[0]
        return weight.detach().clone()

    return Case(step, weight, args=one, look=lambda: list(counts))


class Calls(nn.Module):
    calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * 2 if self.calls & 1 else x  # which asks for the number itself


@once
def a_learning_rate_by_hand() -> Case:
    weight, held = nn.Parameter(torch.ones(3)), types.SimpleNamespace(step=1)
    optimizer = optim.SGD([weight], lr=0.1)

    def step(x: Any) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, held.step / 10)
        weight.grad = None
        (weight * x).sum().backward()
        optimizer.step()
        weight.grad = None
        held.step += 1

    return Case(step, weight, optimizer, args=one, look=lambda: optimizer.param_groups[0]["lr"])


@twice
def a_number_that_is_set_outside_after_each_call() -> Case:
    held = types.SimpleNamespace(beta=0.5)
    return Case(lambda x: x * held.beta, args=one, between=lambda turn: setattr(held, "beta", 1 / (turn + 3)))


@thrice
def several_numbers_that_are_set_outside() -> Case:
    held: dict[str, Any] = {"beta": 0.5, "times": 2}

    def step(x: Any) -> Any:
        for _ in range(held["times"]):
            x = x * held["beta"]
        return x

    def between(turn: int) -> None:
        held.update(beta=1 / (turn + 3), times=1 + turn % 2)

    return Case(step, args=one, between=between)


@once
def labels_that_move() -> Case:
    table, moved = torch.arange(20.0), 0

    def step(picks: Any) -> Any:
        nonlocal moved
        moved += 2
        return table[picks + moved]

    return Case(step, args=lambda turn: (torch.tensor([turn, 3]),))


@thrice  # all numbers have changed once by the third call
def numbers_among_the_arguments() -> Case:
    weight, seen = torch.ones(3, requires_grad=True), []

    def step(x: Any, turn: int, rates: dict[str, float]) -> Any:
        weight.grad = None
        loss = (weight * x).sum() * rates["loss"] + turn
        loss.backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=rates["weight"])
        seen.append((turn, loss.item()))
        return loss.detach(), turn + 1

    def numbers(turn: int) -> tuple[Any, ...]:
        return (*one(turn), turn, {"loss": 0.5 + turn, "weight": 0.1 / (turn + 1)})

    return Case(step, weight, args=numbers, log=seen)


ASKED = [math.cos, str, lambda number: [0.0, 1.0, 2.0, 3.0][number], lambda number: {number: 1}]


@pytest.mark.parametrize("asked", ASKED)
def test_what_wants_the_number_itself_is_compiled_for_each(asked: Any) -> None:
    def build() -> Case:
        held = types.SimpleNamespace(n=0)

        def step(x: Any) -> Any:
            held.n += 1
            return x * 2, asked(held.n)

        return Case(step, args=one, look=lambda: held.n)

    agree(build)


def large(held: Any, x: Any) -> Any:
    held.n = (held.n * 1103515245 + 12345) % 2**31
    return x.long() + held.n, 6364136223846793005 % held.n * x.long()


def of_either_sign(held: Any, x: Any) -> Any:
    held.n -= 1
    return x.long() * 2**-held.n, 2**-held.n


def kept_in_functions(held: Any, x: Any) -> Any:
    held.n += 1
    n = held.n
    held.kept = (lambda: n, functools.partial(abs, n), lambda which=slice(n): which.stop)
    return x * n


def of_one_type(held: Any, x: Any) -> Any:
    held.n += 1
    return x * held.n if type(held.n) in (int, bool) else x


def none_at_the_end(held: Any, x: Any) -> Any:
    held.n -= 1
    return x * (6 // (held.n + 3))


@pytest.mark.parametrize("step", [large, of_either_sign, kept_in_functions, of_one_type])
def test_numbers_that_a_program_could_not_hold(step: Any) -> None:
    def build() -> Case:
        held = types.SimpleNamespace(n=2, kept=())
        return Case(lambda x: step(held, x), args=one, look=lambda: [held.n, [(type(f()), f()) for f in held.kept]])

    agree(build, steps=4)


def test_dividing_by_a_number_that_has_become_zero() -> None:
    held = types.SimpleNamespace(n=2)
    step = torch.compile(lambda x: none_at_the_end(held, x))
    results = [step(torch.ones(1)).item() for _ in range(4)]
    with pytest.raises(ZeroDivisionError):
        step(torch.ones(1))
    assert results == [1.0, 2.0, 3.0, 6.0]


def test_a_module_that_counts_its_calls() -> None:
    agree(lambda: (lambda model: Case(lambda x: model(x), args=one, look=lambda: model.calls))(Calls()))


@pytest.mark.parametrize("which", ["a count", "a learning rate"])
def test_hooks_that_the_step_makes_keep_their_numbers(which: str) -> None:
    def build() -> Case:
        weight, held = torch.ones(3, requires_grad=True), types.SimpleNamespace(n=0)
        optimizer = optim.SGD([weight], lr=0.5)
        seen: list[Any] = []

        def step(x: Any) -> Any:
            held.n += 1
            number = optimizer.param_groups[0]["lr"] if which == "a learning rate" else held.n
            weight.grad = None
            product = weight * x
            product.register_hook(lambda gradient, n=held.n: seen.append((n, number, gradient.sum().item())))
            product.sum().backward()

        def between(turn: int) -> None:
            optimizer.param_groups[0]["lr"] /= 2

        return Case(step, weight, args=one, look=lambda: list(seen), between=between)

    agree(build)


def test_dropout_draws_with_the_probability_of_the_call() -> None:
    def build() -> Case:
        held = types.SimpleNamespace(n=0)

        def step(x: Any) -> Any:
            held.n += 1
            return nn.functional.dropout(x, 0.2 * held.n)

        return Case(step, args=lambda turn: (torch.ones(50),))

    agree(build)


def test_numbers_may_be_set_between_calls() -> None:
    def build() -> Case:
        held = types.SimpleNamespace(n=0)

        def step(x: Any) -> Any:
            held.n += 1
            return x * held.n if held.n < 10 else x

        return Case(step, args=one, look=lambda: held.n, between=lambda turn: setattr(held, "n", [3, 3, 20, 3.5][turn]))

    agree(build, steps=4)


def test_sparse_adam() -> None:
    def build() -> Case:
        table = nn.Embedding(5, 2, sparse=True)
        optimizer = optim.SparseAdam(table.parameters(), lr=0.1)

        def step(picks: Any) -> Any:
            optimizer.zero_grad()
            table(picks).pow(2).sum().backward()
            optimizer.step()

        return Case(step, table, optimizer, args=lambda turn: (torch.tensor([turn % 3, 4]),))

    agree(build, steps=4, programs=2)


def test_a_number_that_only_hooks_read_becomes_an_input() -> None:
    def build() -> Case:
        weight, settings = nn.Parameter(torch.ones(3)), {"scale": 1.0}
        held = types.SimpleNamespace(share=0.5)
        weight.register_hook(lambda gradient: gradient * settings["scale"])
        weight.register_hook(lambda gradient: gradient * held.share)

        def step(x: Any) -> Any:
            weight.grad = None
            (weight * x).sum().backward()

        def between(turn: int) -> None:
            settings["scale"], held.share = 1.0 / (turn + 2), 0.1 * turn

        return Case(step, weight, args=one, between=between)

    agree(build, steps=5, programs=3)


class Scaled(torch.autograd.Function):
    """Its way back asks about a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * ctx.k if ctx.k < 4 else g * ctx.k * 2), None


def test_numbers_in_a_graph_that_is_left() -> None:
    """They are those of the call that left it, whatever calls came after, to any order."""
    weight = torch.tensor([0.5, 1.5], requires_grad=True)

    def function(x: Any, k: Any) -> Any:
        return Scaled.apply((weight * x * k).pow(3).sum() / k + torch.add(x, weight, alpha=k * 2).clamp(-k, k).sum(), k)

    compiled, x = torch.compile(function), torch.tensor([1.0, -2.0])
    numbers = [2.0, 3.0, 5.0, 2.5, 6.0]
    graphs = [[each(x, k) for k in numbers] for each in (function, compiled)]
    for one, other in zip(*graphs):
        assert_close(one, other)
        first, also = [torch.autograd.grad(loss, weight, create_graph=True)[0] for loss in (one, other)]
        assert_close(first, also)
        assert_close(*[torch.autograd.grad(each.sum(), weight)[0] for each in (first, also)])
    assert len(torch.compile.explain(compiled).data[0]["programs"]) == 2


# --- functions of numbers that code in C computes


def _schedule(momentum: Any, start: Any) -> Case:
    """An average of weights whose momentum is computed from a step counter by hand."""
    model, average = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    state = {"n": start}

    def step(x: Any) -> Any:
        state["n"] += 1
        m = momentum(state["n"])
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * m
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(average.parameters(), model.parameters()):
                p.mul_(m).add_(q, alpha=1 - m)
        return loss.detach(), x * m

    return Case(step, model, average, args=one, look=lambda: [dict(state), optimizer.param_groups[0]["lr"]])


cosine = math.cos
SCHEDULES: dict[str, Any] = {
    "cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / 20)),
    "imported": lambda n: 1 - 0.01 * (cosine(math.pi * min(n, 3) / 10) + 1) / 2,
    "warm up": lambda n: min(1.0, float(n) / 100) * math.sqrt(n),
    "exponential": lambda n: math.exp(-n / 10) + math.pow(0.5, n) + 0.9**n,
    "rounded": lambda n: round(n / 7, 2) + int(n / 3) * 0.1 + math.floor(n / 4) * 0.01,
    "logarithm": lambda n: math.log1p(n) / math.log(100, 2) if math.isfinite(n) else 0.0,
    "hyperbolic": lambda n: math.tanh(n / 5) + math.fmod(n, 3) * 0.1 + math.hypot(n, 2) * 0.01,
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("start", [0, 0.5])
def test_schedules_written_by_hand_are_one_program(name: str, start: float) -> None:
    momentum = SCHEDULES[name]

    def build() -> Case:
        def called(n: Any) -> Any:
            return momentum(n)

        return _schedule(called, start)

    agree(build, steps=6, programs=4 if name == "imported" else 2, tolerance=1e-6)


def test_a_learning_rate_in_c_code() -> None:
    def build() -> Case:
        weight = nn.Parameter(torch.ones(3))
        optimizer = optim.SGD([weight], lr=0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            (weight * x).sum().backward()
            optimizer.step()
            return x * math.sqrt(optimizer.param_groups[0]["lr"])

        def anneal(turn: int) -> None:
            optimizer.param_groups[0]["lr"] *= 0.9

        return Case(step, weight, args=lambda turn: (torch.ones(3),), between=anneal)

    agree(build, steps=5, programs=2)


def test_what_math_refuses_is_raised() -> None:
    state = {"n": 2}

    @torch.compile
    def step(x: Any) -> Any:
        state["n"] -= 1
        return x * math.log(state["n"] + 1.0)

    for expected in (math.log(2.0), 0.0):
        assert step(torch.ones(1)).item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="math domain error"):
        step(torch.ones(1))


def test_a_counter_that_the_host_counts_once_no_hook_reads_it() -> None:
    """A program that computes with the number has it as an input; in a later one the statement runs on the host."""

    def counted() -> tuple[Any, Any, list[int]]:
        n, seen = 0, list[int]()

        def bump() -> None:
            nonlocal n
            n += 1
            seen.append(n)

        return bump, lambda: n, seen

    def noted(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        layer = torch.nn.Linear(2, 2)
        bump, count, seen = counted()
        sums: list[float] = []

        def scale(g: Any) -> Any:
            sums.append(g.sum().item())
            return g / (1 + count())

        def step(x: Any) -> None:
            loss = layer(x).pow(2).mean()
            bump()
            loss.backward()

        call = torch.compile(step) if compiled else step
        notes: list[Any] = []
        handle: Any = None
        for turn in range(6):
            call(torch.ones(4, 2))
            notes.append((list(seen), len(sums), layer.weight.grad.tolist()[0]))
            if turn in (0, 3):
                handle = layer.weight.register_hook(scale)
            elif turn == 1:
                handle.remove()
        return notes

    for (seen, fired, gradient), found in zip(noted(compiled=False), noted(compiled=True), strict=True):
        assert found == (seen, fired, pytest.approx(gradient, rel=1e-4))


def test_functions_of_numpy_and_tables_of_numbers() -> None:
    """The host computes them before each call: nothing is compiled again."""

    def build() -> Case:
        model, averaged = nn.Linear(3, 2), nn.Linear(3, 2)
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        decays, momenta = np.linspace(0.0, 0.5, 20), [0.5 + 0.02 * k for k in range(20)]
        rates, state = {k: 0.1 / (k + 1) for k in range(20)}, {"n": 0}
        log: list[Any] = []

        def step(x: Any) -> Any:
            n = state["n"]
            for group in optimizer.param_groups:
                group["lr"], group["weight_decay"] = rates[n], decays[n]
            ramp = np.exp(-5.0 * (1.0 - np.clip(n / 10, 0.0, 1.0)) ** 2)
            loss = model(x).pow(2).mean() * (2.0 / (1.0 + np.exp(-n)) - 1) + float(ramp) * model.weight.sum()
            loss = loss * np.interp(n, [0, 10], [1.0, 2.0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            momentum = momenta[-n - 1] * np.cos(n / 20)
            with torch.no_grad():
                for mean, now in zip(averaged.parameters(), model.parameters()):
                    mean.mul_(momentum).add_(now, alpha=1 - momentum)
            state["n"] += 1
            log.append((ramp, type(ramp).__name__))
            return loss.detach(), ramp, momentum

        return Case(step, model, averaged, optimizer, log, args=lambda turn: (torch.randn(4, 3),))

    agree(build, steps=5, programs=2)


def test_numbers_that_are_equal_but_not_the_same() -> None:
    """1 and 1.0 differ beside a tensor of integers; 0.0 and -0.0 have different signs."""

    def build() -> Case:
        whole, state = [1, 2, 3, 4], {"n": 0}
        zeros, minus, floats = [0.0] * 4, [-0.0] * 4, [float(each) for each in whole]
        by_key, floats_by_key = {**dict(enumerate(whole))}, {**dict(enumerate(floats))}

        def step(x: Any) -> Any:
            n, long = state["n"], x.long()
            state["n"] += 1
            looked_up = long * whole[n], long * floats[n], long * by_key[n], long * floats_by_key[n]
            signs = (
                math.copysign(n + 1, 0.0),
                math.copysign(n + 1, -0.0),
                math.atan2(0.0, -n - 1),
                math.atan2(-0.0, -n - 1),
            )
            return (
                *looked_up,
                x / zeros[n],
                x / minus[n],
                *[x * each for each in signs],
                x / (0.0 * (n + 1)),
                x / (-0.0 * (n + 1)),
            )

        return Case(step, args=lambda turn: (torch.ones(2),))

    agree(build, steps=4)


def test_tables_whose_entries_change_and_end() -> None:
    def build() -> Case:
        table, milestones, state = [1.0, 2.0, 3.0, 4.0], {2, 5}, {"n": 0}

        def step(x: Any) -> Any:
            n = state["n"]
            state["n"] += 1
            if n in milestones:
                x = x * 10
            return x * table[n]

        def args(turn: int) -> Any:
            if turn == 2:
                table[2:] = [7.0, 8.0]
            return (torch.randn(2),)

        return Case(step, args=args, look=lambda: dict(state))

    agree(build, steps=4)

    table, state = [1.0, 2.0], {"n": 0}

    @torch.compile
    def step(x: Any) -> Any:
        state["n"] += 1
        return x * table[state["n"] - 1]

    assert [step(torch.ones(1)).item() for _ in table] == table
    with pytest.raises(IndexError, match="list index out of range"):
        step(torch.ones(1))
