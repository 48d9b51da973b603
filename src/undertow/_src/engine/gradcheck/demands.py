"""Requirements on a gradient besides being right, which `gradcheck` also checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.engine.differentiate import grad
from undertow._src.engine.gradcheck.jacobians import Function, pushed_forward
from undertow._src.engine.node import Node, edge_of
from undertow._src.random.generators import Generator
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow.autograd.gradcheck import GradcheckError
from undertow.random import randn

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow._src.tensor.core import TensorCore
    from undertow._tensor import Tensor

FAILED_BATCHED_GRAD_MSG = """
gradcheck or gradgradcheck failed while testing batched gradient computation.
The gradients of several vectors at once differ from those taken one by one. Call gradcheck with
`check_batched_grad=False` if the backward pass is not meant to run on batches.
"""

FAILED_BATCHED_GRAD_MSG_FWD_AD = """
gradcheck failed while testing batched gradient computation with forward-mode AD.
Call it with `check_batched_forward_grad=False` if the function is not meant to run on batches.
"""

_NOTES = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'


def check_product(function: Function) -> None:
    """Check that a backward pass is linear in the incoming gradient: zeros in, zeros out."""
    outputs = function.differentiable()
    seeds = [wrap(np.zeros_like(output._array)) for output in outputs]
    for given, row in zip(function.inputs, grad(outputs, function.inputs, seeds, allow_unused=True), strict=True):
        if row is None:
            continue
        if np.any(row._array != 0):
            raise GradcheckError("backward not multiplied by grad_output")
        if row._array.dtype != given._array.dtype:
            raise GradcheckError("grad is incorrect type")
        if row._array.shape != given._array.shape:
            raise GradcheckError("grad is incorrect size")


class UndefinedGrad(Node):
    """Passes on an undefined gradient, whatever it receives."""

    __slots__ = ()

    def __init__(self, output: Any) -> None:
        edge = edge_of(output)
        self._edges = (edge,)
        self._order = edge[0]._order + 1
        self._extras = self._tensor_hooks = None

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return (None,)


def check_undefined(function: Function) -> None:
    """Check that undefined incoming gradients give undefined or zero ones."""
    count = len(function.differentiable())
    for undefined in [range(count)] if count == 1 else [range(count), *[(nr,) for nr in range(count)]]:
        outputs = []
        for nr, output in enumerate(function.differentiable()):
            if nr in undefined:
                hidden = output.detach()
                hidden._edge, hidden._requires_grad = (UndefinedGrad(output), 0), True
                output = hidden
            outputs.append(output)
        seeds = [wrap(np.zeros_like(output._array)) for output in outputs]
        try:
            rows = grad(outputs, function.inputs, seeds, allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {_NOTES}") from error
        if any(row is not None and np.any(row._array != 0) for row in rows):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all those of outputs are. " + _NOTES
            )


def _warn_of_undefined() -> None:
    warn(
        "Backwards compatibility: New undefined gradient support checking feature may break "
        "existing callers. Pass check_undefined_grad=False to skip this check."
    )


def check_batched(function: Function, output: Any, nr: int) -> None:
    """Check that a batch of gradients gives the same as one at a time."""
    seeds = [random_like(output) for _ in range(2)]
    expected = [grad(output, function.inputs, seed, allow_unused=True, retain_graph=True) for seed in seeds]
    together = wrap(np.stack([seed._array for seed in seeds]))
    try:
        found = grad(output, function.inputs, together, is_grads_batched=True, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{FAILED_BATCHED_GRAD_MSG}") from error
    for place, rows in enumerate(zip(*expected, strict=True)):
        if rows[0] is not None and not np.allclose(found[place]._array, np.stack([row._array for row in rows])):
            raise GradcheckError(_unequal(nr, place, found[place], rows) + FAILED_BATCHED_GRAD_MSG)


def check_batched_forward(function: Function) -> None:
    """Check that forward mode along a batch of two directions keeps them independent."""
    for place in function.places:
        array = function.given[place]._array
        directions = [random_like(function.given[place])._array for _ in range(2)]
        alone = [pushed_forward(function, place, direction) for direction in directions]
        both = pushed_forward(function, place, (directions[0] + directions[1]).astype(array.dtype))
        for nr, (one, two, sum_of_both) in enumerate(zip(*alone, both, strict=True)):
            if not np.allclose(one + two, sum_of_both):
                raise GradcheckError(_unequal(nr, place, sum_of_both, (one, two)) + FAILED_BATCHED_GRAD_MSG_FWD_AD)


def _unequal(nr: int, place: int, found: object, expected: object) -> str:
    return f"For output {nr} and input {place}:\n\nGot:\n{found}\n\nExpected:\n{expected}\n"


def random_like(tensor: TensorCore) -> Tensor:
    """Return random numbers in a tensor's shape and dtype, from a separate generator."""
    generator = Generator()
    return randn(tensor._array.shape, dtype=DTYPE_OF[tensor._array.dtype], generator=generator)
