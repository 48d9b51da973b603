"""Steps of real models: more code than is read, layers that are dropped at random, and first steps of optimizers."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.compile import CompileError, CompileWarning, compiled, program
from undertow._src.compile.effects import analyzer

case = Cases()


class Dropping(nn.Module):
    """Layers that are left out at random, as speech models do while they train."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.rate = rate

    def forward(self, x: Any) -> Any:
        x = x + self.first(x)
        for layer in self.layers:
            to_drop = False
            if self.training:
                probability = torch.rand([])
                if probability < self.rate:
                    to_drop = True
            if not to_drop:
                x = x + torch.tanh(layer(x))
        return x


def training(rate: float) -> Case:
    model = Dropping(rate)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    norms: list[Any] = []
    model.first.weight.register_hook(lambda gradient: norms.append(gradient.norm().item()))

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(step, model, optimizer, args=lambda turn: (torch.ones(2, 3) * (turn + 1),), log=norms)


@case
def layers_that_are_never_dropped() -> Case:
    return training(0.0)


@case
def layers_that_are_always_dropped() -> Case:
    return training(1.0)


@case
def layers_that_are_dropped_now_and_then() -> Case:
    return training(0.5)


@pytest.mark.parametrize("build", case.values(), ids=case.keys())
def test_dropped_layers(build: Any) -> None:
    agree(build)


@pytest.mark.parametrize("build", case.values(), ids=case.keys())
@pytest.mark.parametrize("steps", [20, 60, 200])
def test_dropped_layers_in_code_that_is_not_read_to_its_end(
    build: Any, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asks for a value there is not moved to the host: nothing is known of the statements around it."""
    monkeypatch.setattr(analyzer, "MOST_STEPS", steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        agree(build)


@pytest.mark.parametrize("steps", [5, 20, 60])
def test_a_backward_pass_stays_in_the_program_if_the_code_before_it_is_not_read(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyzer, "MOST_STEPS", steps)
    made = training(0.0)
    step = torch.compile(made.step)
    with pytest.warns(CompileWarning, match="too large to follow"):
        step(*made.args(0))
    (facts,) = torch.compile.explain(step).data
    assert facts["programs"][0]["statements"] == []


@pytest.mark.parametrize("steps", [20, 60])
def test_a_value_for_python_in_code_that_is_not_read_is_refused(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "MOST_STEPS", steps)
    model = Dropping(0.0)

    def step(x: Any) -> Any:
        loss = model(x).sum()
        print(f"{loss.item():.3f}")
        return loss.detach()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        with pytest.raises(CompileError, match="was asked for"):
            torch.compile(step)(torch.ones(2, 3))


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that run, in turn."""
    runs: list[Any] = []
    run = program.Program._call

    def counted(self: Any, arguments: list[Any]) -> Any:
        runs.append(self)
        return run(self, arguments)

    monkeypatch.setattr(program.Program, "_call", counted)
    return runs


def test_wrong_guesses_are_found_before_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = count_runs(monkeypatch)
    model = Dropping(0.0)
    step = torch.compile(lambda x: model(x).sum().detach())
    for _ in range(2):
        step(torch.ones(2, 3))
    assert len(runs) == 2 and runs[0] is runs[1]


def test_a_value_that_takes_most_of_the_step_is_guessed_and_found_by_running_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = count_runs(monkeypatch)

    def step(x: Any) -> Any:
        y = x
        for _ in range(100):
            y = torch.sin(y) + 0.1
        if y.sum() > 1000:
            y = y + 1
        return y * 2

    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(step)(x), step(x))
    assert len(runs) == 2


class TestFirstSteps:
    """On the CPU, the step that gives an optimizer its state runs as it is written: no other is like it."""

    @pytest.fixture(autouse=True)
    def as_users_have_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compiled.Compiled, "compiles_first_step", False)

    @pytest.mark.parametrize("kind", ["AdamW", "SGD", "RMSprop"])
    def test_one_program_is_run(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        runs = count_runs(monkeypatch)
        model = nn.Linear(2, 1)
        more = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)(model.parameters(), **more)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = torch.compile(step)
        for _ in range(4):
            step(torch.ones(3, 2))
        assert len(runs) == 3 and len({id(each) for each in runs}) == 1
        assert "ran eagerly: it gave the optimizer its first state" in str(torch.compile.explain(step))

    def test_without_an_optimizer_the_first_call_is_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        runs = count_runs(monkeypatch)
        torch.compile(lambda x: x * 2)(torch.ones(2))
        assert len(runs) == 1

    def test_a_step_that_is_refused_is_refused_at_once(self) -> None:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        before = model.weight.detach().clone()

        def step(x: Any) -> Any:
            loss = model(x).sum() * random.getrandbits(3)
            loss.backward()
            optimizer.step()
            return loss

        with pytest.raises(CompileError):
            torch.compile(step)(torch.ones(3, 2))
        assert not optimizer.state and torch.equal(before, model.weight)

    def test_hooks_and_what_they_leave(self) -> None:
        agree(layers_that_are_never_dropped)
        agree(layers_that_are_dropped_now_and_then)

    def test_assert_same_firing_compares_the_first_step_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from undertow._src.compile.same_firing import assert_same_firing

        runs = count_runs(monkeypatch)
        made = training(0.0)
        assert_same_firing(made.step, *made.args(0), steps=1)
        assert len(runs) == 1
