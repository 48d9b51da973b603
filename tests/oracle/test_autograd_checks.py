"""`gradcheck`, `gradgradcheck` and anomaly mode."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle.facts import opening
from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_checks(program):
    agree(program)


def double(torch, *values):
    return torch.tensor(values or (0.5, 1.5), dtype=torch.float64, requires_grad=True)


def wrong_function(torch, factor=2.0):
    """x → 2x whose gradient is off by `factor`."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * factor

    return Wrong


# --- gradcheck -----------------------------------------------------------------------------------------------------------


@cases
def gradcheck_of_right_functions(torch, log):
    x, w = double(torch), double(torch, 2.0, 3.0)
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    log(check(torch.sin, x), check(torch.exp, (x,)), check(lambda a, b: a * b, (x, w)))
    log(check(lambda a, b: (a * b, a + b), (x, w)), check(lambda m, v: m @ v, (matrix, x)))
    log(check(lambda a, n: a**n, (x, 3)), check(lambda a, b: a * b, (x, w.detach())))
    log(check(torch.sin, x, fast_mode=True), check(torch.sum, matrix), check(lambda a: a.view(2, 1), x))
    log(x.grad, x.requires_grad)


@cases
def gradcheck_of_conjugated_inputs(torch, log):
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128).conj().requires_grad_()
    check = torch.autograd.gradcheck
    log(x.is_conj(), check(torch.real, x), check(torch.conj, x), check(lambda a: a * a.conj(), x, fast_mode=True))


@cases
def gradcheck_of_a_wrong_function(torch, log):
    x = double(torch)
    Wrong = wrong_function(torch)
    attempt(log, "raises", lambda: torch.autograd.gradcheck(Wrong.apply, x))
    log(torch.autograd.gradcheck(Wrong.apply, x, raise_exception=False))
    attempt(log, "fast", lambda: torch.autograd.gradcheck(Wrong.apply, x, fast_mode=True))
    log(torch.autograd.gradcheck(wrong_function(torch, 1.0).apply, x))
    log(torch.autograd.gradcheck(wrong_function(torch, 1.0001).apply, x, atol=1e-2, rtol=1e-2))


@cases
def gradcheck_error_class(torch, log):
    try:
        torch.autograd.gradcheck(wrong_function(torch).apply, double(torch))
    except RuntimeError as error:
        log(type(error).__name__)


@cases
def gradcheck_wants_inputs_that_require_grad(torch, log):
    attempt(log, "none requires grad", lambda: torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64)))
    attempt(
        log,
        "quietly",
        lambda: torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64), raise_exception=False),
    )
    attempt(log, "no inputs", lambda: torch.autograd.gradcheck(lambda: torch.ones(2), ()))


@cases
def gradcheck_in_single_precision_is_possible_with_wide_tolerances(torch, log):
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    log(torch.autograd.gradcheck(torch.sin, x, eps=1e-2, atol=1e-2, rtol=1e-2))


@cases
def gradcheck_of_functions_that_are_not_deterministic(torch, log):
    x = double(torch)
    calls = []

    class Unsteady(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * (2 + 1e-4 * len(calls))

    attempt(log, "raises", lambda: torch.autograd.gradcheck(Unsteady.apply, x, atol=1, rtol=1))
    attempt(log, "allowed", lambda: torch.autograd.gradcheck(Unsteady.apply, x, atol=1, rtol=1, nondet_tol=1.0))


@cases
def gradgradcheck_of_right_functions(torch, log):
    x, w = double(torch), double(torch, 2.0, 3.0)
    check = torch.autograd.gradgradcheck
    log(check(torch.sin, x), check(lambda a, b: a * b * a, (x, w)), check(lambda a: a**3, (x,)))
    log(check(torch.exp, x, grad_outputs=double(torch, 1.0, 2.0)))


@cases
def gradgradcheck_of_a_wrong_function(torch, log):
    class Detached(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0].detach() ** 2

    x = double(torch)
    log(torch.autograd.gradcheck(Detached.apply, x))
    attempt(log, "raises", lambda: torch.autograd.gradgradcheck(Detached.apply, x))
    log(torch.autograd.gradgradcheck(Detached.apply, x, raise_exception=False))


@cases
def gradcheck_of_complex_functions(torch, log):
    z = torch.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=torch.complex128, requires_grad=True)
    log(torch.autograd.gradcheck(lambda a: (a * a.conj()).real, z), torch.autograd.gradcheck(torch.exp, z))


