"""`compile(step, fallback="eager")`: a refused step runs eagerly, and a warning says so."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import differences, seen
from undertow import nn, optim
from undertow._src.compile import CompileError, CompileWarning, compiled


class Training:
    """A step that is refused for some shapes, with state of every kind."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.log: list[Any] = []
        self.state: dict[str, Any] = {"n": 0, "seen": set(), "kept": None}
        self.model[0].weight.register_hook(lambda g: self.log.append(g.sum().item()))

    def step(self, x: Any) -> Any:
        self.state["n"] += 1
        self.state["seen"].add(self.state["n"])
        self.log.append(self.state["n"])
        self.model.train(self.state["n"] % 2 == 0)
        self.model[0].bias.requires_grad_(self.state["n"] > 1)
        self.optimizer.zero_grad()
        loss = self.model(x).pow(2).mean() + torch.rand(())
        loss.backward()
        self.optimizer.step()
        self.optimizer.param_groups[0]["lr"] *= 0.9
        self.state["kept"] = loss.detach()
        return loss.detach() if x.shape[0] > 2 else x.unique().sum() + loss.detach()


def trained(compiled: bool, shapes: list[int]) -> Any:
    training = Training()
    step = torch.compile(training.step, fallback="eager") if compiled else training.step
    torch.manual_seed(1)
    results = [seen(step(torch.randn(shape, 3))) for shape in shapes]
    left = [training.model, training.optimizer, training.log, {**training.state, "seen": len(training.state["seen"])}]
    return step, [results, seen(left), torch.get_rng_state().sum().item()]


def test_a_step_that_is_refused_runs_as_it_is_written() -> None:
    shapes = [2, 4, 2, 2, 4, 4, 2]
    with pytest.warns(CompileWarning, match="runs eagerly, without a program: .*unique") as told:
        step, compiled = trained(True, shapes)
    assert len([each for each in told if "runs eagerly" in str(each.message)]) == 1
    assert not differences(trained(False, shapes)[1], compiled)
    facts = torch.compile.explain(step).data[0]
    assert facts["programs"] and len(facts["eager"]) == 1 and "unique" in facts["eager"][0]
    assert "runs eagerly: " in str(torch.compile.explain(step))


def test_what_is_refused_is_not_tried_again() -> None:
    calls: list[int] = []

    class Counted(nn.Module):
        def forward(self, x: Any) -> Any:
            calls.append(len(x))
            return x.unique()

    module = torch.compile(Counted(), fallback="eager")
    with pytest.warns(CompileWarning, match="Counted runs eagerly"):
        assert module(torch.tensor([1.0, -1.0])).tolist() == [-1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module(torch.tensor([-1.0, -1.0])).tolist() == [-1.0]
    assert calls == [2, 2]
    assert pickle.loads(pickle.dumps(torch.compile(nn.Linear(2, 2), fallback="eager")))._forward.fallback == "eager"


def test_a_compiled_module_goes_on_after_it() -> None:
    layer = nn.Linear(3, 2)

    def forward(x: Any) -> Any:
        return layer(x.unique(dim=0)) if len(x) > 2 else layer(x)

    compiled = torch.compile(forward, fallback="eager")
    compiled(torch.ones(2, 3)).sum().backward()
    with pytest.warns(CompileWarning):
        compiled(torch.tensor([[1.0, 2, 3], [1, 2, 3], [4, 5, 6]])).sum().backward()
    assert layer.bias.grad.tolist() == [4.0, 4.0]
    assert [len(programs) for programs in compiled.programs.values()] == [1]


def test_a_mode_around_a_call() -> None:
    from undertow.overrides import TorchFunctionMode

    seen_functions: list[Any] = []

    class Noting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen_functions.append(func)
            return func(*args, **(kwargs or {}))

    step = torch.compile(lambda x: torch.sin(x), fallback="eager")
    with Noting(), pytest.warns(CompileWarning, match="Noting is active around"):
        step(torch.ones(2))
    assert seen_functions


def test_an_error_of_the_step_is_raised() -> None:
    step = torch.compile(lambda x: x.reshape(7), fallback="eager")
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        step(torch.ones(2))


def test_without_it_a_step_is_refused() -> None:
    for step in (torch.compile(lambda x: x.unique()), torch.compile(lambda x: x.unique(), fallback=None)):
        with pytest.raises(CompileError, match='fallback="eager"'):
            step(torch.ones(2))


@pytest.mark.parametrize("given", ["Eager", "", True, "error"])
def test_other_values_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="fallback"):
        torch.compile(lambda x: x, fallback=given)
    with pytest.raises(ValueError, match="fallback"):
        torch.compile(fallback=given)(nn.Linear(1, 1))


def test_as_a_decorator() -> None:
    @torch.compile(fallback="eager")
    def step(x: Any) -> Any:
        return x * 2

    assert step.fallback == "eager" and torch.compile(step, fallback="eager") is step
    assert torch.compile(step).fallback is None and step(torch.ones(1)).item() == 2


def test_traces_for_one_program_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of which each trace learns something new is refused, whatever that is, and leaves nothing behind."""
    monkeypatch.setattr(compiled, "MOST_TRACES", 1)
    state = {"n": 0}

    def step(x: Any) -> Any:
        state["n"] += 1  # a number that changes is an input, which the first trace finds out
        return x * state["n"]

    with pytest.raises(CompileError, match=r"was traced 1 times.*fallback='eager'"):
        torch.compile(step)(torch.ones(2))
    assert state == {"n": 0}
    with pytest.warns(CompileWarning, match="was traced 1 times"):
        assert torch.compile(step, fallback="eager")(torch.ones(2)).tolist() == [1, 1]
