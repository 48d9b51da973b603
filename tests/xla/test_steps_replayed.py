"""A call on the host raises, after others that wrote into tensors: the step runs again as written, up to the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn


class Raising:
    """A hook that raises at one of its turns."""

    def __init__(self, turn: int) -> None:
        self.turns, self.turn = 0, turn

    def __call__(self, p: Any) -> None:
        self.turns += 1
        if self.turns == self.turn:
            raise ValueError("late")


def caught(backward: Any) -> str:
    try:
        backward()
    except ValueError as error:
        return str(error)
    return ""


def test_a_hook_that_looks_at_an_argument_wrote_before_the_error() -> None:
    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()
        raising = Raising(3)
        model.weight.register_post_accumulate_grad_hook(raising)

        def step(x: Any) -> Any:
            y = model(x)

            def hook(g: Any) -> None:
                log.append(x.sum().item())
                g.mul_(0.5)

            y.register_hook(hook)
            return caught(y.pow(2).mean().backward)

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log, look=lambda: [*log])

    agree(build, steps=5)


def test_the_hook_that_raises_has_written_to_a_gradient_given_as_argument() -> None:
    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()
        raising = Raising(3)

        def step(x: Any, extra: Any) -> Any:
            y = model(x)

            def hook(g: Any) -> None:
                log.append(extra.sum().item())
                extra.mul_(2)
                g.add_(1)
                raising(g)

            y.register_hook(hook)
            return caught(y.pow(2).mean().backward)

        extra = torch.ones(2)
        arguments = lambda turn: (torch.full((2, 2), 0.5 + turn), extra)
        return Case(step, model, extra, args=arguments, log=log, look=lambda: [*log, extra])

    agree(build, steps=5)


@pytest.mark.parametrize("kind", ["identity", "clone", "pair"])
def test_pack_hooks_that_only_count_are_not_taken_for_writers(kind: str) -> None:
    """What a program computes may be rounded otherwise than what the second run does, which no hook has written."""

    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), list[Any]()
        raising = Raising(3)
        model[0].weight.register_post_accumulate_grad_hook(raising)

        def pack(x: Any) -> Any:
            log.append(("pack", tuple(x.shape)))
            return x.clone() if kind == "clone" else (x, len(log)) if kind == "pair" else x

        def unpack(x: Any) -> Any:
            log.append("unpack")
            return x[0] if kind == "pair" else x

        def step(x: Any) -> Any:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                y = model(x)
            return caught(y.pow(2).mean().backward)

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), look=lambda: [*log])

    agree(build, steps=5, tolerance=1e-4)


@pytest.mark.parametrize("raises", [False, True], ids=["in the program", "run again"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("returns", [False, True], ids=["writes", "returns"])
def test_gradients_in_half_precision_from_a_hook_on_the_host(dtype: Any, returns: bool, raises: bool) -> None:
    def build() -> Case:
        model, log = nn.Linear(2, 3).to(dtype), list[Any]()
        raising = Raising(4 if raises else 100)
        model.bias.register_post_accumulate_grad_hook(raising)

        def hook(g: Any) -> Any:
            log.append(str(g.dtype))
            if returns:
                return g * 0.5 * len(log)
            g.mul_(0.5)
            return None

        def step(x: Any) -> Any:
            model.zero_grad()
            y = model(x)
            y.register_hook(hook)
            return caught(y.pow(2).sum().backward)

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn, dtype=dtype),), look=lambda: [*log])

    agree(build, steps=5, tolerance=1e-2)


def test_saved_tensors_in_half_precision_from_hooks_on_the_host() -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).bfloat16(), list[Any]()

        def pack(x: Any) -> Any:
            log.append(tuple(x.shape))
            return x.numpy() if x.dtype is torch.float32 else x.detach().float().numpy()

        def unpack(x: Any) -> Any:
            log.append(float(x.sum()) > 0)
            return torch.from_numpy(x).bfloat16()

        def step(x: Any) -> Any:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                y = model(x)
            y.float().pow(2).mean().backward()
            return y

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5, dtype=torch.bfloat16),), log=log)

    agree(build, steps=3, tolerance=1e-2)


@pytest.mark.parametrize("keeps", [lambda grad: grad, lambda grad: grad.detach()], ids=["itself", "alias"])
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("answers", [False, True])
def test_gradients_kept_before_an_error_are_those_of_the_leaves(keeps: Any, first: int, answers: bool) -> None:
    """A hook keeps `.grad` and raises in the second of two backward passes, which add to it."""

    def run(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model, kept, calls = nn.Linear(2, 3), [], []

        def step(x: Any) -> None:
            model.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward(retain_graph=True)
            loss.backward()

        def change(g: Any) -> Any:
            calls.append("change")
            return g * len(calls)

        def keep(p: Any) -> None:
            calls.append("keep")
            if calls.count("keep") >= first:
                kept.append(keeps(p.grad))
            if calls.count("keep") == 2:
                raise ValueError("enough")

        if answers:
            model.weight.register_hook(change)
        model.weight.register_post_accumulate_grad_hook(keep)
        with pytest.raises(ValueError, match="enough"):
            (torch.compile(step) if compiled else step)(torch.ones(4, 2))
        shared = [each.data_ptr() == model.weight.grad.data_ptr() for each in kept]
        same = [each is model.weight.grad for each in kept]
        return [calls, shared, same, model.weight.grad.tolist(), [each.tolist() for each in kept]]

    assert run(True) == run(False)


# --- answers that a program can't go on with

ANSWERS: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda g: g.double(),
    "shape": lambda g: g.reshape(-1),
    "a tuple": lambda g: (g * 2,),
    "a list": lambda g: [g * 2],
    "a number": lambda g: 2.0,
    "sparse": lambda g: g.to_sparse(),
    "a parameter": lambda g: nn.Parameter(g * 2),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_hook_on_the_host_answers_with_something_else(answer: str) -> None:
    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()

        def hook(g: Any) -> Any:
            log.append(g.norm().item())
            return ANSWERS[answer](g) if len(log) % 3 == 0 else g * 3

        model.weight.register_hook(hook)

        def step(x: Any) -> Any:
            model.zero_grad()
            try:
                model(x).pow(2).mean().backward()
            except (RuntimeError, TypeError) as error:
                return str(error)
            return None

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log, look=lambda: [*log])

    agree(build, steps=6)


def test_a_module_hook_answers_with_one_gradient_for_a_tuple() -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), list[Any]()

        def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
            log.append(grad_output[0].norm().item())
            return grad_input[0] if len(log) % 3 == 0 else None

        model[1].register_full_backward_hook(hook)

        def step(x: Any) -> Any:
            model.zero_grad()
            try:
                model(x).pow(2).mean().backward()
            except RuntimeError as error:
                return str(error)
            return None

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log, look=lambda: [*log])

    agree(build, steps=6)


OUTPUTS: dict[str, Callable[[Any, int], Any]] = {
    "dtype": lambda out, n: out.double() if n % 3 == 0 else out,
    "shape": lambda out, n: out[:1] if n % 3 == 0 else out,
    "kind": lambda out, n: {"out": out, "n": n} if n % 3 == 0 else out,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_forward_hook_on_the_host_answers_with_something_else(output: str) -> None:
    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()

        def hook(module: Any, args: Any, out: Any) -> Any:
            log.append(out.norm().item())
            return OUTPUTS[output](out, len(log))

        model.register_forward_hook(hook)
        model.register_forward_hook(lambda module, args, out: log.append(type(out).__name__))

        def step(x: Any) -> Any:
            with torch.no_grad():
                out = model(x)
                return {key: value * 2 for key, value in out.items()} if isinstance(out, dict) else out * 2

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log, look=lambda: [*log])

    agree(build, steps=6)


def test_a_statement_on_the_host_raises_inside_a_try() -> None:
    def build() -> Case:
        model, log, skipped = nn.Linear(2, 3), list[Any](), list[str]()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def check(loss: Any) -> None:
            log.append(loss.item())
            if loss.item() > 1e4:
                raise ArithmeticError(f"{len(log)}")

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x + torch.rand(2, 2)).pow(2).mean()
            try:
                check(loss)
                loss.backward()
                optimizer.step()
            except ArithmeticError as error:
                skipped.append(str(error))
                model.bias.data.mul_(0.5)
            finally:
                log.append("done")
            return loss.item()

        def args(turn: int) -> tuple[Any, ...]:
            return (torch.full((2, 2), 1e3 if turn in (2, 4) else 1.0),)

        return Case(step, model, optimizer, args=args, log=log, look=lambda: [*log, *skipped])

    agree(build, steps=6)


def test_parameters_that_are_frozen_when_the_call_begins() -> None:
    """The step freezes a layer, and an error keeps it from undoing that: the next call compiles, and raises, too."""

    def seen_by(run: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
        fired = {"first": 0, "last": 0}

        def fire(name: str, most: int) -> None:
            fired[name] += 1
            if fired[name] == most:
                raise ValueError("late")

        def first(g: Any) -> None:
            fire("first", 2)

        def last(g: Any) -> None:
            fire("last", 4)

        def step(x: Any) -> None:
            loss = model(x).pow(2).mean()
            model[2].requires_grad_(False)
            loss.backward()
            model[2].requires_grad_(True)

        call, found = run(step), list[Any]()
        model[2].weight.register_hook(last)
        for turn in range(6):
            if turn == 2:
                model[0].weight.register_hook(first)
            said = caught(lambda: call(torch.ones(2, 2)))
            found.append((said, dict(fired), [p.requires_grad for p in model.parameters()]))
        return found

    assert seen_by(torch.compile) == seen_by(lambda step: step)
