"""The operators that a mode sees, forward and backward, are those that PyTorch's sees, in the same order."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.harness import agree

LINES = (Path(__file__).parent / "dispatch_programs.txt").read_text().splitlines()[1:]
UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log1p log2
log10 logit neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc relu nan_to_num positive deg2rad
rad2deg isnan isinf logical_not t tril triu flatten ravel sum mean amax amin std var max min median norm all any argmax
argmin clone detach contiguous nonzero
""".split()
BINARY = """
add sub mul div pow atan2 maximum minimum fmod remainder hypot eq ne lt le gt ge logical_and fmax fmin logaddexp
""".split()
WITH_NUMBER = "add sub mul div pow fmod remainder eq ne lt le gt ge copysign".split()
IN_PLACE = """
add_(x) mul_(x) div_(x) sub_(x) mul_(2.) add_(2.) exp_() zero_() relu_() sigmoid_()
fill_(2.) t_() unsqueeze_(0) transpose_(0,1)
""".split()
ACTIVATIONS = """
relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid leaky_relu logsigmoid
softshrink hardshrink glu normalize
""".split()
LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits binary_cross_entropy soft_margin_loss"
)
MODULES = (
    """
nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]; nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)(x)
nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU(), nn.Linear(3, 2))(x)
nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))(x)
""".strip()
    .replace("\n", ";")
    .split(";")
)


def operators(torch: Any, text: str, parameters: list[str], shapes: list[tuple[int, ...]]) -> list[str]:
    """The names of the operators that a program and its backward pass run."""
    seen: list[str] = []

    class Log(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}
    inputs = [(torch.arange(1.0, 1 + math.prod(shape)).reshape(shape) / 100).requires_grad_() for shape in shapes]
    function = eval(f"lambda {','.join(parameters)}: {text}", names)
    with Log():
        result = function(*inputs)
    results = result if isinstance(result, (tuple, list)) else [result]
    live = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
    if live:
        along = [torch.ones_like(each) for each in live]
        seen.append("backward")
        with Log():
            torch.autograd.grad(live, inputs, along, allow_unused=True)
    return seen


def check(programs: list[tuple[str, list[str], list[tuple[int, ...]]]]) -> None:
    for text, parameters, shapes in programs:
        agree(lambda torch, t=text, p=parameters, s=shapes: operators(torch, t, p, s), raises=False)


@pytest.mark.parametrize("part", range(8))
def test_programs(part: int) -> None:
    programs = []
    for line in LINES[part::8]:
        parameters, _, rest = line.partition(": ")
        text, _, shapes = rest.rpartition(" @ ")
        programs.append((text, parameters.split(","), [eval(shape) for shape in shapes.split()]))
    check(programs)


def test_elementwise() -> None:
    check([(f"x.{name}()", ["x"], [(2, 3)]) for name in UNARY])


def test_two_operands() -> None:
    check([(f"x.{name}(y)", ["x", "y"], [(2, 3), (2, 3)]) for name in BINARY])
    check([(f"x.{name}(y)", ["x", "y"], [(2, 3), (3,)]) for name in BINARY])
    check([(f"x.{name}(2.0)", ["x"], [(2, 3)]) for name in WITH_NUMBER])


def test_in_place() -> None:
    check([(f"x.clone().{text}", ["x"], [(2, 3)]) for text in IN_PLACE])


def test_activations() -> None:
    check([(f"F.{name}(x)", ["x"], [(2, 4)]) for name in ACTIVATIONS])


def test_losses() -> None:
    for how in ("mean", "sum", "none"):
        check([(f"F.{name}(x, x.detach(), reduction='{how}')", ["x"], [(2, 3)]) for name in LOSSES.split()])


@pytest.mark.parametrize("text", [text.strip() for text in MODULES])
def test_modules(text: str) -> None:
    check([(text, ["x"], [(2, 3, 4)])])


def test_python_kernels_of_operators() -> None:
    def program(torch: Any, log: Any) -> None:
        operator, key = torch.ops.aten.sinh.default, torch._C.DispatchKey.CompositeImplicitAutograd
        log(operator.decompose(torch.ones(2)) is NotImplemented, operator.is_view, torch.ops.aten.view.default.is_view)
        try:
            kernel = operator.py_impl(key)(lambda x: (x.exp() - (-x).exp()) / 2)
            log(operator.decompose(torch.ones(2)), operator(torch.ones(2)), kernel is operator.py_kernels[key])
            log(operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU), operator.__qualname__)
            operator.py_impl(key)(kernel)
        finally:
            del operator.py_kernels[key]

    agree(program)
