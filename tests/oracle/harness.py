"""Run one program on PyTorch and on undertow, and want the same answer.

A program is a function whose first argument is the torch-like module. Whatever it returns, logs, prints, warns about or
raises is compared: values, dtypes, shapes, `requires_grad`, structure, exception class and opening words.

    from tests.oracle.harness import agree, agree_op, agree_error

    def test_hook_order():
        def program(torch, log):                  # `log` is optional; tensors are copied at the moment they are logged
            x = torch.ones(2, requires_grad=True)
            x.register_hook(lambda g: log("hook", g))
            (x * 3).sum().backward()
            return x.grad
        agree(program)

    def test_exp():                               # value, dtype, shape, gradient and second gradient of one function
        agree_op(lambda torch, x: torch.exp(x), np.random.RandomState(0).randn(3, 4))

    def test_bad_dim():                           # both must raise: same class, same opening words
        agree_error(lambda torch: torch.ones(2).sum(5))

`manual_seed(0)` is called before each run, so random programs may be compared too. Also here: `to_tensor` and `to_numpy`
to pass arrays in and out, and `outcome` to look at one library's answer alone.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch as real_torch

import undertow
from tests.oracle.facts import Text, differences, dtype_name, facts, neutral, opening, to_numpy, to_tensor

__all__ = [
    "Log", "Outcome", "agree", "agree_error", "agree_op", "dtype_name", "outcome", "to_numpy", "to_tensor", "without_cuda",
]  # fmt: skip

Program = Callable[..., Any]


def without_cuda(rows: list[Any]) -> list[Any]:
    """Rows of a table that only a build of PyTorch without CUDA answers as undertow does; of another build, none."""
    return rows if real_torch.version.cuda is None else []


@dataclass
class Outcome:
    """All that one run of a program did, as plain facts."""

    result: Any = None
    log: list[Any] = field(default_factory=list)
    printed: str = ""
    warned: list[Text] = field(default_factory=list)
    error: BaseException | None = None


class Log:
    """Called by a program to note what happened; copies tensors, so later writes do not change the record."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.entries: list[Any] = []

    def __call__(self, *items: Any) -> None:
        self.entries.append(facts(self.torch, items))


def outcome(torch: ModuleType, program: Program, words: int = 8) -> Outcome:
    """Run `program` on one library and note what it did."""
    log, printed, done = Log(torch), io.StringIO(), Outcome()
    arguments = [torch, log] if _wants_log(program) else [torch]
    # Without a GPU torch.manual_seed formats and keeps a traceback for each call; the generator's own does not.
    (torch.default_generator if torch is real_torch else torch).manual_seed(0)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed), _every_warning(torch):
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)  # by JAX, if a test has loaded it
        try:
            done.result = facts(torch, program(*arguments))
        except Exception as error:
            # The frames of a traceback keep the program's tensors alive; they are shown only where the run is unexpected.
            done.error = error
    done.log, done.printed = log.entries, neutral(printed.getvalue())
    done.warned = [Text(item.category.__name__, opening(str(item.message), words)) for item in caught]
    return done


def agree(
    program: Program,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    words: int = 8,
    graph: bool = False,
    requires_grad: bool = True,
    warns: bool = False,
    raises: bool | None = None,
    reference: Program | None = None,
) -> Outcome:
    """Assert that `program(torch)` or `program(torch, log)` does the same on both libraries; return undertow's outcome.

    rtol, atol     tolerances for every float compared (default: by dtype)
    words          how many opening words of an exception or a warning must be equal (at most its first sentence)
    graph          compare `is_leaf` and the name of `grad_fn` of every tensor returned or logged
    requires_grad  compare `requires_grad` of every tensor returned or logged
    warns          every warning of torch's must be given too; a warning that torch does not give is always a failure
    raises         True: torch must raise; False: torch must not raise; None: either, as long as both do the same
    reference      the program with more exact floats, asked only where a value differs: see `facts.differences`
    """
    expected = outcome(real_torch, program, words)
    if isinstance(expected.error, NameError) or (raises is not None and raises != (expected.error is not None)):
        raise AssertionError(f"the program itself is wrong: on torch it {_ending(expected, words)}") from expected.error
    actual = outcome(undertow, program, words)
    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol, "graph": graph, "requires_grad": requires_grad}
    lines = _differences(expected, actual, words, tolerance, Outcome())
    if lines and reference is not None:
        lines = _differences(expected, actual, words, tolerance, outcome(real_torch, reference, words))
    if expected.printed != actual.printed:
        lines.append(f"printed:\n  torch:\n{_indented(expected.printed)}\n  undertow:\n{_indented(actual.printed)}")
    lines += _warning_differences(expected.warned, actual.warned, warns)
    if lines:
        raise AssertionError("undertow and torch disagree\n  " + "\n  ".join(lines)) from actual.error
    return actual


