"""gradcheck: compares gradients with finite differences, entry by entry of the Jacobian."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._core import TensorCore, wrap
from undertow.autograd.differentiate import grad
from undertow.dtypes import DTYPE_OF
from undertow.modes import enable_grad, no_grad


class GradcheckError(RuntimeError):
    """A gradient disagrees with finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether func's gradients at `inputs` agree with finite differences; raises GradcheckError if they don't."""
    try:
        _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_batched_grad, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Callable[..., Any],
    inputs: Any,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_undefined_grad: bool,
    check_batched_grad: bool,
    check_grad_dtypes: bool,
) -> None:
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    places = [nr for nr, part in enumerate(given) if isinstance(part, TensorCore) and part.requires_grad]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for nr in places:
        given[nr].retain_grad()
        if given[nr].dtype not in _DOUBLES:
            _warn_precision(nr)
    outputs = _outputs(func, given)
    for nr, output in enumerate(outputs):
        if not output.requires_grad:
            numerical = [_numerical(func, given, place, nr, eps) for place in places]
            if any(np.any(np.abs(part) > 0) for part in numerical):
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero"
                )
            continue
        for place in places:
            _compare(func, given, place, nr, output, eps, atol, rtol, nondet_tol)
    if check_undefined_grad:
        _check_undefined(func, given, places)
    if check_batched_grad:
        _check_batched(func, given, places)


_DOUBLES = frozenset({DTYPE_OF[np.dtype("f8")], DTYPE_OF[np.dtype("c16")]})


def _warn_precision(nr: int) -> None:
    warnings.warn(
        f"Input #{nr} requires gradient and is not a double precision floating point or complex. This check will likely "
        "fail if all the inputs are not of double precision floating point or complex. ",
        stacklevel=5,
    )


def _outputs(func: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    with enable_grad():
        result = func(*given)
    several = result if isinstance(result, (tuple, list)) else (result,)
    return [part for part in several if isinstance(part, TensorCore) and DTYPE_OF[part._array.dtype].category >= 2]


def _numerical(func: Callable[..., Any], given: tuple[Any, ...], place: int, nr: int, eps: float) -> Any:
    """Finite differences: a column per input entry; for complex inputs the derivative along the conjugate direction."""
    source = given[place]
    array = source._array
    columns = []
    for index in np.ndindex(array.shape):
        step = _difference(func, given, array, index, nr, eps)
        if DTYPE_OF[array.dtype].is_complex:
            step = (step, _difference(func, given, array, index, nr, eps * 1j))
        columns.append(step)
    return columns


def _difference(func: Callable[..., Any], given: tuple[Any, ...], array: Any, index: Any, nr: int, eps: Any) -> Any:
    before = array[index].copy()
    try:
        with no_grad():
            array[index] = before + eps
            above = _values(func, given)[nr]
            array[index] = before - eps
            below = _values(func, given)[nr]
    finally:
        array[index] = before
    return (above - below) / (2 * abs(eps))


def _values(func: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    return [part._array.reshape(-1).copy() for part in _outputs_plain(func, given)]


def _outputs_plain(func: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    result = func(*given)
    several = result if isinstance(result, (tuple, list)) else (result,)
    return [part for part in several if isinstance(part, TensorCore) and DTYPE_OF[part._array.dtype].category >= 2]


def _analytical(output: Any, source: Any, seed_value: Any) -> list[Any]:
    """Backward passes: a row per output entry."""
    rows = []
    flat = output._array.reshape(-1)
    for index in range(flat.shape[0]):
        seed = np.zeros_like(flat)
        seed[index] = seed_value
        (row,) = grad(output, source, wrap(seed.reshape(output._array.shape)), retain_graph=True, allow_unused=True)
        rows.append(np.zeros(source._array.size, source._array.dtype) if row is None else row._array.reshape(-1))
    return rows


def _compare(
    func: Callable[..., Any], given: tuple[Any, ...], place: int, nr: int, output: Any, eps: float, atol: float,
    rtol: float, nondet_tol: float,
) -> None:  # fmt: skip
    source = given[place]
    steps = _numerical(func, given, place, nr, eps)
    rows = np.array(_analytical(output, source, 1.0)).reshape(output._array.size, source._array.size)
    again = np.array(_analytical(output, source, 1.0)).reshape(rows.shape)
    if rows.size and not np.all(np.abs(rows - again) <= nondet_tol):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            f"different values, although analytical gradient matches numerical gradient. The tolerance for "
            f"nondeterminism was {nondet_tol}."
        )
    if not steps:
        return
    if DTYPE_OF[source._array.dtype].is_complex:
        along_real = np.array([step[0] for step in steps]).T
        along_imag = np.array([step[1] for step in steps]).T
        # For a real seed, backward returns conj of (d/dx + i d/dy) applied to Re(output).
        numerical = np.real(along_real) + 1j * np.real(along_imag)
        _agree(rows, numerical, place, nr, atol, rtol)
        if DTYPE_OF[output._array.dtype].is_complex:
            rows_imag = np.array(_analytical(output, source, 1j)).reshape(rows.shape)
            _agree(rows_imag, np.imag(along_real) + 1j * np.imag(along_imag), place, nr, atol, rtol)
        return
    numerical = np.array(steps).T
    if DTYPE_OF[output._array.dtype].is_complex:
        rows_imag = np.array(_analytical(output, source, 1j)).reshape(rows.shape)
        _agree(rows_imag, np.imag(numerical), place, nr, atol, rtol)
        numerical = np.real(numerical)
    _agree(rows, numerical, place, nr, atol, rtol)


def _agree(analytical: Any, numerical: Any, place: int, nr: int, atol: float, rtol: float) -> None:
    if not np.allclose(analytical, numerical, rtol=rtol, atol=atol, equal_nan=True):
        worst = np.unravel_index(np.argmax(np.abs(analytical - numerical)), analytical.shape)
        raise GradcheckError(
            f"Jacobian mismatch for output {nr} with respect to input {place},\n"
            f"numerical:{wrap(np.asarray(numerical.T))}\nanalytical:{wrap(np.asarray(analytical.T))}\n"
            f"The largest difference is at output entry {worst[0]}, input entry {worst[1]}: "
            f"{numerical[worst]} against {analytical[worst]}."
        )


def _check_undefined(func: Callable[..., Any], given: tuple[Any, ...], places: list[int]) -> None:
    """Zero gradients that go in must come out as zero or undefined."""
    sources = [given[place] for place in places]
    outputs = [output for output in _outputs(func, given) if output.requires_grad]
    if not outputs:
        return
    seeds = [wrap(np.zeros_like(output._array)) for output in outputs]
    for row in grad(outputs, sources, seeds, allow_unused=True):
        if row is not None and np.any(row._array != 0):
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at 'Notes about undefined "
                "output gradients' in 'tools/autograd/derivatives.yaml'"
            )


def _check_batched(func: Callable[..., Any], given: tuple[Any, ...], places: list[int]) -> None:
    sources = [given[place] for place in places]
    for output in _outputs(func, given):
        if not output.requires_grad:
            continue
        seeds = np.random.default_rng(0).standard_normal((2, *output._array.shape)).astype(output._array.dtype)
        together = grad(output, sources, wrap(seeds), is_grads_batched=True, allow_unused=True, retain_graph=True)
        for nr, seed in enumerate(seeds):
            alone = grad(output, sources, wrap(np.asarray(seed)), allow_unused=True, retain_graph=True)
            for one, many in zip(alone, together, strict=True):
                if one is not None and not np.allclose(one._array, many._array[nr], atol=1e-8):
                    raise GradcheckError("Batched gradient disagrees with the gradients taken one at a time")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of func's gradients agree with finite differences."""
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    count = len(given)
    if grad_outputs is None:
        seeds = tuple([_random_seed(output) for output in _outputs(func, given)])
    else:
        seeds = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)

    def first(*args: Any) -> tuple[Any, ...]:
        sources, starts = args[:count], args[count:]
        outputs = _outputs(func, sources)
        wanted = tuple([part for part in sources if isinstance(part, TensorCore) and part.requires_grad])
        found = grad(outputs, wanted, starts, create_graph=True, allow_unused=True)
        return tuple([part for part in found if part is not None])

    return gradcheck(
        first, given + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _random_seed(output: Any) -> Any:
    numbers = np.random.default_rng(0)
    values = numbers.standard_normal(output._array.shape)
    if DTYPE_OF[output._array.dtype].is_complex:
        values = values + 1j * numbers.standard_normal(output._array.shape)
    return wrap(np.asarray(values, output._array.dtype)).requires_grad_()
