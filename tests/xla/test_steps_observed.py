"""Steps that are watched as people watch them: by loggers, queues, hooks, and whoever keeps the best model so far."""

from __future__ import annotations

import copy
import logging
import queue
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.optim.lr_scheduler import ReduceLROnPlateau

case = Cases()


@pytest.mark.parametrize("name", case)
def test_is_compiled_twice_at_most(name: str) -> None:
    agree(case[name], programs=2)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 0.5 + 0.25 * turn),)


def trained(after: Any, kind: Any = optim.SGD, **options: Any) -> Case:
    """A model that is trained, and something that each step does behind that."""
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.1)
    after = after(model, optimizer)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        after(loss)
        return loss.detach()

    return Case(step, model, optimizer, args=one, **options)


class Keeping(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__()
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.append(record.getMessage())


@case
def a_queue_and_a_handler_that_keeps_what_is_logged() -> Case:
    lines: list[str] = []
    waiting: queue.Queue[float] = queue.Queue()
    logger = logging.Logger("steps", logging.INFO)
    logger.addHandler(Keeping(lines))

    def after(model: Any, optimizer: Any) -> Any:
        def note(loss: Any) -> None:
            logger.info("loss %.3f", loss.item())
            waiting.put(round(loss.item(), 5))

        return note

    return trained(after, look=lambda: [list(lines), list(waiting.queue)])


@case
def the_best_model_so_far() -> Case:
    best: dict[str, Any] = {"loss": float("inf")}

    def after(model: Any, optimizer: Any) -> Any:
        def keep(loss: Any) -> None:
            if loss.item() < best["loss"]:
                best["loss"] = loss.item()
                best["state"] = copy.deepcopy(model.state_dict())

        return keep

    return trained(after, look=lambda: dict(best))


@case
def a_plateau(kind: Any = optim.SGD) -> Case:
    schedulers = []

    def after(model: Any, optimizer: Any) -> Any:
        scheduler = ReduceLROnPlateau(optimizer, patience=0, threshold=10.0)
        schedulers.append(scheduler)

        def reduce(loss: Any) -> None:
            scheduler.step(loss.item())

        return reduce

    def look() -> Any:
        return schedulers[-1].best, schedulers[-1].num_bad_epochs, schedulers[-1].get_last_lr()

    return trained(after, kind, look=look)


@case
def a_plateau_for_an_optimizer_that_counts() -> Case:
    return a_plateau(optim.Adam)


@case
def modes_of_a_statement_on_the_host() -> Case:
    weight = nn.Parameter(torch.ones(3, 3))
    seen: list[Any] = []

    def step(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            seen.append((str((x @ weight).dtype), torch.is_autocast_enabled("cpu")))
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                seen.append((str((x @ weight).dtype), torch.is_grad_enabled(), (x @ weight).requires_grad))
        return (x @ weight).detach()

    return Case(step, weight, args=one, look=lambda: list(seen))


@case
def a_hook_that_calls_setitem() -> Case:
    features: dict[str, Any] = {}
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    for name, part in model.named_children():
        part.register_forward_hook(lambda module, given, out, name=name: features.__setitem__(name, out))

    def step(x: Any) -> Any:
        model(x)
        features["1"].sum().backward()
        return features["0"].detach()

    return Case(step, model, args=one, look=lambda: [each.detach() for each in features.values()])


class Scaled(nn.Linear):
    def forward(self, input: Any, *, scale: float = 1.0) -> Any:
        return super().forward(input) * scale


@case
def a_hook_that_changes_keyword_arguments() -> Case:
    model = Scaled(3, 2)
    model.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, "scale": 3.0}), with_kwargs=True)
    return Case(lambda x: model(x, scale=2.0).detach(), model, args=one)


