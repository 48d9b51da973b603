"""The checks of `gradcheck` against finite differences; `demands.py` has the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.engine.differentiate import grad
from undertow._src.engine.gradcheck.demands import (
    check_batched,
    check_batched_forward,
    check_product,
    check_undefined,
    random_like,
)
from undertow._src.engine.gradcheck.jacobians import (
    Array,
    Function,
    analytical_jacobian,
    as_tuple,
    difference,
    forward_jacobian,
    is_inexact,
    numerical_jacobian,
    of_values,
    pulled_back,
    pushed_forward,
    stepped_jacobian,
)
from undertow._src.random.generators import Generator
from undertow._src.tensor.core import wrap
from undertow.autograd.gradcheck import GradcheckError
from undertow.random import rand

if TYPE_CHECKING:
    from undertow._src.tensor.core import TensorCore
    from undertow._tensor import Tensor

FAILED_NONDET_MSG = """

NOTE: If the function relies on operations that are not deterministic, this is to be expected: allow for it with
`nondet_tol=<tolerance>`.
"""

FAST_FAIL_SLOW_OK_MSG = """
Fast gradcheck failed but element-wise differences are small. The check might have passed in slow mode: call it with
`fast_mode=False`.
"""

_DOUBLES = ("f8", "c16")


def check(
    func: Callable[..., Any], inputs: object, *, eps: float, atol: float, rtol: float, nondet_tol: float,
    check_undefined_grad: bool, check_batched_grad: bool, check_batched_forward_grad: bool, check_forward_ad: bool,
    check_backward_ad: bool, fast_mode: bool,
) -> None:  # fmt: skip
    """Run every check that `gradcheck` was asked for; raise GradcheckError on failure."""
    func, given = of_values(func, as_tuple(inputs))
    _check_inputs(given)
    function = Function(func, given)
    recorded = function.recorded_places()
    if not recorded:
        function.differentiable()  # refuses outputs that are not tensors
        _expect_constant(function, eps)
        return
    parts = ["imag", "real"] if any(function.outputs()[nr]._array.dtype.kind == "c" for nr in recorded) else [""]
    for tolerance in (("atol", atol), ("rtol", rtol)):
        if tolerance[1] < 0:
            raise RuntimeError(f"{tolerance[0]} must be greater than or equal to zero, but got {tolerance[1]}")
    if check_backward_ad:
        for part in parts:
            _check_backward(Function(func, given, part), eps, atol, rtol, nondet_tol, fast_mode)
    if check_forward_ad:
        _check_forward(function, eps, atol, rtol, fast_mode)
    if check_batched_forward_grad:
        check_batched_forward(function)
    if not check_backward_ad:
        return
    if check_batched_grad:
        for nr, output in enumerate(function.differentiable()):
            check_batched(function, output, nr)
    check_product(function)
    if check_undefined_grad:
        check_undefined(function)


def _check_inputs(given: tuple[Any, ...]) -> None:
    found = False
    for nr, value in enumerate(given):
        if not (is_inexact(value) and value.requires_grad):
            continue
        found = True
        if value._array.dtype.str[1:] not in _DOUBLES:
            warn(
                f"Input #{nr} requires gradient and is not a double precision floating point or complex. Differences of "
                "float32 are mostly rounding: use float64, or complex128, for all inputs."
            )
        if any(stride == 0 and size > 1 for stride, size in zip(value._array.strides, value._array.shape, strict=True)):
            raise RuntimeError(
                f"The {nr}th input has a dimension with stride 0. gradcheck needs inputs whose elements do not overlap, "
                "because it moves their elements one by one: pass a .contiguous() copy."
            )
        value.retain_grad()
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none does: set requires_grad=True."
        )


def _expect_constant(function: Function, eps: float) -> None:
    """Check that a function without recorded outputs does not depend on its inputs."""
    for place in function.places:
        if any(np.any(np.abs(jacobian) > 0) for jacobian in numerical_jacobian(function, place, eps)):
            raise GradcheckError("Numerical gradient for function expected to be zero")


# --- against finite differences


def _check_backward(function: Function, eps: float, atol: float, rtol: float, nondet_tol: float, fast: bool) -> None:
    outputs, inputs, recorded = function.differentiable(), function.inputs, function.recorded_places()
    about = f"While considering the {_full(function.part)} part of complex outputs only, " if function.part else ""
    if fast:
        across, along = _directions(inputs, outputs)
        found = [_vector_jacobian(output, inputs, across[nr], nondet_tol) for nr, output in enumerate(outputs)]
        for place, given in enumerate(inputs):
            steps = _directional(function, function.places[place], along[place], eps)
            for nr, output in enumerate(outputs):
                numerical = np.dot(steps[recorded[nr]], across[nr])
                analytical = _along(found[nr][place], along[place])
                slack = atol * across[nr].sum() * sum(part.sum() for part in along[place] if part is not None)
                if not np.allclose(analytical, numerical, rtol, slack):
                    slow = _slow_story(
                        numerical_jacobian(function, function.places[place], eps)[recorded[nr]],
                        analytical_jacobian(output, [given])[0], atol, rtol,
                    )  # fmt: skip
                    raise GradcheckError(about + _mismatch(nr, place, numerical.item(), analytical.item()) + slow)
        return
    numericals = [numerical_jacobian(function, place, eps) for place in function.places]
    analyticals = [_repeatable(output, inputs, nondet_tol) for output in outputs]
    for nr, output_jacobians in enumerate(analyticals):
        for place, analytical in enumerate(output_jacobians):
            numerical = numericals[place][recorded[nr]]
            if not np.allclose(analytical, numerical, rtol, atol, equal_nan=True):
                raise GradcheckError(about + _mismatch(nr, place, _printed(numerical), _printed(analytical)))


def _check_forward(function: Function, eps: float, atol: float, rtol: float, fast: bool) -> None:
    units: tuple[complex, ...] = (1j, 1) if any(given._array.dtype.kind == "c" for given in function.inputs) else (1,)
    recorded = function.recorded_places()
    for unit in units:
        about = ""
        if len(units) == 2:
            about = f"While considering the {'imaginary' if unit == 1j else 'real'} part of complex inputs only, "
        along = _directions(function.inputs, [])[1]
        for nr, place in enumerate(function.places):
            turn = unit if function.given[place]._array.dtype.kind == "c" else 1
            if fast:
                direction = along[nr][0].reshape(function.given[place]._array.shape) * turn
                numericals = difference(function, place, direction, eps)
                analyticals = pushed_forward(function, place, np.asarray(direction, function.given[place]._array.dtype))
            else:
                numericals = stepped_jacobian(function, place, eps, turn)
                analyticals = forward_jacobian(function, place, turn)
            slack = atol * along[nr][0].sum() if fast else atol
            for output, (numerical, analytical) in enumerate(zip(numericals, analyticals, strict=True)):
                if output not in recorded or np.allclose(analytical, numerical, rtol, slack, equal_nan=True):
                    continue
                words = about + _mismatch(output, nr, _printed(numerical), _printed(analytical), forward=True)
                if fast:
                    whole = stepped_jacobian(function, place, eps, turn), forward_jacobian(function, place, turn)
                    words += _slow_story(whole[0][output], whole[1][output], atol, rtol)
                raise GradcheckError(words)


def _full(part: str) -> str:
    return "imaginary" if part == "imag" else part


def _printed(array: Array) -> Tensor:
    return wrap(np.asarray(array))


def _mismatch(nr: int, place: int, numerical: Tensor, analytical: Tensor, forward: bool = False) -> str:
    computed = "computed with forward mode " if forward else ""
    return (
        f"Jacobian {computed}mismatch for output {nr} with respect to input {place},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _slow_story(numerical: Array, analytical: Array, atol: float, rtol: float) -> str:
    """Return the whole Jacobians as text, for a failure of the fast check."""
    worst = np.max(np.abs(numerical - analytical)) if numerical.size else 0.0
    words = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode: along random "
        "directions. Below, the numerical and analytical jacobians are computed in slow mode:\n\n"
        f"Numerical:\n {_printed(numerical)}\nAnalytical:\n{_printed(analytical)}\n\n"
        f"The max per-element difference (slow mode) is: {worst}.\n"
    )
    return words + FAST_FAIL_SLOW_OK_MSG if np.allclose(analytical, numerical, rtol, atol) else words


def _repeatable(output: Tensor, inputs: list[Any], nondet_tol: float) -> list[Array]:
    """Return the Jacobians of an output, checking that a second run gives the same."""
    first, second = analytical_jacobian(output, inputs), analytical_jacobian(output, inputs)
    _expect_same(first, second, nondet_tol)
    return first


def _expect_same(first: list[Array], second: list[Array], nondet_tol: float) -> None:
    for one, two in zip(first, second, strict=True):
        if one.size and not np.all(np.abs(one - two) <= nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output again gives "
                "other values, by more than "
                f"nondet_tol={nondet_tol}, although the first are right." + FAILED_NONDET_MSG
            )


# --- along random directions


def _directions(inputs: list[Any], outputs: list[Any]) -> tuple[list[Array], list[tuple[Array, Array | None]]]:
    """Return random unit vectors for the outputs and inputs; a complex input gets one for each of its parts."""
    generator = Generator()

    def unit(tensor: TensorCore) -> Array:
        vector = rand(tensor._array.size, generator=generator)._array.astype(tensor._array.real.dtype)
        return vector / np.linalg.norm(vector) if vector.size else vector

    along = [(unit(given), unit(given) if given._array.dtype.kind == "c" else None) for given in inputs]
    return [unit(output) for output in outputs], along


def _directional(function: Function, place: int, along: tuple[Array, Array | None], eps: float) -> list[Array]:
    shape = function.given[place]._array.shape
    changes = difference(function, place, along[0].reshape(shape), eps)
    if along[1] is not None:
        beside = difference(function, place, along[1].reshape(shape) * 1j, eps)
        changes = [a + 1j * b for a, b in zip(changes, beside, strict=True)]
    return changes


def _vector_jacobian(output: TensorCore, inputs: list[Any], across: Array, nondet_tol: float) -> list[Array]:
    seed = across.astype(output._array.dtype)
    first, second = pulled_back(output, inputs, seed), pulled_back(output, inputs, seed)
    _expect_same(first, second, nondet_tol)
    return first


def _along(row: Array, along: tuple[Array, Array | None]) -> Any:
    if along[1] is None:
        return np.dot(row, along[0])
    return np.dot(row.real, along[0]) + 1j * np.dot(row.imag, along[1])


# --- gradients of gradients


def first_derivative(
    func: Callable[..., Any], inputs: object, grad_outputs: object, spaced: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function's gradient as a function of its inputs and incoming gradients, and those arguments."""
    func, given = of_values(func, as_tuple(inputs))
    count = len(given)
    if grad_outputs is None:
        seeds = tuple([_seed_for(output, spaced) for output in as_tuple(func(*given)) if output.requires_grad])
    else:
        seeds = as_tuple(grad_outputs)

    def derivative(*args: TensorCore) -> tuple[Any, ...]:
        sources = tuple([value for value in args[:count] if is_inexact(value) and value.requires_grad])
        outputs = [output for output in as_tuple(func(*args[:count])) if output.requires_grad]
        found = grad(outputs, sources, args[count:], create_graph=True, allow_unused=True)
        return tuple([row for row in found if row is not None])

    return derivative, given + seeds


