"""What a step's own code does besides tensor work: it happens on each call, as in eager mode, or the compile stops."""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import logging
import random
import time
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree, differences, seen
from undertow import nn
from undertow._src.compile import CompileError, CompileWarning

case = Cases()  # of functions that give a step, and what its doings left behind


def run(build: Any, compiled: bool) -> tuple[Any, int]:
    """What three calls returned, printed and left behind; and how many programs that took."""
    torch.manual_seed(0)
    step, left = build()
    step = torch.compile(step) if compiled else step
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        results = [seen(step(torch.full((1, 2), float(turn)))) for turn in range(3)]
    said = [_number(word) for word in printed.getvalue().split()]
    programs = len(torch.compile.explain(step).data[0]["programs"]) if compiled else 0
    return {"results": results, "printed": said, "left": seen(left())}, programs


def _number(word: str) -> Any:
    try:
        return float(word)
    except ValueError:
        return word


@pytest.mark.parametrize("name", case)
def test_happens_on_each_call(name: str) -> None:
    eager, _ = run(case[name], False)
    compiled, programs = run(case[name], True)
    assert not differences(eager, compiled)
    assert (programs == 3) == (name in RECOMPILED)


RECOMPILED: set[str] = set()


def recompiles(build: Any) -> Any:
    """A step that depends on what it changes, and so is compiled for each call."""
    RECOMPILED.add(build.__name__)
    return case(build)


# --- things noted down


@case
def values_in_a_list() -> Any:
    layer, losses, kept = nn.Linear(2, 1), [], []

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        losses.append(loss.item())
        kept.append(loss.detach())
        return loss

    return step, lambda: (losses, kept)


@case
def printing() -> Any:
    layer = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        print("loss", loss.item(), f"{float(loss.detach()):.4f}")
        return loss

    return step, lambda: None


@case
def a_logger_a_file_and_a_set() -> Any:
    layer, into, file, kinds = nn.Linear(2, 1), io.StringIO(), io.StringIO(), set()
    logger = logging.getLogger("of a step")
    logger.setLevel("INFO")
    logger.propagate, logger.handlers = False, [logging.StreamHandler(into)]

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        logger.info("loss %.2f", loss.item())
        file.write(f"{loss.item():.2f}\n")
        kinds.add(round(loss.item(), 2))
        return loss

    return step, lambda: (into.getvalue(), file.getvalue(), sorted(kinds))


class Trainer:
    runs = 0

    def __init__(self) -> None:
        self.layer = nn.Linear(2, 1)
        self.steps, self.total, self.best, self.__hidden = 0, 0.0, None, 0
        self.history: dict[str, list[Any]] = {"loss": []}

    def step(self, x: Any) -> Any:
        loss = self.layer(x).pow(2).sum()
        self.steps += 1
        self.__hidden += 2
        Trainer.runs += 1
        self.total += loss.item()
        self.history["loss"].append(loss.item())
        if self.steps % 2 == 0:
            print("mean", self.total / self.steps)
        if self.best is None or loss.item() < self.best:
            self.best = loss.item()
        self.last = loss.detach()
        return loss

    def state(self) -> Any:
        return self.steps, self.total, self.history, self.best, self.last, self.__hidden, Trainer.runs


@case
def a_trainer_with_counters() -> Any:
    Trainer.runs = 0
    trainer = Trainer()
    return trainer.step, trainer.state


_calls = 0


@case
def variables_around_the_step() -> Any:
    global _calls
    _calls = 0
    layer, count, total, array = nn.Linear(2, 1), 0, 0.0, np.zeros(2)

    def step(x: Any) -> Any:
        nonlocal count, total
        global _calls
        loss = layer(x).sum()
        count += 1
        _calls += 1
        total += loss.item()
        array[1] += loss.item()
        return loss

    return step, lambda: (count, total, _calls, array)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 1)
        self.calls = 0
        self.seen: Any = collections.deque(maxlen=2)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        y = self.inner(x)
        self.seen.append(y.sum().item())
        return y


class Noted(torch.autograd.Function):
    log: list[Any] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Noted.log.append(("forward", x.sum().item()))
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        Noted.log.append(("backward", grads[0].sum().item()))
        return grads[0] * 2


@case
def in_a_module_and_a_function() -> Any:
    Noted.log.clear()
    module = Counting()

    def step(x: Any) -> Any:
        loss = Noted.apply(module(x)).sum()
        return loss.detach(), torch.autograd.grad(loss, module.inner.weight)

    return step, lambda: (module.calls, list(module.seen), list(Noted.log))


