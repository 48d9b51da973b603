"""Rarities of autograd: graphs of derivatives that are the same everywhere, what nodes refuse, orders of checks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tests.oracle.harness import agree, agree_error

POWERS = ["x**2", "x.pow(2)", "x.square()", "x**3", "x**1", "x.float_power(2)", "(x * 2) ** 2", "x**2.0"]


@pytest.mark.parametrize("text", POWERS)
def test_derivatives_of_powers_stay_in_the_graph(text: str) -> None:
    """Down to the one that is zero: a program that asks for one more is not refused earlier than PyTorch does."""

    def program(torch: Any, log: Any) -> None:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = eval(text, {"x": x})
        while y.requires_grad:
            log(y.detach(), y.requires_grad)
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        log("end", y)

    agree(program)


def test_second_derivative_of_huber_loss_at_delta() -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([-1.0, 0.5, 1.0, 2.0], requires_grad=True)
        loss = torch.nn.functional.huber_loss(x, torch.zeros(4), reduction="sum")
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        return first.detach(), torch.autograd.grad(first.sum(), x)

    agree(program)


ORDERS = """
vhp(lambda x: 3, a); hvp(lambda x: 3, a); vhp(lambda x: (x.sum(), x.sum()), a); hessian(lambda x: 3, a)
hessian(lambda x: torch.ones(()), a, strict=True); hessian(lambda x: (x.sum(),), a)
hessian(lambda x: x.sum(), a, strict=True)
hvp(lambda x: (x**2).sum(), a, a, create_graph=True); vhp(lambda x: (x**2).sum(), a, a, create_graph=True)
jacobian(lambda x: x**2, a, vectorize=True, strategy="forward-mode").stride(); hessian(lambda x: (x**2).sum(), a)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [text.strip() for text in ORDERS if text.strip()])
def test_functional(text: str) -> None:
    def program(torch: Any) -> Any:
        a = torch.tensor([1.0, 2.0])
        return eval("torch.autograd.functional." + text, {"torch": torch, "a": a})

    agree(program)


REFUSED = """
pickle.dumps(n); copy.deepcopy(n); copy.copy(n); torch._C._autograd.SavedTensor(); torch.autograd.graph.increment_version(3)
torch.autograd.gradcheck(lambda x: 3, (d,)); torch.autograd.gradcheck(lambda x: None, (d,))
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [text.strip() for text in REFUSED if text.strip()])
def test_refused(text: str) -> None:
    def program(torch: Any) -> Any:
        n = (torch.ones(2, requires_grad=True) * 2).grad_fn
        d = torch.ones(2, dtype=torch.float64, requires_grad=True)
        return eval(text, {"torch": torch, "n": n, "d": d, "pickle": pickle, "copy": copy})

    agree_error(program, words=5)


def test_what_nodes_are_called() -> None:
    def program(torch: Any) -> Any:
        n = (torch.ones(2, requires_grad=True).exp() * 2).grad_fn
        return repr(type(n)), type(n).__module__, repr(n._raw_saved_other or n._raw_saved_self).partition(" at ")[0]

    agree(program)


def test_other_data_of_what_was_computed() -> None:
    def program(torch: Any, log: Any) -> None:
        for shape in ((5,), (3, 3), (1,)):
            x = torch.ones(3, requires_grad=True)
            y = x.exp()
            y.register_hook(lambda gradient: log("hook", gradient))
            y.retain_grad()
            y.data = torch.ones(shape)
            try:
                y.sum().backward()
            except RuntimeError as error:
                log("an invalid gradient" in str(error))
            log(x.grad, y.grad, y.shape)

    agree(program)


def test_bare_nodes_and_the_switch_of_grad_mode() -> None:
    def program(torch: Any, log: Any) -> None:
        node = torch.autograd.graph.Node
        log(sorted(node.__abstractmethods__), isinstance((torch.ones(1, requires_grad=True) * 2).grad_fn, node))
        torch._C._set_grad_enabled(False)
        log(torch.is_grad_enabled())
        torch._C._set_grad_enabled(True)
        for call in (node, lambda: torch._C._set_grad_enabled(1), lambda: torch.autograd.set_multithreading_enabled(1)):
            try:
                call()
            except TypeError as error:
                log(str(error)[:35])

    agree(program)