def agree_error(program: Program, *, words: int = 8, **options: Any) -> Outcome:
    """`agree` for a program that must raise on torch: same class and opening words, same log up to there."""
    return agree(program, words=words, raises=True, **options)


def agree_op(
    function: Callable[..., Any],
    *inputs: Any,
    first: bool = True,
    second: bool = True,
    dtype: str | None = None,
    **options: Any,
) -> Outcome:
    """Assert that `function(torch, *tensors)` has the same value, gradient and second gradient on both libraries.

    NumPy arrays among `inputs` become tensors (floats and complex ones require grad); everything else is passed as it is.
    `dtype="bfloat16"` casts the float arrays. The output may be a tensor or any nest of lists, tuples and dicts.
    A second gradient that one library calls unused and the other calls zero is the same.
    Further options are `agree`'s.
    """

    def program(torch: ModuleType, log: Log) -> Any:
        arguments = [_argument(torch, value, first, dtype) for value in inputs]
        result = function(torch, *arguments)
        log("value", result)
        leaves = [value for value in arguments if isinstance(value, torch.Tensor) and value.requires_grad]
        outputs = [value for value in _tensors(torch, result) if value.requires_grad]
        if not (first and leaves and outputs):
            return
        directions = [_direction(torch, value, seed) for seed, value in enumerate(outputs)]
        gradients = torch.autograd.grad(outputs, leaves, directions, create_graph=second, allow_unused=True)
        log("first", [None if gradient is None else gradient.detach() for gradient in gradients])
        curved = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
        if not second:
            return
        seconds: list[Any] = [None] * len(leaves)
        if curved:
            directions = [_direction(torch, value, seed + 100) for seed, value in enumerate(curved)]
            seconds = list(torch.autograd.grad(curved, leaves, directions, allow_unused=True))
        log(
            "second",
            [
                torch.zeros_like(leaf).detach() if grad is None else grad.detach()
                for grad, leaf in zip(seconds, leaves, strict=True)
            ],
        )

    return agree(program, **options)


def _differences(
    expected: Outcome, actual: Outcome, words: int, tolerance: dict[str, Any], exact: Outcome
) -> list[str]:
    lines = list(_error_differences(expected, actual, words))
    lines += differences(expected.log, actual.log, "log", **tolerance, reference=exact.log)
    if not lines:
        lines += differences(expected.result, actual.result, "result", **tolerance, reference=exact.result)
    return lines


def _wants_log(program: Program) -> bool:
    positional = [
        p
        for p in inspect.signature(program).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(positional) >= 2


@contextlib.contextmanager
def _every_warning(torch: ModuleType) -> Iterator[None]:
    """Some warnings are given once per process; inside, they are given every time."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _argument(torch: ModuleType, value: Any, requires_grad: bool, dtype: str | None) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    inexact = value.dtype.kind in "fc" or value.dtype.name == "bfloat16"
    return to_tensor(torch, value, requires_grad and inexact, dtype if inexact else None)


def _tensors(torch: ModuleType, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(torch, item)
    elif isinstance(value, dict):
        yield from _tensors(torch, list(value.values()))


def _direction(torch: ModuleType, like: Any, seed: int) -> Any:
    """A fixed random tensor shaped as `like`: what is multiplied into its gradient."""
    random = np.random.RandomState(seed)
    values = random.uniform(0.5, 1.5, tuple(like.shape)) * random.choice([-1.0, 1.0], tuple(like.shape))
    if "complex" in dtype_name(like.dtype):
        values = values + 1j * random.uniform(-1, 1, tuple(like.shape))
    return to_tensor(torch, values, dtype=dtype_name(like.dtype))


def _builtin_class(error: BaseException) -> type:
    return next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")


def _error_differences(expected: Outcome, actual: Outcome, words: int) -> Iterator[str]:
    """undertow may raise a subclass of the built-in class that torch raises, but never another class."""
    one, other = expected.error, actual.error
    if one is None and other is None:
        return
    same = (
        one is not None
        and other is not None
        and _builtin_class(one) is _builtin_class(other)
        and (type(one).__module__ == "builtins" or type(one).__name__ == type(other).__name__)
        and opening(str(one), words) == opening(str(other), words)
    )
    if not same:
        yield f"torch {_ending(expected, words)}\n  undertow {_ending(actual, words)}"


def _ending(run: Outcome, words: int) -> str:
    if run.error is None:
        return "returns"
    return (
        f"raises {type(run.error).__name__}: {opening(str(run.error), words)!r}\n      in full: {str(run.error)[:400]}"
    )


def _warning_differences(expected: list[Text], actual: list[Text], strict: bool) -> Iterator[str]:
    for warning in actual:
        if warning not in expected:
            yield f"undertow warns where torch does not: {warning.kind}: {warning.text}"
    for warning in expected if strict else ():
        if warning not in actual:
            yield f"torch warns where undertow does not: {warning.kind}: {warning.text}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