@case
def by_a_helper() -> Any:
    layer, noted = nn.Linear(2, 1), []

    def note(loss: Any) -> None:
        value = loss.item()
        noted.append(value)

    def step(x: Any) -> Any:
        def show(value: Any) -> None:
            print("shown", value.item())

        loss = layer(x).sum()
        note(loss)
        show(loss)
        return loss

    return step, lambda: noted


@case
def by_helpers_of_one_definition() -> Any:
    logs: Any = [], []

    def noting(log: Any) -> Any:
        def doubled(x: Any) -> Any:
            log.append(1)
            log.append(x.sum().item())
            return x * 2

        return doubled

    first, second = map(noting, logs)
    return lambda x: first(x) + second(x + 1), lambda: logs


@functools.lru_cache
def sizes(shape: Any) -> Any:
    return tuple(shape)


@case
def by_nothing() -> Any:
    def product(numbers: Any) -> Any:
        result = 1
        for each in numbers:
            result *= each
        return result

    return lambda x: x.reshape(product(sizes(x.shape))), lambda: None


@case
def in_turn_inside_other_code() -> Any:
    layer = nn.Linear(2, 1)
    log: list[Any] = []

    @contextlib.contextmanager
    def noted(name: str) -> Any:
        log.append("enter " + name)
        yield
        log.append("exit " + name)

    def halves(x: Any) -> Any:
        for divisor in (1, 2):
            log.append(divisor)
            yield x / divisor

    def deep(x: Any, depth: int) -> Any:
        total = x.sum()
        log.append((depth, total.item()))
        if depth:
            x = deep(x * 2, depth - 1)
        log.append(("back", depth, total.item()))
        return x

    def step(x: Any) -> Any:
        with noted("a"):
            loss = sum(layer(part).sum() for part in halves(x))
        return loss + deep(x, 2).sum()

    return step, lambda: log


@case
def through_another_name() -> Any:
    layer, holder = nn.Linear(2, 1), type("Holder", (), {})()
    holder.log = []

    def step(x: Any) -> Any:
        log = holder.log
        loss = layer(x).sum()
        log.append(loss.item())
        return loss

    return step, lambda: holder.log


# --- values


@case
def values_are_returned() -> Any:
    layer, losses = nn.Linear(2, 1), []

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        value = loss.item()
        twice = value * 2
        losses.append(twice)
        return {"loss": value, "calls": len(losses)}

    return step, lambda: losses


@case
def sums_and_lists_of_values() -> Any:
    layer = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        total, parts = 0.0, []
        for scale in range(3):
            loss = layer(x * scale).sum()
            total += loss.item()
            parts.append(loss.item())
        return total / 3, parts

    return step, lambda: None


@case
def values_among_results() -> Any:
    layer, calls = nn.Linear(2, 2), [0]

    def step(x: Any) -> Any:
        calls[0] += 1
        parts = {"mean": layer(x).mean(), "sum": layer(x).sum()}
        total = sum(parts.values())
        metrics = {name: part.item() for name, part in parts.items()}
        metrics["total"] = total.item()
        total.backward()
        if (norm := layer.weight.grad.norm().item()) > 0:
            metrics["norm"] = norm
        share = x.mean().item()
        best = total.item() if total > 0 else 0.0
        return (
            total.detach(),
            metrics,
            [part.item() for part in parts.values()],
            x * share,
            best,
            calls[0],
            layer.weight,
        )

    return step, lambda: calls


@case
def results_of_what_was_noted() -> Any:
    layer, total = nn.Linear(2, 1), {"loss": 0.0, "calls": 0, "best": 9.0}

    @contextlib.contextmanager
    def counted() -> Any:
        yield
        total["calls"] += 1

    def step(x: Any) -> Any:
        try:
            with counted():
                loss = layer(x).sum()
                total["loss"] += loss.item()
                value = loss.item()
                if value < total["best"]:
                    total["best"] = value
                return total["loss"] / (1 + total["calls"]), total["calls"], total["best"] < 0
        finally:
            total["calls"] += 1

    return step, lambda: total


def test_a_result_among_values_keeps_its_graph() -> None:
    layer = nn.Linear(2, 1)

    @torch.compile
    def step(x: Any) -> Any:
        out = layer(x)
        return out if out.sum() > -100 else -out, out.sum().item(), out.pow(2).mean().item()

    for turn in range(3):
        x = torch.full((1, 2), float(turn))
        out, total, _ = step(x)
        (gradient,) = torch.autograd.grad((out * 2).sum(), layer.weight)
        assert gradient.tolist() == (2 * x).tolist()
        assert total == out.sum().item()


