"""differentiable=True: gradients flow through optimizer steps, to the starting point and to the learning rate."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree, agree_error
from tests.oracle.optim_cases import ONE_OF_EACH, case_name

DIFFERENTIABLE = [(name, options) for name, options in ONE_OF_EACH if name != "Adafactor"]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=case_name)
def test_gradient_through_steps(case):
    def program(torch):
        name, options = case
        start = torch.tensor([[0.5, -1.0], [2.0, 0.3]], dtype=torch.float64, requires_grad=True)
        w = start.clone()
        optimizer = getattr(torch.optim, name)([w], differentiable=True, **options)
        for _ in range(3):
            loss = (w**4).sum()
            w.grad = torch.autograd.grad(loss, w, create_graph=True)[0]
            optimizer.step()
        (gradient,) = torch.autograd.grad((w**2).sum(), start)
        return w, gradient

    # PyTorch keeps step counts and their bias corrections in float32 here.
    agree(program, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_gradient_of_the_learning_rate(name):
    def program(torch):
        rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        w = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True).clone()
        w.grad = torch.tensor([0.5, 0.25], dtype=torch.float64)
        optimizer = getattr(torch.optim, name)([w], lr=rate, differentiable=True)
        optimizer.step()
        return w, torch.autograd.grad(w.sum(), rate)

    agree(program, rtol=1e-4, atol=1e-6)


def test_a_leaf_cannot_be_updated_differentiably():
    def program(torch):
        w = torch.ones(2, requires_grad=True)
        w.grad = torch.ones(2)
        torch.optim.SGD([w], lr=0.1, differentiable=True).step()

    agree_error(program)


def test_computed_parameters_are_refused_otherwise():
    agree_error(lambda torch: torch.optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1))


def test_retained_parameters_are_taken():
    def program(torch):
        w = torch.ones(2, requires_grad=True) * 2
        w.retain_grad()
        (w**2).sum().backward()
        torch.optim.SGD([w], lr=0.1).step()
        return w.detach()

    agree(program)


def test_the_state_is_part_of_the_graph():
    def program(torch, log):
        start = torch.tensor([1.0, 2.0], requires_grad=True)
        w = start.clone()
        optimizer = torch.optim.Adam([w], lr=0.1, differentiable=True)
        w.grad = w**2
        optimizer.step()
        state = optimizer.state[w]
        log(w.requires_grad, state["exp_avg"].requires_grad, state["step"].requires_grad)
        log(torch.autograd.grad(state["exp_avg"].sum(), start))

    agree(program)


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"dampening": 0.1, "maximize": True}])
def test_a_running_sum_begins_without_history(options):
    def program(torch):
        start = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
        w = start.clone()
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, differentiable=True, **options)
        for number in range(3):
            w.grad = (start * number + 1).sin()
            optimizer.step()
        return w, torch.autograd.grad(w.sum(), start)

    agree(program)


def test_counts_of_recorded_steps_are_rounded():
    def program(torch):
        start = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
        w = start.clone()
        optimizer = torch.optim.Adam([w], lr=0.1, differentiable=True)
        for number in range(3):
            w.grad = (start * number + 1).sin()
            optimizer.step()
        return w, torch.autograd.grad(w.sum(), start)

    agree(program, rtol=1e-7, atol=1e-7)
