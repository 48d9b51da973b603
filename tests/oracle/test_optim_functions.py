"""The optimizers as functions of lists (`torch.optim.adam.adam`…) do what PyTorch's do."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import attempt

BETAS = {"beta1": 0.9, "beta2": 0.99}
# name: how many lists of buffers there are, which of them hold single numbers, and the options
CASES: dict[str, tuple[int, dict[int, float], dict[str, Any]]] = {
    "adam": (3, {}, {"amsgrad": True, **BETAS, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}),
    "adamw": (3, {}, {"amsgrad": True, **BETAS, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": True}),
    "adadelta": (2, {}, {"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "maximize": False}),
    "adagrad": (1, {}, {"lr": 0.5, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-10, "maximize": False}),
    "adamax": (2, {}, {"eps": 1e-8, **BETAS, "lr": 0.1, "weight_decay": 0.1}),
    "asgd": (3, {1: 1.0, 2: 0.1}, {"lambd": 1e-4, "lr": 0.1, "t0": 1.0, "alpha": 0.75, "weight_decay": 0.1}),
    "nadam": (3, {2: 1.0}, {**BETAS, "lr": 0.1, "weight_decay": 0.1, "momentum_decay": 4e-3, "eps": 1e-8}),
    "radam": (2, {}, {**BETAS, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}),
    "rmsprop": (3, {}, {
        "lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.9, "centered": True}),
    "rprop": (2, {}, {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2}),
}  # fmt: skip


def module(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.optim.{name}")


@pytest.mark.parametrize("name", CASES)
def test_steps_on_lists(name: str) -> None:
    count, numbers, options = CASES[name]

    def run(torch: Any) -> Any:
        params = [torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), torch.tensor([[4.0]], dtype=torch.float64)]
        lists = [
            [torch.tensor(numbers[place]) if place in numbers else torch.full_like(param, 0.1) for param in params]
            for place in range(count)
        ]
        steps = [torch.tensor(2.0) for _ in params]
        for _ in range(3):
            function = getattr(module(torch, name), name)
            function(params, [param * 0.3 - 1 for param in params], *lists, steps, **options)
        return [params, lists, steps]

    agree(run)


def test_sgd_makes_the_buffers_that_are_missing() -> None:
    def run(torch: Any) -> Any:
        params, buffers = [torch.tensor([1.0, 2.0], dtype=torch.float64)], [None]
        options = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "nesterov": False, "maximize": False}
        for _ in range(3):
            module(torch, "sgd").sgd(params, [params[0] * 0.3], buffers, dampening=0.1, **options)
        return [params, buffers, module(torch, "_functional").adam is module(torch, "adam").adam]

    agree(run)


def test_steps_are_counted_in_tensors() -> None:
    def run(torch: Any) -> Any:
        x = [torch.ones(2)]
        options = {"amsgrad": False, **BETAS, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}
        module(torch, "adam").adam(x, x, x, x, [], [1], **options)

    agree(run)


def test_multi_tensor_optimizers_say_foreach() -> None:
    def run(torch: Any) -> Any:
        x = torch.ones(2, requires_grad=True)
        optimizer = module(torch, "_multi_tensor").Adam([x], lr=0.1)
        (x * x).sum().backward()
        optimizer.step()
        return [x.detach(), optimizer.defaults["foreach"]]

    agree(run)


SGD = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}


def arguments(function: Any) -> tuple[Any, Any]:
    """What may be given by position, in order, and what by name only."""
    found = inspect.signature(function).parameters.values()
    told = [(each.name, each.default) for each in found if each.kind is not each.KEYWORD_ONLY]
    return told, sorted((each.name, each.default) for each in found if each.kind is each.KEYWORD_ONLY)


@pytest.mark.parametrize("name", [*CASES, "sgd"])
def test_arguments_are_those_of_pytorch(name: str) -> None:
    """None unknown and none missing; and leaves that ask for gradients are not written to in silence."""
    count, numbers, options = CASES.get(name, (1, {}, SGD))

    def run(torch: Any, log: Any) -> Any:
        function = getattr(module(torch, name), name)
        log(arguments(function))
        if name != "adamw":
            log(arguments(getattr(module(torch, name), f"_single_tensor_{name}")))

        def call(*more: Any, lack: str = "", asks: bool = False, **other: Any) -> Any:
            x = torch.tensor([1.0, 2.0], requires_grad=asks)
            lists = [
                [torch.tensor(numbers[place]) if place in numbers else torch.full((2,), 0.1)] for place in range(count)
            ]
            steps = [] if name == "sgd" else [[torch.tensor(2.0)]]
            given = {
                key: value for key, value in {**options, "amsgrad": False}.items() if key in options and key != lack
            }
            function([x], [torch.ones(2)], *lists, *steps, *more, **given, **other)
            return x.detach()

        attempt(log, "unknown", lambda: call(loudly=True))
        for key in options:
            attempt(log, "missing", partial(call, lack=key))
        attempt(log, "too many", lambda: call(*[None] * 9))
        attempt(log, "twice", lambda: call(params=[]))
        attempt(log, "no list", lambda: function([torch.ones(2)], [torch.ones(2)], **options))
        with pytest.raises(RuntimeError):  # in which write, and so in which words, differs
            call(asks=True)
        with torch.no_grad():
            attempt(log, "leaf, unrecorded", lambda: call(asks=True))

    agree(run)
