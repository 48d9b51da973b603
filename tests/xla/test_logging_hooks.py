"""Hooks that compute and then keep, print or count: their tensor work is part of the program, the rest sees its results.

What they log is eager mode's, in its order, with its objects; and no activation leaves the program for them.
"""

from __future__ import annotations

import functools
import io
import logging
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Cases, differences, seen
from undertow import nn, optim
from undertow._src.compile import CompileError

BATCH, LENGTH, WIDTH = 5, 7, 6  # no parameter has three axes: what does is an activation, or a batch
hang = Cases()  # functions that hang hooks on a model, and note things in a list
ASKS = {"keeps_output", "numpy_inside"}  # those that need activations themselves


class Lines(io.StringIO):
    """A file that adds what is written to a list."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    def write(self, text: str) -> int:
        self.log.append(text)
        return len(text)


class Block(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.norm = name, nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Block(f"block {i}") for i in range(3)])
        self.first, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.first(x)))


def train(name: str, compiled: bool, calls: int = 4, log: list[Any] | None = None) -> tuple[list[Any], Any]:
    """Return what hooks have noted in some steps, and the step."""
    torch.manual_seed(0)
    model, log = Model(), [] if log is None else log
    hang[name](model, log)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = torch.compile(step) if compiled else step
    torch.manual_seed(1)
    log.append([run(torch.randn(BATCH, LENGTH, 3)) for _ in range(calls)])
    log.append([parameter.detach() for parameter in model.parameters()])
    return log, run


def same_objects(noted: Any, known: dict[int, int]) -> Any:
    """Return for each tensor the number of the first one that it is the same object as."""
    if isinstance(noted, (list, tuple, deque)):
        return [same_objects(each, known) for each in noted]
    if isinstance(noted, dict):
        return [same_objects(each, known) for each in noted.values()]
    return known.setdefault(id(noted), len(known)) if isinstance(noted, torch.Tensor) else type(noted)


def programs_of(step: Any) -> Iterator[Any]:
    for programs in step.programs.values():
        yield from (program for program in programs if not program.runs_as_written)


def activations_left(step: Any) -> list[Any]:
    """Return the shapes of activations that programs give to the host, as results or to callbacks inside."""
    found = []
    for program in programs_of(step):
        assert not program.callbacks.interrupt_program
        found += [array.shape for call in program.callbacks.host_calls for array in call.view.captured]
        found += [buffer.value.shape for buffer in program.outputs._buffers.made]
    return [shape for shape in found if len(shape) == 3 and shape[-1] != 3]


@pytest.mark.parametrize("name", hang)
def test_logs_are_those_of_eager_mode(name: str, capsys: Any) -> None:
    eager, _ = train(name, False)
    printed = capsys.readouterr().out
    compiled, step = train(name, True)
    assert not differences(seen(eager), seen(compiled), tolerance=1e-4)
    assert same_objects(eager, {}) == same_objects(compiled, {})
    assert capsys.readouterr().out == printed
    assert len([*programs_of(step)]) == 1
    assert bool(activations_left(step)) is (name in ASKS)


# --- hooks on modules


@hang
def appended(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_forward_hook(lambda module, args, out: log.append(out.detach().float().pow(2).mean()))


@hang
def calls_that_return_nothing(model: Any, log: Any) -> None:
    newest, shapes, logger = deque[int](maxlen=3), set[Any](), logging.getLogger("hooks")
    handler = logging.StreamHandler(Lines(log))
    logger.handlers[:], logger.propagate = [handler], False
    log.append(newest)
    for block in model.blocks:
        block.register_forward_hook(lambda module, args, out: newest.appendleft(out.argmin().item()))
        block.register_forward_hook(lambda module, args, out: log.insert(0, out.mean().item()))
        block.register_forward_hook(lambda module, args, out: shapes.update([tuple(out.shape)]))
        block.register_forward_hook(lambda module, args, out: logger.warning("%d", out.argmax().item()))


@hang
def appended_with_graph(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append(out.pow(2).mean())

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def backward(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_full_backward_hook(lambda module, into, out: log.append(out[0].float().norm()))


@hang
def backward_numbers(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_full_backward_hook(lambda module, into, out: log.append((module.name, out[0].norm().item())))


@hang
def before_forward(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_forward_pre_hook(lambda module, args: log.append(float(args[0].detach().norm())))


@hang
def under_names(model: Any, log: Any) -> None:
    stats: dict[str, Any] = {}
    log.append(stats)

    def made_for(name: str) -> Any:
        def hook(module: Any, args: Any, out: Any) -> None:
            stats[name] = out.detach().abs().max().item()

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(made_for(name))


@hang
def in_lists_that_begin(model: Any, log: Any) -> None:
    kept: Any = defaultdict(list)
    log.append(kept)
    for name, module in model.blocks.named_children():
        module.register_forward_hook(lambda module, args, out, name=name: kept[name].append(out.detach().mean()))


@hang
def printed(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_forward_hook(
            lambda module, args, out: print(module.name, f"{out.norm().item():.2f}", out.dtype, out.shape)
        )


@hang
def one_object_twice(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        mean = out.detach().mean()
        log.append(mean)
        log.append((mean, mean))

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def in_turn(model: Any, log: Any) -> None:
    """Several hooks fill one list."""
    for block in model.blocks:
        block.register_forward_hook(lambda module, args, out: log.append(("out", out.mean().item())))
        block.register_forward_hook(lambda module, args, out: log.append(("norm", out.detach().norm())))
        block.register_full_backward_hook(lambda module, into, out: log.append(("back", out[0].sum().item())))
        block.up.weight.register_hook(lambda gradient: log.append(("weight", gradient.abs().max())))


@hang
def several_numbers(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        x = out.detach().float()
        log.append({"mean": x.mean().item(), "std": x.std(), "shape": tuple(x.shape), "zeros": (x == 0).sum().item()})

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def without_gradients(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        with torch.no_grad():
            norm = out.pow(2).mean().sqrt()
            log.append([norm, norm.requires_grad])

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def decorated(model: Any, log: Any) -> None:
    @torch.no_grad()
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append(out.pow(2).mean())

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def each_gradient(model: Any, log: Any) -> None:
    def hook(module: Any, into: Any, out: Any) -> None:
        for place, gradient in enumerate((*into, *out)):
            if gradient is not None:
                log.append((place, gradient.norm().item()))

    for block in model.blocks:
        block.register_full_backward_hook(hook)


@hang
def listed(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_full_backward_hook(
            lambda module, into, out: log.append([each.norm().item() for each in out if each is not None])
        )


@hang
def of_parameters(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append({name: each.detach().norm().item() for name, each in module.named_parameters()})

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def tensor_or_tuple(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        first = out[0] if isinstance(out, tuple) else out
        if isinstance(first, torch.Tensor):
            log.append((module.name, first.detach().norm().item()))

    for block in model.blocks:
        block.register_forward_hook(hook)


# --- state of Python's


@hang
def now_and_then(model: Any, log: Any) -> None:
    state = {"fired": 0}

    def hook(module: Any, args: Any, out: Any) -> None:
        state["fired"] += 1
        if state["fired"] % 2 == 0:
            with torch.no_grad():
                log.append((state["fired"], out.norm().item()))

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def while_there_is_room(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        if len(log) < 5:
            log.append(out.detach().norm())

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def large_ones(model: Any, log: Any) -> None:
    def hook(module: Any, into: Any, out: Any) -> None:
        norm = out[0].norm()
        if norm > 0.02:
            log.append(norm.item())

    for block in model.blocks:
        block.register_full_backward_hook(hook)


class Statistics:
    def __init__(self, name: str = "") -> None:
        self.name, self.values, self.mean, self.last, self.calls = name, list[Any](), 0.0, None, 0

    def keep(self, module: Any, args: Any, out: Any) -> None:
        self.values.append(out.detach().mean())

    def average(self, module: Any, args: Any, out: Any) -> None:
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * out.detach().mean().item()

    def remember(self, module: Any, args: Any, out: Any) -> None:
        mean = out.detach().mean()
        self.last = mean if self.last is None else 0.9 * self.last + 0.1 * mean

    def __call__(self, module: Any, args: Any, out: Any) -> None:
        self.values.append((self.name, out.detach().mean().item()))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.values.append((name, value, step))


@hang
def methods(model: Any, log: Any) -> None:
    statistics = Statistics()
    log.append(statistics)
    for block in model.blocks:
        block.register_forward_hook(statistics.keep)


@hang
def objects(model: Any, log: Any) -> None:
    for block in model.blocks:
        log.append(Statistics(block.name))
        block.register_forward_hook(log[-1])


@hang
def running_mean(model: Any, log: Any) -> None:
    for block in model.blocks:
        log.append(Statistics())
        block.register_forward_hook(log[-1].average)


@hang
def running_mean_of_tensors(model: Any, log: Any) -> None:
    for block in model.blocks:
        log.append(Statistics())
        block.register_forward_hook(log[-1].remember)


@hang
def written_by(model: Any, log: Any) -> None:
    writer, state = Statistics(), {"step": 0}
    log.append(writer)

    def hook(module: Any, args: Any, out: Any) -> None:
        writer.add_scalar("act/" + module.name, out.detach().mean().item(), state["step"])
        state["step"] += 1

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def partial_arguments(model: Any, log: Any) -> None:
    def hook(name: str, module: Any, args: Any, out: Any) -> None:
        log.append((name, out.detach().mean().item()))

    for block in model.blocks:
        block.register_forward_hook(functools.partial(hook, block.name))


@hang
def by_a_helper(model: Any, log: Any) -> None:
    def note(name: str, value: Any) -> None:
        log.append((name, value.norm().item()))

    for block in model.blocks:
        block.register_forward_hook(lambda module, args, out: note(module.name, out))


@hang
def a_hook_that_reads_what_others_keep(model: Any, log: Any) -> None:
    for block in model.blocks:
        block.register_forward_hook(lambda module, args, out: log.append(out.detach().mean()))
    model.head.register_forward_hook(lambda module, args, out: log.append((len(log), out.detach().max())))


# --- hooks on tensors


@hang
def gradients(model: Any, log: Any) -> None:
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda gradient, name=name: log.append((name, gradient.norm())))


@hang
def accumulated(model: Any, log: Any) -> None:
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda leaf: log.append((leaf.grad.norm(), leaf.norm().item())))


@hang
def returned_too(model: Any, log: Any) -> None:
    def hook(gradient: Any) -> Any:
        log.append(gradient.norm().item())
        return gradient.clamp(-0.01, 0.01)

    for parameter in model.parameters():
        parameter.register_hook(hook)
        parameter.register_hook(lambda gradient: (log.append(gradient.abs().max()), gradient * 0.5)[1])
        parameter.register_hook(lambda gradient: log.append(gradient.abs().max().item()) or gradient * 2)


@hang
def returned_by_modules(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> Any:
        half = out / 2
        log.append((half.detach().mean(), out.mean().item()))
        return half

    for block in model.blocks:
        block.register_forward_hook(hook)


@hang
def keeps_output(model: Any, log: Any) -> None:
    model.blocks[1].register_forward_hook(lambda module, args, out: log.append([out.detach(), out.mean().item()]))


@hang
def numpy_inside(model: Any, log: Any) -> None:
    model.blocks[1].register_forward_hook(lambda module, args, out: log.append(float(out.detach().numpy().sum())))


# --- work that may not be done earlier


@hang
def effects_among_the_arguments(model: Any, log: Any) -> None:
    stack: list[str] = []

    def begin(name: str) -> Any:
        return lambda module, args: stack.append(name)

    for name, module in model.blocks.named_modules():
        module.register_forward_pre_hook(begin(name))
        module.register_forward_hook(
            lambda module, args, out: log.append((list(stack), stack.pop(), out.sum().item(), len(stack)))
        )


@hang
def written_in_a_branch(model: Any, log: Any) -> None:
    switch = {"on": True}

    def hook(module: Any, args: Any, out: Any) -> None:
        copied = out.detach().mean(0)
        if switch["on"]:
            copied.zero_()
            log.append(copied.sum())

    model.blocks[0].register_forward_hook(hook)


@hang
def filled_in_a_branch(model: Any, log: Any) -> None:
    switch = {"on": True}

    def hook(module: Any, args: Any, out: Any) -> None:
        factors = [1.0]
        if switch["on"]:
            factors.append(2.0)
            log.append(torch.tensor(factors).sum() + out.detach().sum())

    model.blocks[0].register_forward_hook(hook)


@hang
def lists_in_a_loop(model: Any, log: Any) -> None:
    rounds = [1, 2]

    def hook(module: Any, into: Any, out: Any) -> None:
        for factor in rounds:
            log.append([(each * factor).sum().item() for each in out])

    model.blocks[0].register_full_backward_hook(hook)


@hang
def set_on_the_way(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        if (norm := out.norm().item()) > 0.1:
            log.append(norm)

    model.blocks[0].register_forward_hook(hook)


@hang
def if_in_an_expression(model: Any, log: Any) -> None:
    switch = {"on": 0}

    def turn(module: Any, args: Any) -> None:
        switch["on"] += 1

    model.register_forward_pre_hook(turn)
    model.blocks[0].register_forward_hook(
        lambda module, args, out: log.append(out.norm().item()) if switch["on"] % 2 else None
    )


@hang
def counted_in_two_lines(model: Any, log: Any) -> None:
    state = {"fired": 0}

    def hook(module: Any, args: Any, out: Any) -> None:
        number = state["fired"]
        state["fired"] = number + 1
        if number % 2 == 0:
            log.append((number, out.norm().item()))

    for block in model.blocks:
        block.register_forward_hook(hook)


# --- what hooks leave alone


def test_programs_still_write_over_their_inputs() -> None:
    for name in ("appended", "backward_numbers", "under_names", "in_lists_that_begin", "running_mean", "now_and_then"):
        _, step = train(name, True)
        (program,) = programs_of(step)
        assert not program.callbacks.may_raise_after and program.inputs._buffers.donated, name


def test_a_hook_that_raises_still_stops_the_step_where_it_is() -> None:
    torch.manual_seed(0)
    model, log, limit = Model(), list[Any](), [1e9]
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def check(module: Any, args: Any, out: Any) -> None:
        norm = out.norm()
        log.append(norm.item())
        if norm > limit[0]:
            raise ValueError(f"{module.name} is too large")

    for block in model.blocks:
        block.register_forward_hook(check)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    x = torch.ones(BATCH, LENGTH, 3)
    for _ in range(3):
        step(x)
    assert not activations_left(step)
    before, log[:], limit[0] = [each.detach().clone() for each in model.parameters()], [], 0.0
    with pytest.raises(ValueError, match="block 0 is too large"):
        step(x)
    assert len(log) == 1 and all(torch.equal(a, b) for a, b in zip(model.parameters(), before))


def test_a_list_that_is_replaced_by_something_else() -> None:
    """A program that writes over its inputs can't be stopped: the step is carried out, and the error says so."""
    model, holder = nn.Linear(3, 2), Statistics()
    model.register_forward_hook(lambda module, args, out: holder.values.append(out.sum().item()))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    before = model.weight.detach().clone()
    holder.values = None  # type: ignore[assignment]
    with pytest.raises((CompileError, AttributeError), match="append"):
        step()
    assert model.weight.isfinite().all() and before.isfinite().all()
    holder.values = []
    step()
    assert len(holder.values) == 1


