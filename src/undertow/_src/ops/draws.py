"""Gamma and Dirichlet draws, which PyTorch keeps for its distributions, and their derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor
from undertow._src.ops.public import public
from undertow._src.random.generators import Generator, stream_of
from undertow._src.rules import draws as rules
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _check(input: Tensor, name: str) -> None:
    check_tensor(input, name)
    kind = DTYPE_OF[input._array.dtype]
    if kind.name not in ("float32", "float64"):
        raise NotImplementedError(f"\"{name.lstrip('_')}\" not implemented for '{kind.scalar_name}'")


@public
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return a gamma draw of rate 1 for the shape at each place of a tensor."""
    _check(input, "_standard_gamma")
    return apply(rules.standard_gamma, input, values=stream_of(generator, where=input.device).gamma(input._array))


@public
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """Return the derivative of a gamma draw by its shape."""
    return apply(rules.standard_gamma_grad, input, output)


@public
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return a Dirichlet draw for the concentrations along the last dim."""
    _check(input, "_sample_dirichlet")
    return apply(rules.sample_dirichlet, input, values=stream_of(generator, where=input.device).dirichlet(input._array))


@public
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of a component x of a Dirichlet draw by its concentration, divided by 1 - x."""
    return apply(rules.dirichlet_grad, x, alpha, total)
