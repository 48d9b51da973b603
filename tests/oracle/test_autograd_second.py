"""Second derivatives: of functions made of straight pieces, where they are zero; and of gradients that are one op."""

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


ONE_OP = {
    "tanh": lambda torch, x: torch.tanh(x),
    "sigmoid": lambda torch, x: torch.sigmoid(x),
    "complex tanh": lambda torch, x: torch.complex(x, x / 2).tanh(),
    "complex sigmoid": lambda torch, x: torch.complex(x, x / 2).sigmoid(),
    "half tanh": lambda torch, x: x.half().tanh(),
    "relu": lambda torch, x: torch.relu(x),
    "threshold": lambda torch, x: torch.nn.functional.threshold(x, 0.5, -2.0),
    "threshold in place": lambda torch, x: torch.nn.functional.threshold_(x * 1, 0.5, -2.0),
    "leaky_relu": lambda torch, x: torch.nn.functional.leaky_relu(x, 0.2),
    "leaky_relu in place": lambda torch, x: torch.nn.functional.leaky_relu_(x * 1, 0.2),
    "softplus": lambda torch, x: torch.nn.functional.softplus(x, 2.0, 1.5),
    "product of matrices": lambda torch, x: x.view(2, 2) @ x.view(2, 2),
    "linear": lambda torch, x: torch.nn.functional.linear(x.view(2, 2), x.view(2, 2), x[:2]),
}


def tree(node, depth=3):
    """Return the names of a graph's nodes and of the values that the first ones save."""
    if node is None:
        return None
    saved = [name for name in dir(node) if name.startswith("_saved_")] if depth == 3 else ()
    return node.name(), saved, [tree(before, depth - 1) for before, _ in node.next_functions] if depth else ()


@pytest.mark.parametrize("name", ONE_OP)
def test_gradient_that_is_one_op(name):
    """It is one node, which leads to the gradient before it and to what it saves."""
    is_shown = name not in ("linear", "softplus", "half tanh", "threshold in place")  # other steps differ there

    def program(torch, log):
        x = torch.tensor([-2.0, -0.25, 0.75, 3.0], dtype=torch.float64, requires_grad=True)
        result = ONE_OP[name](torch, x)
        seed = torch.ones_like(result).requires_grad_()
        (first,) = torch.autograd.grad(result, x, seed, create_graph=True)
        log(*[tree(first.grad_fn)] if is_shown else [first.grad_fn.name()])
        second = torch.autograd.grad((first**2).sum(), [x, seed], create_graph=True)
        log(first, *second, [each.grad_fn and each.grad_fn.name() for each in second] if is_shown else None)
        log(torch.autograd.grad(sum((each.abs() ** 2).sum() for each in second), [x, seed], allow_unused=True))

    agree(program, requires_grad=False, rtol=1e-3 if "half" in name else None)


@pytest.mark.parametrize("name", ["softplus", "tanh", "relu"])
def test_gradients_of_rows_at_once(name):
    def program(torch, log):
        x = torch.tensor([-2.0, -0.25, 0.75, 3.0], dtype=torch.float64, requires_grad=True)
        result = {**ONE_OP, "softplus": lambda torch, x: torch.nn.functional.softplus(x, 2.0, 1.4)}[name](torch, x)
        (first,) = torch.autograd.grad(
            result, x, torch.eye(4, dtype=torch.float64), create_graph=True, is_grads_batched=True
        )
        (second,) = torch.autograd.grad((first**2).sum(), x, create_graph=True)
        log(first, second, torch.autograd.grad(second.sum(), x))

    agree(program, requires_grad=False)
