"""`autograd.functional`: vjp, jvp, jacobian, hessian, hvp, vhp."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_functional(program):
    agree(program, graph=False)


def plain(torch, *values):
    return torch.tensor(values or (0.5, 1.5))


def cubes(x):
    return (x**3).sum()


def products(x, y):
    return x * y, (x + y).sin()


def scalar_of_two(x, y):
    return (x * y * y).sum()


TOOLS = ("vjp", "jvp", "jacobian", "hessian", "hvp", "vhp")


def call(torch, name, function, inputs, v=None, **options):
    tool = getattr(torch.autograd.functional, name)
    return (
        tool(function, inputs, **options) if name in ("jacobian", "hessian") else tool(function, inputs, v, **options)
    )


@pytest.mark.parametrize("name", TOOLS)
def test_one_input(name):
    def program(torch, log):
        x, v = plain(torch), plain(torch, 1.0, 10.0)
        if name in ("hessian", "hvp", "vhp"):
            log(call(torch, name, cubes, x, v))
        else:
            log(call(torch, name, lambda a: a.exp() * a[0], x, v))
        log(x.requires_grad, x.grad)

    agree(program)


@pytest.mark.parametrize("name", TOOLS)
def test_several_inputs_and_outputs(name):
    def program(torch, log):
        x, y, v = plain(torch), plain(torch, 2.0, 3.0), plain(torch, 1.0, 10.0)
        function = scalar_of_two if name in ("hessian", "hvp", "vhp") else products
        log(call(torch, name, function, (x, y), (v, v * 2)))

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", TOOLS)
def test_inputs_that_require_grad(name, create_graph):
    def program(torch, log):
        x, v = plain(torch).requires_grad_(), plain(torch, 1.0, 10.0)
        function = cubes if name in ("hessian", "hvp", "vhp") else torch.sin
        result = call(torch, name, function, x, v, create_graph=create_graph)
        log(result)
        last = result[1] if isinstance(result, tuple) else result
        if create_graph:
            last.sum().backward()
        log(x.grad)

    agree(program)


@pytest.mark.parametrize("name", TOOLS)
def test_strict_and_independent_outputs(name):
    def program(torch, log):
        x, y, v = plain(torch), plain(torch, 2.0, 3.0), plain(torch, 1.0, 10.0)
        pairs = (v, v)
        if name in ("hessian", "hvp", "vhp"):
            functions = {"linear": lambda a, b: a.sum(), "unused": lambda a, b: (a * a).sum()}
        else:
            functions = {"unused": lambda a, b: a * 2, "constant": lambda a, b: torch.ones(2)}
        for label, function in functions.items():
            vector = v if name == "vjp" else pairs
            attempt(log, label, lambda: call(torch, name, function, (x, y), vector))
            attempt(log, (label, "strict"), lambda: call(torch, name, function, (x, y), vector, strict=True))

    agree(program)


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_vectorized(name):
    def program(torch, log):
        x = plain(torch)
        function = cubes if name == "hessian" else (lambda a: a.exp() * a[0])
        log(call(torch, name, function, x, vectorize=True))
        attempt(log, "strict", lambda: call(torch, name, function, x, vectorize=True, strict=True))

    agree(program)


@cases
def jacobian_shapes(torch, log):
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    jacobian = torch.autograd.functional.jacobian
    log(jacobian(lambda a: a @ a, matrix).shape, jacobian(lambda a: a.sum(), matrix).shape)
    log(jacobian(lambda a: a.sum(0), matrix))
    log(jacobian(lambda a, b: a * b, (plain(torch), torch.tensor(3.0))))
    log(jacobian(lambda a: (a, a * 2), plain(torch)))


@cases
def hessian_of_a_quadratic_form(torch, log):
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    hessian = torch.autograd.functional.hessian
    log(hessian(lambda x: x @ matrix @ x, plain(torch)))
    log(hessian(lambda x: x.prod(), torch.tensor([1.0, 2.0, 3.0])))
    log(hessian(scalar_of_two, (plain(torch), plain(torch, 2.0, 3.0))))


@cases
def vectors_may_be_left_out_for_scalars(torch, log):
    functional = torch.autograd.functional
    log(functional.vjp(cubes, plain(torch)))
    log(functional.jvp(lambda a: a * 2, torch.tensor(3.0)))
    log(functional.hvp(lambda a: a**3, torch.tensor(3.0)))
    attempt(log, "vjp", lambda: functional.vjp(lambda a: a * 2, plain(torch)))
    attempt(log, "jvp", lambda: functional.jvp(cubes, plain(torch)))
    attempt(log, "hvp", lambda: functional.hvp(cubes, plain(torch)))
    attempt(log, "vhp", lambda: functional.vhp(cubes, plain(torch)))


@cases
def vectors_of_the_wrong_shape(torch, log):
    functional = torch.autograd.functional
    attempt(log, "vjp", lambda: functional.vjp(lambda a: a * 2, plain(torch), torch.ones(3)))
    attempt(log, "jvp", lambda: functional.jvp(lambda a: a * 2, plain(torch), torch.ones(3)))
    attempt(log, "hvp", lambda: functional.hvp(cubes, plain(torch), torch.ones(3)))
    attempt(log, "count", lambda: functional.jvp(lambda a: a * 2, plain(torch), (torch.ones(2), torch.ones(2))))


@cases
def functions_of_the_wrong_kind(torch, log):
    functional = torch.autograd.functional
    attempt(log, "input is no tensor", lambda: functional.jacobian(lambda a: a, 3.0))
    attempt(log, "output is no tensor", lambda: functional.jacobian(lambda a: 3.0, plain(torch)))
    attempt(log, "hessian of a vector", lambda: functional.hessian(lambda a: a * 2, plain(torch)))
    attempt(log, "hessian of two", lambda: functional.hessian(lambda a: (a.sum(), a.sum()), plain(torch)))
    attempt(log, "hvp of a vector", lambda: functional.hvp(lambda a: a * 2, plain(torch), plain(torch)))


@cases
def forward_mode_strategy(torch, log):
    attempt(
        log,
        "needs vectorize",
        lambda: torch.autograd.functional.jacobian(torch.sin, plain(torch), strategy="forward-mode"),
        words=4,
    )


@cases
def hooks_inside_a_differentiated_function(torch, log):
    def function(a):
        b = a * 2
        b.register_hook(lambda g: log("hook", g))
        return b.sin()

    log(torch.autograd.functional.jacobian(function, plain(torch)))
    log(torch.autograd.functional.vjp(function, plain(torch), plain(torch)))


def test_one_or_several():
    def program(torch):
        as_tuple = torch.autograd.functional._as_tuple
        return as_tuple(torch.ones(1), "inputs", "f"), as_tuple((torch.ones(1),), "inputs", "f")

    agree(program)


def test_the_containers_of_jacobians():
    """Lists in forward mode, tuples otherwise."""

    def program(torch, log):
        one, two = torch.ones(2), (torch.ones(2), torch.ones(2))
        functional = torch.autograd.functional
        for function, given in (
            (lambda a: a * 2, one), (lambda a: (a * 2, a), one), (lambda a, b: a * b, two), (lambda a, b: (a * b, a), two),
        ):  # fmt: skip
            for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
                found = functional.jacobian(function, given, **options)
                log(type(found).__name__.lower(), type(found[0]).__name__)
        for strategy in ("reverse-mode", "forward-mode"):
            found = functional.hessian(
                lambda a, b: (a * b).sum(), two, vectorize=True, outer_jacobian_strategy=strategy
            )
            log(type(found).__name__, type(found[0]).__name__)

    agree(program)
