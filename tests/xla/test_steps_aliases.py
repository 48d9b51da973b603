"""Aliases of memory that a program writes to: detached tensors, views and NumPy arrays see what later calls write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim

Alias = Callable[[Any], Any]

ALIASES: dict[str, Alias] = {
    "itself": lambda tensor: tensor,
    "detach": lambda tensor: tensor.detach(),
    "data": lambda tensor: tensor.data,
    "numpy": lambda tensor: tensor.detach().numpy(),
    "numpy_row": lambda tensor: tensor.detach().numpy()[0],
    "asarray": lambda tensor: np.asarray(tensor.detach()),
    "memoryview": lambda tensor: memoryview(tensor.detach().numpy()),
    "from_numpy": lambda tensor: torch.from_numpy(tensor.detach().numpy()),
    "from_dlpack": lambda tensor: torch.from_dlpack(tensor.detach()),
    "view": lambda tensor: tensor.detach().view(-1),
    "row": lambda tensor: tensor.detach()[0],
    "transposed": lambda tensor: tensor.detach().t(),
    "detached_view": lambda tensor: tensor.view(-1).detach(),
}


def ones(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 1.0 + 0.25 * turn),)


def looked_at(kept: list[Any]) -> list[Any]:
    """The aliases as arrays of their own; a look at one must not be what keeps it up to date."""
    return [np.array(each.detach() if isinstance(each, torch.Tensor) else each) for each in kept]


def parameters() -> list[tuple[Any, Alias]]:
    """A parameter for each kind of alias: nothing else holds its memory."""
    return [(nn.Parameter(torch.full((2, 3), 1.0 + place)), alias) for place, alias in enumerate(ALIASES.values())]


@pytest.mark.parametrize("looks", ["each_time", "at_the_end"])
@pytest.mark.parametrize("clears", ["never", "to_zero", "to_none"])
def test_of_gradients_kept_by_hooks(clears: str, looks: str) -> None:
    def build() -> Case:
        pairs, kept = parameters(), list[Any]()

        def keeper(alias: Alias) -> Callable[[Any], None]:
            def keep(parameter: Any) -> None:
                kept.append(alias(parameter.grad))

            return keep

        for parameter, alias in pairs:
            parameter.register_post_accumulate_grad_hook(keeper(alias))
        optimizer = optim.SGD([parameter for parameter, _ in pairs], lr=0.1)

        def step(x: Any) -> None:
            if clears != "never":
                optimizer.zero_grad(set_to_none=clears == "to_none")
            sum([(parameter * x).pow(2).sum() for parameter, _ in pairs]).backward()
            optimizer.step()

        def look() -> Any:
            return looked_at(kept) if looks == "each_time" or len(kept) == 4 * len(pairs) else None

        return Case(step, args=ones, look=look)

    agree(build, steps=4)


@pytest.mark.parametrize("what", ["gradient", "parameter"])
def test_kept_by_the_step_or_between_calls(what: str) -> None:
    def build() -> Case:
        a, b, c, d, e = [nn.Parameter(torch.full((2, 3), 1.0 + place)) for place in range(5)]
        between = parameters()
        everything = [a, b, c, d, e, *[parameter for parameter, _ in between]]
        optimizer = optim.SGD(everything, lr=0.1, momentum=0.5)
        kept, kept_outside = list[Any](), list[Any]()
        of = (lambda parameter: parameter.grad) if what == "gradient" else (lambda parameter: parameter)

        def step(x: Any) -> Any:
            sum([(parameter * x).pow(2).sum() for parameter in everything]).backward()
            optimizer.step()
            kept.append(of(a).detach())
            kept.append(of(b).detach().numpy()[1])
            return [of(c).view(-1).detach(), of(d).detach()[0], of(e).data]

        def keep(turn: int) -> None:
            kept_outside.extend([alias(of(parameter)) for parameter, alias in between] if turn < 2 else ())

        return Case(step, args=ones, between=keep, look=lambda: looked_at([*kept, *kept_outside]))

    agree(build, steps=4)


def test_of_arguments_that_the_step_writes_to() -> None:
    def build() -> Case:
        arguments = [torch.full((2, 3), 1.0 + place) for place in range(len(ALIASES))]
        kept = [alias(each) for each, alias in zip(arguments, ALIASES.values())]

        def step(*given: Any) -> Any:
            for each in given:
                each.mul_(1.5)
            return [given[0].view(-1).detach(), given[1].detach()[1], given[2].t()[0].detach().view(2, 1)]

        return Case(step, args=lambda turn: tuple(arguments), look=lambda: looked_at(kept))

    agree(build, steps=4)


def test_writes_through_an_alias_are_seen_by_the_next_call() -> None:
    def build() -> Case:
        pairs, kept = parameters(), list[Any]()
        for parameter, alias in pairs:
            parameter.register_post_accumulate_grad_hook(lambda p, alias=alias: kept.append(alias(p.grad)))

        def step(x: Any) -> Any:
            sum([(parameter * x).pow(2).sum() for parameter, _ in pairs]).backward()
            return [parameter.grad.sum() for parameter, _ in pairs]

        def between(turn: int) -> None:
            for each in kept[: len(pairs)]:
                np.asarray(each.detach() if isinstance(each, torch.Tensor) else each)[...] *= 0.5

        return Case(step, args=ones, between=between, look=lambda: looked_at(kept))

    agree(build, steps=4)


def test_made_in_the_program_and_kept_on_the_host() -> None:
    def build() -> Case:
        a, b = nn.Parameter(torch.full((2, 3), 2.0)), nn.Parameter(torch.full((2, 3), 3.0))
        buffer, layer = torch.zeros(2, 3), nn.Linear(3, 3)
        optimizer = optim.SGD([a, b], lr=0.1)
        kept, left = list[Any](), {"state": torch.zeros(2, 3), "output": torch.zeros(2, 3)}
        layer.register_forward_hook(lambda module, args, out: kept.append(out.detach()))

        def step(x: Any) -> None:
            left["state"].mul_(0.5)
            left["output"].mul_(0.5)
            of_buffer, of_parameter, of_argument = buffer.view(-1), a.detach()[0], x.t()
            kept.append(of_buffer)
            kept.append(of_parameter)
            kept.append(of_argument)
            buffer.add_(x)
            (a * x + b).pow(2).sum().backward()
            of_gradient = a.grad.detach()
            kept.append(of_gradient)
            a.grad.mul_(0.5)
            optimizer.step()
            computed = (b * x).detach()
            row = computed[0]
            kept.append(computed)
            kept.append(row)
            left["state"] = computed.detach()
            left["output"] = layer(x).detach()
            x.mul_(2)

        def between(turn: int) -> None:
            kept[-2].mul_(3)  # a row of the same

        return Case(step, args=ones, between=between, look=lambda: looked_at([*kept, *left.values(), a.grad]))

    agree(build, steps=4)


def test_kept_views_of_what_needs_gradients_may_be_written_to_through_others() -> None:
    def build() -> Case:
        a, kept = nn.Parameter(torch.full((2, 3), 2.0)), list[Any]()

        def step(x: Any) -> None:
            loss = (a * x).sum()
            loss.backward()
            flat = loss.view(-1)
            kept.append(flat)

        return Case(
            step, a, args=ones, between=lambda turn: kept[-1].detach().mul_(0.5), look=lambda: [looked_at(kept), kept]
        )

    agree(build)


def test_what_a_module_with_backward_hooks_gives_is_seen_on_the_host() -> None:
    """Such a module gives what a function of its own makes of the result, which is a view without steps."""

    def logged(compiled: bool) -> Any:
        torch.manual_seed(0)
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), list[Any]()
        model[1].register_full_backward_pre_hook(lambda module, gradients: None)

        def step(x: Any) -> Any:
            y = model(x)
            if y.norm() > 0.5:
                log.append(y.sum().item())
            y.sum().backward()
            return y.detach()

        called = torch.compile(step) if compiled else step
        return (
            [called(torch.full((3, 2), 0.1 * number)).tolist() for number in range(4)],
            log,
            model[0].bias.grad.tolist(),
        )

    for compiled, eager in zip(logged(True), logged(False), strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5)


def test_an_alias_keeps_the_memory_that_its_tensor_had() -> None:
    """`p.data = other` between calls gives the parameter another memory: who holds the old one keeps it."""

    def kept_values(compiled: bool) -> list[Any]:
        parameter, kept = nn.Parameter(torch.ones(2)), list[Any]()
        parameter.register_post_accumulate_grad_hook(lambda p: kept.append(p.detach()))

        def step(x: Any) -> None:
            (parameter * x).sum().backward()
            with torch.no_grad():
                parameter.add_(1)

        called, found = torch.compile(step) if compiled else step, []
        for number in range(4):
            called(torch.ones(2))
            if number == 1:
                parameter.data = parameter.data * 0.5
            found.append([each.tolist() for each in (*kept, parameter)])
        return found

    assert kept_values(True) == kept_values(False)


def _returns_the_second(x: Any, y: Any) -> Any:
    return x * 1, y


def _writes_to_the_first(x: Any, y: Any) -> Any:
    x.mul_(2)
    return y, y.sum()


def _returns_a_part(x: Any, y: Any) -> Any:
    return x.sum(), y[0], y.view(1, -1)


_KEPT: dict[str, Any] = {}


def _keeps_the_second(x: Any, y: Any) -> Any:
    _KEPT["y"] = y
    return (x + y).sum()


@pytest.mark.parametrize("alias", [lambda x: x.detach(), lambda x: x[:], lambda x: x.view(-1)])
@pytest.mark.parametrize("step", [_returns_the_second, _writes_to_the_first, _returns_a_part, _keeps_the_second])
def test_arguments_on_one_memory(step: Any, alias: Any) -> None:
    """Each is the tensor of its call, whether it is the first one on its memory or not."""

    def found(called: Any) -> list[Any]:
        values: list[Any] = []
        for number in range(4):
            x = torch.full((2,), number + 1.0)
            y = alias(x)
            result = called(x, y)
            parts = result if isinstance(result, tuple) else (result,)
            values.append([each.tolist() for each in (*parts, x, y, _KEPT.get("y", x))])
            values.append(any(each is y for each in parts))
        return values

    try:
        assert found(torch.compile(step)) == found(step)
    finally:
        _KEPT.clear()


def test_aliases_that_hooks_keep_raise_the_version_of_a_weight_once() -> None:
    def build() -> Case:
        model, kept, versions = nn.Linear(2, 3), list[Any](), list[int]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        optimizer.register_step_post_hook(lambda optimizer, args, kwargs: versions.append(model.weight._version))
        optimizer.register_step_post_hook(lambda optimizer, args, kwargs: kept.append(model.weight.detach()))

        def keep_three(p: Any) -> None:
            kept[:] = kept[-3:]

        model.weight.register_post_accumulate_grad_hook(keep_three)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Case(step, model, kept, args=lambda turn: (torch.ones(3, 2),), log=versions)

    agree(build, steps=4)