# --- anomaly mode --------------------------------------------------------------------------------------------------------


@cases
def anomaly_mode_names_the_function_that_gave_nan(torch, log):
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        attempt(log, "sqrt", lambda: x.sqrt().sum().backward())
        attempt(log, "log", lambda: (x.log() * 2).sum().backward())
        attempt(log, "0 / 0", lambda: ((x - x) / (x - x)).sum().backward())
    x.sqrt().sum().backward()
    return x.grad


@cases
def anomaly_mode_without_nan_checks(torch, log):
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        x.sqrt().sum().backward()
    return x.grad


@cases
def anomaly_mode_ignores_infinities(torch, log):
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        x.sqrt().sum().backward()
    return x.grad


@cases
def anomaly_mode_as_a_switch(torch, log):
    log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    torch.autograd.set_detect_anomaly(True)
    log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    torch.autograd.set_detect_anomaly(False)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        with torch.autograd.set_detect_anomaly(False):
            log(torch.is_anomaly_enabled())
        log(torch.is_anomaly_enabled())
    log(torch.is_anomaly_enabled())


@cases
def anomaly_mode_raises_the_same_exceptions(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        y = x * 1
        z = y.sin()
        y.add_(1)
        attempt(log, "overwritten", lambda: z.sum().backward())
        y = x * x
        y.sum().backward()
        attempt(log, "second backward", lambda: y.sum().backward())
        y = x * 2
        y.register_hook(lambda g: {}["missing"])
        attempt(log, "hook", lambda: y.sum().backward())


@cases
def anomaly_mode_and_a_custom_function(torch, log):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        attempt(log, "nan", lambda: Broken.apply(x).sum().backward())


@cases
def anomaly_mode_keeps_where_each_node_was_made(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    outside = x * 2
    with torch.autograd.detect_anomaly(check_nan=False):
        inside = x * 2
    log(sorted(outside.grad_fn.metadata), len(inside.grad_fn.metadata) > 0)


@cases
def anomaly_mode_leaves_right_programs_alone(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = (x.exp() * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
    return x.grad


# --- options and what they find


def custom(torch, forward, backward, jvp=None, materialize=True):
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.set_materialize_grads(materialize)
            return forward(*args)

    Custom.backward = staticmethod(lambda ctx, *grads: backward(*grads))
    if jvp is not None:
        Custom.jvp = staticmethod(lambda ctx, *tangents: jvp(*tangents))
    return Custom.apply


def point(torch, dtype="float64"):
    return torch.tensor([1.5, -0.5], dtype=getattr(torch, dtype), requires_grad=True)


def failure(torch, *args, **options):
    """The class and the opening words of what gradcheck raises, or what it returns."""
    try:
        return torch.autograd.gradcheck(*args, **options)
    except Exception as error:
        return type(error).__name__, opening(str(error), words=8)


CHECKS = {
    "wrong": lambda torch: failure(torch, custom(torch, lambda x: x * 2, lambda g: g * 3), point(torch)),
    "wrong, fast": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 3), point(torch), fast_mode=True
    ),
    "wrong, quietly": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 3), point(torch), raise_exception=False
    ),
    "right, fast": lambda torch: failure(torch, lambda x: x**2, point(torch), fast_mode=True),
    "complex wrong": lambda torch: failure(
        torch, custom(torch, lambda z: z * 2j, lambda g: g * 2j), point(torch, "complex128")
    ),
    "complex wrong, fast": lambda torch: failure(
        torch, custom(torch, lambda z: z * 2, lambda g: g * 3), point(torch, "complex128"), fast_mode=True
    ),
    "complex right, fast": lambda torch: failure(
        torch, lambda z: z * z.conj(), point(torch, "complex128"), fast_mode=True
    ),
    "input counted among those that are differentiated": lambda torch: failure(
        torch, custom(torch, lambda k, x: x * 2, lambda g: (None, g * 3)), (3, point(torch))
    ),
    "undefined gradients mishandled": lambda torch: failure(
        torch,
        custom(torch, lambda x: x * 2, lambda g: torch.ones(2) if g is None else g * 2, materialize=False),
        point(torch),
        check_undefined_grad=True,
    ),
    "undefined gradients not expected": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 2, materialize=False), point(torch)
    ),
    "not looked at": lambda torch: failure(
        torch,
        custom(torch, lambda x: x * 2, lambda g: g * 2, materialize=False),
        point(torch),
        check_undefined_grad=False,
    ),
    "not the same twice": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 2 + torch.rand_like(g) * 1e-7), point(torch)
    ),
    "forward wrong": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 2, lambda t: t * 3), point(torch), check_forward_ad=True
    ),
    "forward wrong, fast": lambda torch: failure(
        torch,
        custom(torch, lambda x: x * 2, lambda g: g * 2, lambda t: t * 3),
        point(torch),
        check_forward_ad=True,
        fast_mode=True,
    ),
    "forward wrong, complex": lambda torch: failure(
        torch,
        custom(torch, lambda x: x * 2, lambda g: g * 2, lambda t: t * 3),
        point(torch, "complex128"),
        check_forward_ad=True,
    ),
    "forward missing": lambda torch: failure(
        torch, custom(torch, lambda x: x * 2, lambda g: g * 2), point(torch), check_forward_ad=True
    ),
    "forward only": lambda torch: failure(
        torch, lambda x: x.sin(), point(torch), check_forward_ad=True, check_backward_ad=False
    ),
    "batches": lambda torch: failure(
        torch,
        lambda x: x.exp(),
        point(torch),
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    ),
    "neither": lambda torch: failure(torch, lambda x: x, point(torch), check_backward_ad=False),
    "batches of nothing": lambda torch: failure(
        torch, lambda x: x, point(torch), check_backward_ad=False, check_forward_ad=True, check_batched_grad=True
    ),
    "forward batches of nothing": lambda torch: failure(
        torch, lambda x: x, point(torch), check_batched_forward_grad=True
    ),
    "stretched input": lambda torch: failure(torch, lambda x: x * 2, torch.ones(1).double().expand(3).requires_grad_()),
    "negative tolerance": lambda torch: failure(torch, lambda x: x * 2, point(torch), atol=-1),
    "nothing to differentiate": lambda torch: failure(torch, lambda x: x * 2, torch.ones(2)),
    "depends in secret": lambda torch: failure(torch, lambda x: x.detach() * 2, point(torch)),
    "gradients inside": lambda torch: failure(
        torch, lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0], point(torch)
    ),
    "forward over reverse": lambda torch: torch.autograd.gradgradcheck(
        lambda x: x**3, point(torch), check_fwd_over_rev=True
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_what_gradcheck_finds(name):
    agree(CHECKS[name])


def test_the_old_entries():
    def program(torch):
        module = importlib.import_module(torch.__name__ + ".autograd.gradcheck")
        x = point(torch)
        numerical = module.get_numerical_jacobian(lambda inputs: inputs[0] ** 2, (x,))
        return numerical, module.get_analytical_jacobian((x,), x**2)

    agree(program)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_forward_mode_of_complex_inputs(fast_mode: bool) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
        return torch.autograd.gradcheck(
            lambda x: x.sin() * x.conj(), (x,), check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode
        )

    agree(program)
