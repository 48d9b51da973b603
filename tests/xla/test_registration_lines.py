"""A compile that stops, and a report, name the line that registered a hook."""

# Several statements to a line: registrations are told apart there.
# fmt: off

from __future__ import annotations

import copy
import functools
import os
import pickle
import sys
from typing import Any

import pytest

import undertow as torch
from undertow import nn, why
from undertow._src.compile import CompileError
from undertow.autograd import graph

HERE = os.path.relpath(__file__)  # as reports show it


def line() -> str:
    """file:line of the caller's line."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def noisy(module: Any, args: Any, result: Any) -> Any:
    return result * 2 if print("here") is None else result


def test_an_error_names_the_hook_its_definition_and_its_registration() -> None:
    layer = nn.Linear(2, 1)
    layer.register_forward_hook(noisy); registered = line()  # noqa: E702

    @torch.compile
    def step(x: Any) -> Any:
        return layer(x).sum()

    with pytest.raises(CompileError) as caught:
        step(torch.ones(1, 2))
    said = str(caught.value)
    assert f"the hook noisy (defined at {__file__}:{noisy.__code__.co_firstlineno}, registered at {registered})" in said
    assert "prints" in said


class Counting:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, grad: Any) -> None:
        self.count += 1
        print(self.count)


def test_objects_and_builtins_that_are_hooks_are_shown_with_the_lines_they_have() -> None:
    leaf, log = torch.ones(2, requires_grad=True), list[Any]()
    leaf.register_hook(Counting()); counting = line()  # noqa: E702
    leaf.register_hook(functools.partial(Counting.__call__, Counting())); partly = line()  # noqa: E702
    leaf.register_hook(log.append); appending = line()  # noqa: E702

    @torch.compile
    def step() -> None:
        (leaf * 2).sum().backward()

    step()
    said, at = str(torch.compile.explain(step)), f"{HERE}:{Counting.__call__.__code__.co_firstlineno}"
    counting, partly, appending = (each.replace(__file__, HERE) for each in (counting, partly, appending))
    assert f"Counting ({at}, registered at {counting})" in said
    assert f"({at}, registered at {partly})" in said
    assert f"append (registered at {appending})" in said


def _registrars(layer: Any) -> dict[str, Any]:
    everywhere = nn.modules.module
    return {
        "tensor": lambda hook: (layer.weight.register_hook(hook), line()),
        "post-accumulate": lambda hook: (layer.weight.register_post_accumulate_grad_hook(hook), line()),
        "forward-pre": lambda hook: (layer.register_forward_pre_hook(hook), line()),
        "forward": lambda hook: (layer.register_forward_hook(hook), line()),
        "backward": lambda hook: (layer.register_full_backward_hook(hook), line()),
        "every module": lambda hook: (everywhere.register_module_forward_hook(hook), line()),
        "multi-grad": lambda hook: (graph.register_multi_grad_hook([layer.weight, layer.bias], hook), line()),
    }


@pytest.mark.parametrize("kind", _registrars(None))
def test_a_report_shows_registrations(kind: str) -> None:
    layer = nn.Linear(2, 1)
    log: list[Any] = []
    handle, registered = _registrars(layer)[kind](lambda *given: log.append(len(given)))

    @torch.compile
    def step(x: Any) -> Any:
        loss = layer(x).sum()
        loss.backward()
        return loss

    try:
        step(torch.ones(1, 2, requires_grad=True))
    finally:
        handle.remove()
    (hook,) = torch.compile.explain(step).data[0]["programs"][0]["hooks"]
    assert hook["registered"] == registered
    shown = registered.replace(__file__, HERE)
    assert shown in str(torch.compile.explain(step)) and shown in str(why.compiled(step))


def test_hooks_registered_in_the_step_have_their_lines() -> None:
    layer = nn.Linear(2, 1)
    lines: list[str] = []

    @torch.compile
    def step(x: Any) -> Any:
        hidden = layer(x)
        hidden.register_hook(lambda g: g * 2); lines.append(line())  # noqa: E702
        with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t): loss = hidden.exp().sum(); lines.append(line())  # noqa: E701, E702
        loss.backward()
        return loss

    step(torch.ones(1, 2))
    hooks = torch.compile.explain(step).data[0]["programs"][0]["hooks"]
    assert [hook["registered"] for hook in hooks] == [lines[1], lines[0]]


def test_one_function_registered_in_two_places() -> None:
    layer = nn.Linear(2, 1)

    def halve(g: Any) -> Any:
        return g / 2

    layer.weight.register_hook(halve); first = line()  # noqa: E702
    layer.bias.register_hook(halve)

    @torch.compile
    def step(x: Any) -> None:
        layer(x).sum().backward()

    step(torch.ones(1, 2))
    (hook,) = torch.compile.explain(step).data[0]["programs"][0]["hooks"]
    assert hook["registered"] == f"{first} and 1 more" and hook["times"] == 2


def test_ids_are_numbers_that_can_be_copied_and_pickled() -> None:
    layer = nn.Linear(2, 1)
    handle = layer.register_forward_hook(noisy); registered = line()  # noqa: E702
    assert str(handle.id.site) == registered
    (copied,) = copy.deepcopy(layer)._forward_hooks
    assert copied == handle.id and str(copied.site) == registered
    assert pickle.loads(pickle.dumps(handle.id)) == handle.id
    assert list(pickle.loads(pickle.dumps(layer))._forward_hooks) == [handle.id]


def test_explain_is_asked_about_what_was_compiled() -> None:
    model, step = torch.compile(torch.nn.Identity()), torch.compile(lambda x: x * 2)
    model(torch.ones(2))
    step(torch.ones(2))
    (facts,) = torch.compile.explain(model).data
    assert facts["name"] == "Identity" and "_hook_registry" not in facts["where"]
    names = [each["name"].rsplit(".", 1)[-1] for each in torch.compile.explain().data]
    assert names[-2:] == ["Identity", "<lambda>"]
    for ask in (torch.compile.explain, why.compiled):
        with pytest.raises(TypeError, match="not Identity, which was not compiled"):
            ask(torch.nn.Identity())
