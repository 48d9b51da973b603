"""Second derivatives of functions made of straight pieces: they are there, and zero."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree

PIECES = {
    "relu": lambda torch, x: torch.relu(x),
    "relu in place": lambda torch, x: (x * 1).relu_(),
    "relu6": lambda torch, x: torch.nn.functional.relu6(x),
    "leaky_relu": lambda torch, x: torch.nn.functional.leaky_relu(x),
    "leaky_relu in place": lambda torch, x: torch.nn.functional.leaky_relu(x * 1, inplace=True),
    "hardtanh": lambda torch, x: torch.nn.functional.hardtanh(x),
    "hardshrink": lambda torch, x: torch.nn.functional.hardshrink(x),
    "softshrink": lambda torch, x: torch.nn.functional.softshrink(x),
    "threshold": lambda torch, x: torch.nn.functional.threshold(x, 0.5, -2.0),
    "abs": lambda torch, x: x.abs(),
    "clamp": lambda torch, x: x.clamp(-1, 1),
    "maximum": lambda torch, x: torch.maximum(x, torch.ones(4)),
    "where": lambda torch, x: torch.where(x > 0, x, -x),
    "max": lambda torch, x: x.max(),
    "hinge": lambda torch, x: (1 - x).relu().mean(),
    "max_pool1d": lambda torch, x: torch.nn.functional.max_pool1d(x.view(1, 1, 4), 2),
    "max_pool2d": lambda torch, x: torch.nn.functional.max_pool2d(x.view(1, 2, 2), 2, return_indices=True)[0],
    "avg_pool2d": lambda torch, x: torch.nn.functional.avg_pool2d(x.view(1, 2, 2), 2),
    "adaptive_avg_pool2d": lambda torch, x: torch.nn.functional.adaptive_avg_pool2d(x.view(1, 2, 2), (2, 1)),
    "adaptive_max_pool2d": lambda torch, x: torch.nn.functional.adaptive_max_pool2d(x.view(1, 2, 2), 1),
    "reflected": lambda torch, x: torch.nn.functional.pad(x.view(1, 4), (1, 1), mode="reflect"),
    "replicated": lambda torch, x: torch.nn.functional.pad(x.view(1, 4), (1, 1), mode="replicate"),
    "nll_loss": lambda torch, x: torch.nn.functional.nll_loss(x.view(2, 2), torch.tensor([0, 1])),
    "rrelu": lambda torch, x: torch.nn.functional.rrelu(x),
}


@pytest.mark.parametrize("piece", PIECES)
def test_second_gradient(piece):
    def program(torch, log):
        x = torch.tensor([-2.0, -0.25, 0.75, 3.0], requires_grad=True)
        (first,) = torch.autograd.grad(PIECES[piece](torch, x).sum(), x, create_graph=True)
        log(first.detach(), first.requires_grad)
        if first.requires_grad:
            first.sum().backward()
            log(x.grad)

    agree(program)


def test_hessian_of_a_network():
    def program(torch):
        torch.manual_seed(0)
        layers = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        return torch.autograd.functional.hessian(lambda x: layers(x).sum(), torch.tensor([0.5, -1.0]))

    agree(program)