def test_a_plateau_before_the_optimizer_is_refused() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([weight], lr=0.1)
    scheduler = ReduceLROnPlateau(optimizer)

    @torch.compile
    def step(x: Any) -> None:
        loss = (weight * x).sum()
        loss.backward()
        scheduler.step(loss.item())
        optimizer.step()

    with pytest.raises(CompileError, match=r"scheduler\.step\(loss\.item\(\)\).*last statement of the step"):
        step(torch.ones(3))
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_a_norm_that_is_not_finite_stops_the_step() -> None:
    weight = nn.Parameter(torch.ones(3))

    @torch.compile
    def step(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()
        return nn.utils.clip_grad_norm_(weight, 1.0, error_if_nonfinite=True)

    assert step(torch.ones(3)).item() == pytest.approx(3**0.5)
    with pytest.raises(RuntimeError, match=r"The total norm of order 2\.0 for gradients"):
        step(torch.full((3,), float("inf")))


# --- code that handles errors


def handles_everything(x: Any) -> Any:
    try:
        x = x.unique()
    except:  # noqa: E722
        return x * 100
    return x


def handles_a_hook_that_is_refused(x: Any) -> Any:
    weight = x.clone().requires_grad_()
    weight.register_hook(lambda gradient: weight.register_hook(print) and None)
    try:
        weight.sum().backward()
    except Exception:
        return x
    return weight.grad


@pytest.mark.parametrize("step", [handles_everything, handles_a_hook_that_is_refused])
def test_the_steps_own_code_does_not_handle_what_stops_a_compile(step: Any) -> None:
    with pytest.raises(CompileError, match=r"test_steps_observed\.py"):
        torch.compile(step)(torch.ones(2))


def test_statements_inside_a_try(capsys: Any) -> None:
    weight, noted, divisors = torch.ones(2, requires_grad=True), [], [1.0, 2.0, 4.0, 0.0]

    def halved(gradient: Any) -> Any:
        try:
            return gradient * gradient.sum().item()
        except RuntimeError:
            return gradient * 100

    weight.register_hook(halved)

    @torch.compile
    def step(x: Any, turn: int) -> Any:
        try:
            weight.grad = None
            loss = (weight * x).sum()
            loss.backward()
            noted.append(loss.item() / divisors[turn])
        except ValueError:
            print("failed")
        else:
            print(f"turn {turn}")
        return loss.detach()

    for turn in range(3):
        step(torch.full((2,), 1.0 + turn), turn)
    assert noted == [2.0, 2.0, 1.5] and weight.grad.tolist() == [18.0, 18.0]
    assert capsys.readouterr().out == "turn 0\nturn 1\nturn 2\n"
    with pytest.raises(ZeroDivisionError):
        step(torch.ones(2), 3)
    assert len(noted) == 3 and weight.grad.tolist() == [2.0, 2.0]


MADE: dict[str, Any] = {
    "computed": lambda model, x: model(x),
    "written to": lambda model, x: model(x).mul_(2),
    "a parameter": lambda model, x: nn.Parameter(model(x).detach()),
    "one of several results": lambda model, x: model(x).split(1)[1],
    "detached and written to": lambda model, x: model(x).detach().add_(1).mul_(2),
    "a view": lambda model, x: model(x).t(),
    "made in inference mode": lambda model, x: torch.inference_mode()(model)(x),
}


def facts(tensor: Any) -> list[Any]:
    """What can be seen of a tensor besides its value; the node comes last: that of a result is one for the program."""
    found = [type(tensor).__name__, tensor.is_inference(), tensor.is_leaf, tensor.requires_grad, tensor.stride()]
    found += [tensor.retains_grad, None if tensor.is_inference() else tensor._version]
    return [*found, type(tensor.grad_fn).__name__, tensor.output_nr]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("where", ["hook", "statement", "result"])
def test_what_is_seen_of_tensors_besides_values(name: str, where: str) -> None:
    def build() -> Case:
        model, seen_there = nn.Linear(3, 3), list[Any]()
        identity = nn.Identity()
        if where == "hook":
            identity.register_forward_hook(lambda module, args, out: seen_there.append(facts(out)))

        def step(x: Any) -> Any:
            made = identity(MADE[name](model, x))
            if where == "statement":
                seen_there.append((facts(made), made.sum().item()))
            return made if where == "result" else None

        return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=lambda: seen_there)

    agree(build)
    if where == "result":
        case = build()
        x = torch.ones(2, 3)
        assert facts(torch.compile(case.step)(x))[:-2] == facts(case.step(x))[:-2]


