"""LBFGS: the same iterations, evaluations and history as PyTorch."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tests.oracle.facts import to_tensor
from tests.oracle.harness import agree, agree_error

OPTIONS = [
    {"lr": 0.1},
    {"lr": 0.1, "max_iter": 4, "history_size": 3},
    {"lr": 0.05, "max_iter": 30, "max_eval": 7},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 3, "history_size": 2, "lr": 0.5},
    {"tolerance_grad": 1.0, "lr": 0.01},
    {"tolerance_change": 0.1, "lr": 0.1},
    {"max_iter": 1},
]


def rosenbrock(x, y):
    return (1 - x) ** 2 + 10 * (y - x**2) ** 2


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rosenbrock(options):
    def program(torch, log):
        x = torch.tensor([-1.2, 0.5], dtype=torch.float64, requires_grad=True)
        y = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x, y], **options)

        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(x, y).sum()
            loss.backward()
            log(loss, torch.is_grad_enabled())
            return loss

        for _ in range(3):
            log("step", optimizer.step(closure), x, y)
        state = optimizer.state_dict()["state"][0]
        return state, list(state), x, y

    agree(program, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_a_regression(line_search):
    def program(torch):
        random = np.random.RandomState(0)
        data = to_tensor(torch, random.randn(20, 4).astype("float32"))
        labels = to_tensor(torch, (random.rand(20, 1) > 0.5).astype("float32"))
        w, b = torch.zeros(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.LBFGS([w, b], lr=0.5, max_iter=5, line_search_fn=line_search)

        def closure():
            optimizer.zero_grad()
            score = (data @ w + b).sigmoid()
            loss = ((score - labels) ** 2).mean()
            loss.backward()
            return loss

        losses = [optimizer.step(closure) for _ in range(4)]
        return losses, w, b

    agree(program, rtol=1e-3, atol=1e-4)


def test_a_parameter_without_a_gradient_counts_as_zero():
    def program(torch):
        w, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        optimizer = torch.optim.LBFGS([w, unused], lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (w**2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return w, unused, optimizer.state_dict()["state"][0]["d"]

    agree(program, rtol=1e-4)


def test_complex_parameters():
    def program(torch):
        w = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], lr=0.2, max_iter=4, line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = ((w - 1).abs() ** 4).sum()
            loss.backward()
            return loss

        return optimizer.step(closure), w

    agree(program, rtol=1e-6)


def test_an_unknown_line_search():
    def program(torch):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], line_search_fn="golden")

        def closure():
            loss = (w**2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    agree_error(program)


def test_groups_are_refused():
    agree_error(lambda torch: torch.optim.LBFGS([{"params": [torch.ones(1)]}, {"params": [torch.ones(1)]}]))


def test_a_closure_is_needed():
    agree_error(lambda torch: torch.optim.LBFGS([torch.ones(1, requires_grad=True)]).step())


@pytest.mark.parametrize("start", [0.01, 1.0, 9.0])
def test_the_line_search_by_itself(start):
    def program(torch, log):
        d = torch.tensor([1.0, -0.5], dtype=torch.float64)

        def objective(x, t, d):
            log(float(t))
            place = (x + t * d).requires_grad_()
            loss = (place**4 - 3 * place).sum()
            return float(loss), torch.autograd.grad(loss, place)[0]

        x = torch.zeros(2, dtype=torch.float64)
        loss, grad = objective(x, 0.0, d)
        search = importlib.import_module(f"{torch.__name__}.optim.lbfgs")
        found = search._strong_wolfe(objective, x, start, d, loss, grad, grad.dot(d), c2=0.2, max_ls=12)
        slopes = torch.tensor([-1.0, 2.0], dtype=torch.float64)
        between = search._cubic_interpolate(0.0, 1.0, slopes[0], 2.0, 1.5, slopes[1])
        return found[0], found[1], float(found[2]), found[3], float(between)

    agree(program, rtol=1e-9)