@case
def norms_of_gradients_and_rates() -> Any:
    layer, norms, rates = nn.Linear(2, 1), collections.defaultdict(list), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        layer.zero_grad()
        loss = layer(x).pow(2).sum()
        loss.backward()
        for name, parameter in layer.named_parameters():
            norms[name].append(parameter.grad.norm().item())
        before = layer.weight.sum()
        optimizer.step()
        rate = optimizer.param_groups[0]["lr"]
        rates.append((rate, before.item(), layer.weight.sum().item()))
        optimizer.param_groups[0]["lr"] = rate * 0.5
        return loss

    return step, lambda: (dict(norms), rates)


@case
def in_turn_with_hooks() -> Any:
    layer, log = nn.Linear(2, 1), []

    def double(grad: Any) -> Any:
        log.append(("hook", grad.sum().item()))
        return grad * 2

    layer.weight.register_hook(double)

    def step(x: Any) -> Any:
        out = layer(x)
        log.append(("forward", out.sum().item()))
        (grad,) = torch.autograd.grad(out.sum(), layer.weight)
        log.append(("after", grad.sum().item()))
        return grad

    return step, lambda: log


@case
def checks_of_values() -> Any:
    layer = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        assert torch.isfinite(loss), "not finite"
        if not loss.isfinite():
            raise ValueError("not finite")
        return loss

    return step, lambda: None


def test_a_check_that_fails_leaves_everything_as_it_was() -> None:
    layer, count = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).sum()
        assert torch.isfinite(loss), "not finite"
        loss.backward()
        optimizer.step()
        count.append(1)
        return loss

    step(torch.ones(1, 2))
    before = layer.weight.clone()
    with pytest.raises(AssertionError, match="not finite"):
        step(torch.full((1, 2), float("nan")))
    assert torch.equal(layer.weight, before) and count == [1]
    step(torch.ones(1, 2))
    assert count == [1, 1]


# --- what the step itself depends on


@case
def a_counter_that_is_used() -> Any:
    layer, state = nn.Linear(2, 1), {"calls": 0}

    def step(x: Any) -> Any:
        state["calls"] += 1
        return layer(x).sum() * state["calls"]

    return step, lambda: state


@recompiles
def a_list_that_is_used() -> Any:
    layer, kept = nn.Linear(2, 1), []

    def step(x: Any) -> Any:
        kept.append(layer(x).sum().detach())
        return torch.stack(kept).sum()

    return step, lambda: kept


# --- what stops the compile


def uses_random(x: Any) -> Any:
    return x * 2 if random.getrandbits(3) < 9 else x


def uses_numpy_random(x: Any) -> Any:
    return x + float(np.random.rand(1)[0])


def uses_a_clock(x: Any) -> Any:
    began = time.perf_counter()
    return x * began


def uses_an_iterator(x: Any) -> Any:
    return x * next(_numbers)


def uses_a_loader(x: Any) -> Any:
    for batch in _loader:
        x = x + batch
    return x


_numbers = iter(range(100))
_loader = torch.utils.data.DataLoader([1.0, 2.0])


@pytest.mark.parametrize("step", [uses_random, uses_numpy_random, uses_a_clock, uses_an_iterator, uses_a_loader])
def test_is_refused_with_its_line(step: Any) -> None:
    line = step.__code__.co_firstlineno + 1
    with pytest.raises(CompileError, match=rf"test_step_effects\.py:{line}\)") as caught:
        torch.compile(step)(torch.ones(2))
    assert "random numbers" in str(caught.value) or "outside" in str(caught.value)
    assert not getattr(caught.value, "__notes__", [])


def test_what_is_not_reached_is_not_refused() -> None:
    def step(x: Any, noisy: bool) -> Any:
        if noisy:
            x = x * random.getrandbits(3)
        return x * 2

    compiled = torch.compile(step)
    assert compiled(torch.ones(1), False).item() == 2
    with pytest.raises(CompileError, match=r"random\.getrandbits"):
        compiled(torch.ones(1), True)


def test_code_that_cannot_be_read_is_warned_of() -> None:
    space: dict[str, Any] = {}
    exec("def hidden(x):\n    return x * 2", space)
    hidden = space["hidden"]

    def step(x: Any) -> Any:
        return hidden(x)

    with pytest.warns(CompileWarning, match=r"calls `hidden`, which has no source to read"):
        torch.compile(step)(torch.ones(1))