def test_work_that_eager_mode_would_not_do_may_fail() -> None:
    """The branch is not taken: what it computes is not possible."""
    model, log, wide = nn.Linear(3, 2), list[Any](), [False]

    def hook(module: Any, args: Any, out: Any) -> None:
        log.append(out.sum().item())
        if wide[0]:
            log.append(out[:, 5].sum().item())

    model.register_forward_hook(hook)
    step = torch.compile(lambda: model(torch.ones(1, 3)))
    results = [step() for _ in range(3)]
    assert log == pytest.approx([result.sum().item() for result in results])


def test_hooks_are_let_go() -> None:
    import gc
    import weakref

    def once() -> Any:
        kept = Statistics()
        model = nn.Linear(3, 2)
        model.register_forward_hook(kept.keep)
        step = torch.compile(lambda: model(torch.ones(1, 3)).sum().backward())
        for _ in range(3):
            step()
        assert len(kept.values) == 3
        return weakref.ref(kept)

    kept = once()
    gc.collect()
    assert kept() is None


def logging_class() -> tuple[Any, list[str]]:
    called: list[str] = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    return torch.ones(3).as_subclass(Logged), called


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_tensor_that_logs_its_calls_beside_a_hook(compiled: bool) -> None:
    weight, called = logging_class()
    model, log = nn.Linear(3, 2), list[float]()

    def note(module: Any, args: Any, out: Any) -> None:
        log.append(out.sum().item() + float(weight.sum()))

    model.register_forward_hook(note)
    step = torch.compile(lambda x: model(x)) if compiled else model
    for _ in range(3):
        step(torch.ones(3))
        assert called == ["sum", "__float__"]
        called.clear()
    assert len(log) == 3


def test_a_tensor_that_logs_its_calls_in_a_statement_on_the_host() -> None:
    weight, _ = logging_class()
    log: list[float] = []

    def step(x: Any) -> Any:
        total = weight.sum()
        log.append(float(total))
        return x * 2

    with pytest.raises(CompileError, match="`__torch_function__` does more than compute"):
        torch.compile(step)(torch.ones(3))
