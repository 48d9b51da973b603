"""Errors about graphs and hooks say what the engine knows, without anybody watching: lines, shapes, the hook's place."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch


def here() -> int:
    return sys._getframe(1).f_lineno


def message(go: Callable[[], Any], kind: type[Exception] = RuntimeError) -> str:
    with pytest.raises(kind) as caught:
        go()
    return str(caught.value)


def leaf() -> Any:
    return torch.ones(3, requires_grad=True)


def test_a_second_backward_names_the_line_of_the_first() -> None:
    loss = (leaf() ** 2).sum()
    loss.backward()
    line = here() - 1
    said = message(loss.backward)
    assert f"{__file__}:{line}" in said and "PowBackward0" in said and "retain_graph=True" in said


def test_a_second_grad_names_the_line_of_the_first() -> None:
    x = leaf()
    y = (x.exp() * 2).sum()
    torch.autograd.grad(y, x)
    line = here() - 1
    assert f"{__file__}:{line}" in message(lambda: torch.autograd.grad(y, x))


def test_an_overwritten_value_is_named_with_who_saved_it() -> None:
    y = leaf().exp()
    y.mul_(2)
    said = message(y.sum().backward)
    assert "[torch.FloatTensor [3]]" in said and "version 1; expected version 0" in said
    assert "(saved by ExpBackward0) has been modified by an inplace operation" in said


def test_in_anomaly_mode_the_line_that_overwrote_it_is_named() -> None:
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning):
        y = leaf().exp()
        y.mul_(2)
        line = here() - 1
        said = message(y.sum().backward)
    assert f"{__file__}:{line}" in said


def test_an_unused_input_is_named() -> None:
    x, other = leaf(), torch.ones(2, 5, requires_grad=True)
    said = message(lambda: torch.autograd.grad((x * 2).sum(), [x, other]))
    assert "at index 1" in said and "leaf of shape [2, 5]" in said


def test_a_root_without_graph_says_what_may_have_cut_it() -> None:
    said = message((leaf().detach() * 2).sum().backward)
    assert "detach()" in said and "no_grad()" in said


# --- hooks: the refused answer, and where the hook is


def wrong_type(grad: Any) -> Any:
    return 3.0


def wrong_shape(grad: Any) -> Any:
    return grad.sum()


def wrong_dtype(grad: Any) -> Any:
    return grad.double()


class Callable_:
    def __call__(self, grad: Any) -> Any:
        return 3.0

    def method(self, grad: Any) -> Any:
        return 3.0


def place_of(function: Any) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno}."


@pytest.mark.parametrize(
    ("hook", "kind", "function"),
    [
        (wrong_type, TypeError, wrong_type),
        (wrong_shape, RuntimeError, wrong_shape),
        (wrong_dtype, RuntimeError, wrong_dtype),
        (functools.partial(wrong_type), TypeError, wrong_type),
        (Callable_(), TypeError, Callable_.__call__),
        (Callable_().method, TypeError, Callable_.method),
    ],
)
def test_a_tensor_hook_that_is_refused_is_named_with_its_place(hook: Any, kind: Any, function: Any) -> None:
    x = leaf()
    x.register_hook(hook)
    assert message((x * 2).sum().backward, kind).endswith(place_of(function))


def test_a_post_accumulate_hook_that_returns_something() -> None:
    def hook(parameter: Any) -> Any:
        return parameter.grad

    x = leaf()
    x.register_post_accumulate_grad_hook(hook)
    said = message((x * 2).sum().backward)
    assert place_of(hook) in said and "write to param.grad" in said


def test_node_hooks() -> None:
    def pre(grads: Any) -> Any:
        return grads * 2

    def post(grad_inputs: Any, grad_outputs: Any) -> Any:
        return grad_inputs[0]

    y = leaf() * 2
    y.grad_fn.register_prehook(pre)
    assert place_of(pre) in message(y.sum().backward)
    y = leaf() * 2
    y.grad_fn.register_hook(post)
    assert place_of(post) in message(y.sum().backward, TypeError)


def test_hooks_of_modules() -> None:
    def too_many(module: Any, grad_input: Any, grad_output: Any) -> Any:
        return grad_input * 2

    def no_tuple(module: Any, grad_input: Any, grad_output: Any) -> Any:
        return grad_input[0] * 2

    def pre(module: Any, grad_output: Any) -> Any:
        return grad_output * 3

    for hook, registrar in (
        (too_many, "register_full_backward_hook"),
        (no_tuple, "register_full_backward_hook"),
        (pre, "register_full_backward_pre_hook"),
    ):
        layer = torch.nn.Linear(3, 2)
        getattr(layer, registrar)(hook)
        assert place_of(hook) in message(layer(torch.ones(1, 3, requires_grad=True)).sum().backward)