def test_a_value_asked_for_by_code_that_cannot_be_read() -> None:
    space: dict[str, Any] = {}
    exec("def step(x):\n    print(x.sum().item())\n    return x * 2", space)
    with pytest.raises(CompileError, match=r"no source that undertow can read.*write the step in a file"):
        torch.compile(space["step"])(torch.ones(1))


def test_a_kept_tensor_says_that_its_graph_is_gone() -> None:
    layer, kept = nn.Linear(2, 1), []

    @torch.compile
    def step(x: Any) -> Any:
        out = layer(x)
        loss = out.sum()
        kept.append((out, loss.item()))
        return loss

    step(torch.ones(1, 2)).backward()
    assert layer.weight.grad is not None and kept[0][0].requires_grad
    with pytest.raises(RuntimeError, match="computed in a compiled step"):
        kept[0][0].backward()


def test_a_report_lists_statements_on_the_host() -> None:
    layer, losses = nn.Linear(2, 1), []

    @torch.compile
    def step(x: Any) -> Any:
        loss = layer(x).sum()
        losses.append(loss.item())
        return loss

    step(torch.ones(1, 2))
    (line,) = torch.compile.explain(step).data[0]["programs"][0]["statements"]
    assert line["source"] == "`losses.append(loss.item())`" and line["runs"] == "after the program"
    assert "appends to `losses`" in line["why"] and line["where"].startswith(__file__)
    assert "`losses.append(loss.item())`" in str(torch.compile.explain(step))


# --- steps that go on with values


def chooses(x: Any) -> Any:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y


def repeats(x: Any) -> Any:
    while x.sum() < 100:
        x = x * 2
    return x


weight = torch.ones(2, requires_grad=True)


def multiplies(x: Any) -> Any:
    scale = x.sum().item()
    (weight * x * scale).sum().backward()


def looks_up(x: Any) -> Any:
    place = int(x.argmax())
    (weight * x * [1.0, 2.0][place]).sum().backward()


def goes_through(x: Any) -> Any:
    total = 0
    for value in x.tolist():
        total = total + x * value
    return total


def goes_through_numpy(x: Any) -> Any:
    array = np.asarray(x)
    (weight * torch.from_numpy(array * 2)).sum().backward()


def stops_in_a_debugger(x: Any) -> Any:
    breakpoint()
    return x


def keeps_what_it_finds(x: Any) -> Any:
    return x.unique()


@pytest.mark.parametrize("step", [chooses, repeats, multiplies, looks_up, goes_through])
def test_a_step_that_goes_on_with_values(step: Any) -> None:
    values = [2.0, -3.0, 0.5, 40.0]
    if step is repeats:
        values.remove(-3.0)  # for which it never ends

    def build() -> Case:
        weight.grad = None
        return Case(step, weight, args=lambda turn: (torch.tensor([1.0, values[turn]]),))

    agree(build, steps=len(values))


@pytest.mark.parametrize(
    ("step", "line", "cure"),
    [
        (goes_through_numpy, 1, "keep it a tensor"),
        (stops_in_a_debugger, 1, "without torch.compile"),
        (keeps_what_it_finds, 1, 'fallback="eager"'),
    ],
)
def test_a_step_that_goes_on_with_values_is_refused_with_line_and_cure(step: Any, line: int, cure: str) -> None:
    with pytest.raises(CompileError) as caught:
        torch.compile(step)(torch.ones(2))
    said = str(caught.value)
    assert f"{__file__}:{step.__code__.co_firstlineno + line}" in said and cure in said
    assert "racer" not in said and not getattr(caught.value, "__notes__", [])


def test_draws_stay_in_turn() -> None:
    """What draws random numbers of undertow's is not moved behind other draws: only the rest of the statement is."""

    def build() -> Case:
        layer, log = nn.Dropout(0.5), []

        def step(x: Any) -> Any:
            log.append(torch.rand(1).item())
            return layer(x)

        return Case(step, layer, args=lambda turn: (torch.ones(4),), log=log)

    agree(build)


def test_what_a_statement_on_the_host_writes_into_is_named() -> None:
    log: list[Any] = []
    space: dict[str, Any] = {"log": log}
    exec("def double(x):\n    log.append(1)\n    x.mul_(2)", space)
    double = space["double"]

    def step(x: Any) -> Any:
        y = x + 1
        double(y)
        return y

    with pytest.raises(CompileError, match=r"`double\(y\)` .* wrote into a tensor of shape \[2\]"):
        torch.compile(step)(torch.ones(2))