def _seed_for(output: Tensor, spaced: bool) -> Tensor:
    seed = random_like(output)
    if spaced:  # every second element of a buffer twice as long
        seed = wrap(np.repeat(seed._array[..., None], 2, -1)[..., 0])
    return seed._with_requires_grad(True)


# --- deprecated entry points


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: object, target: object = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Any, ...]:
    """Return Jacobians of `fn(inputs)` by finite differences, one per input in `target` (default: all inputs)."""
    _warn_of_private("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_numerical_jacobian no longer supports other values.")
    function = Function(lambda *given: fn(given if isinstance(inputs, tuple) else list(given)), as_tuple(inputs))
    wanted = [id(value) for value in as_tuple(inputs if target is None else target)]
    return tuple(
        [
            _printed(numerical_jacobian(function, place, eps)[0])
            for place in function.places
            if id(function.given[place]) in wanted
        ]
    )


def get_analytical_jacobian(
    inputs: object, output: TensorCore, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """Return Jacobians by backward passes, whether a second run gives the same, and whether sizes and dtypes match."""
    _warn_of_private("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_analytical_jacobian no longer supports other values.")
    sources = [value for value in as_tuple(inputs) if is_inexact(value) and value.requires_grad]
    first, second = analytical_jacobian(output, sources), analytical_jacobian(output, sources)
    same = all(np.all(np.abs(one - two) <= nondet_tol) for one, two in zip(first, second, strict=True))
    return tuple([_printed(jacobian) for jacobian in first]), same, True, True


def _warn_of_private(name: str) -> None:
    warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. Write your own with "
        "torch.autograd.grad, or use gradcheck.",
        FutureWarning,
    )