def test_aliases_that_a_step_leaves_count_writes_together() -> None:
    left: dict[str, Any] = {}

    def step(x: Any) -> None:
        left["whole"] = (x * 2).add_(1)
        left["alias"] = left["whole"].detach()

    torch.compile(step)(torch.ones(3))
    left["whole"].add_(1)
    assert left["alias"]._version == left["whole"]._version == 2


class Window:
    """A meter of the last values, whose text needs tensors of its own."""

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=2)

    def __str__(self) -> str:
        return f"{torch.tensor(list(self.last)).median().item():.3f}"


def read_again(after: Any, look: Any) -> Case:
    """A step that notes values, and returns what follows from these."""
    layer = nn.Linear(3, 2)

    def step(x: Any) -> Any:
        out = layer(x)
        out.sum().backward()
        return after(out)

    return Case(step, layer, args=one, look=look)


@case
def a_mean_of_the_last_values_that_is_logged_and_returned() -> Case:
    layer, last, lines = nn.Linear(3, 2), deque[float](maxlen=2), list[str]()
    logger = logging.Logger("steps", logging.INFO)
    logger.addHandler(Keeping(lines))

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        loss.backward()
        last.append(loss.item())
        mean = sum(last) / len(last)
        logger.info("%.3f", mean)
        return mean

    return Case(step, layer, args=one, look=lambda: list(lines))


@case
def predictions_in_a_list_of_numpy() -> Case:
    layer, predicted = nn.Linear(3, 2), list[Any]()

    def step(x: Any) -> Any:
        out = layer(x)
        predicted.extend(out.argmax(1).numpy())
        share = (np.array(predicted) == 1).mean()
        return out.sum().item(), float(share)

    return Case(step, layer, args=one, look=lambda: len(predicted))


@case
def meters_by_name_that_are_made_when_first_used() -> Case:
    meters: defaultdict[str, Any] = defaultdict(lambda: {"sum": 0.0, "count": 0})

    def after(out: Any) -> Any:
        for name, value in {"sum": out.sum(), "mean": out.mean()}.items():
            meters[name]["sum"] += float(value.detach())
            meters[name]["count"] += 1
        return {name: meter["sum"] / meter["count"] for name, meter in meters.items()}

    return read_again(after, lambda: dict(meters))


@case
def a_meter_whose_text_computes_with_tensors() -> Case:
    window, texts = Window(), list[str]()

    def after(out: Any) -> None:
        window.last.append(out.sum().item())
        texts.append(str(window))

    return read_again(after, lambda: list(texts))


@case
def a_copy_of_the_state_before_the_step() -> Case:
    def after(model: Any, optimizer: Any) -> Any:
        before = copy.deepcopy(model.state_dict())

        def average(loss: Any) -> None:
            now = copy.deepcopy(model.state_dict())
            model.load_state_dict({key: before[key] + (now[key] - before[key]) / 2 for key in now})

        return average

    return trained(after)


@case
def copies_that_share_memory_as_the_originals_do() -> Case:
    weight = torch.arange(6.0).reshape(2, 3).t()

    def step(x: Any) -> Any:
        whole, row = copy.deepcopy([weight, weight[0]])
        row.add_(x.sum())
        return whole, row, weight + whole, whole.stride()

    return Case(step, weight, args=one)


def test_the_graph_of_a_tensor_on_the_host_is_refused() -> None:
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda module, args, out: print(out.grad_fn.next_functions))
    with pytest.raises(CompileError, match="a program has no graph"):
        torch.compile(lambda x: layer(x).sum().backward())(torch.ones(2, 3))


def test_a_profiler_sees_a_step_as_one_event() -> None:
    model = nn.Linear(3, 2)
    log: list[float] = []
    model.weight.register_hook(lambda gradient: log.append(gradient.norm().item()))

    @torch.compile
    def step(x: Any) -> Any:
        with torch.profiler.record_function("forward"):
            loss = model(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    for turn in range(2):
        step(*one(turn))
    with torch.profiler.profile() as profile:
        step(*one(2))
        step(*one(3))
    step(*one(4))
    assert [event.count for event in profile.key_averages() if event.key.endswith("step")] == [2]
    assert not any(event.key in ("aten::linear", "forward") for event in profile.key_averages())
    assert len(log) == 5
    assert len(torch.compile.explain(step).data[0]["programs"]) == 2
