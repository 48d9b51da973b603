"""`gradient`: slopes of samples by differences of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.engine.arguments import as_int, as_ints, check_tensor, invalid_combination, is_int, wrap_dims
from undertow._src.ops import statistics
from undertow._src.ops.join import cat
from undertow._src.ops.numbers import as_number, is_number
from undertow._src.ops.public import overloaded
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor


def _spacings(spacing: object, input: Tensor) -> list[Any] | Any:
    """Return a number for all dims, or a list with a number or sample points for each."""
    if spacing is None:
        return 1
    if is_number(spacing):
        return as_number(spacing)
    if isinstance(spacing, TensorCore) and not spacing._array.ndim:
        return spacing._array.item()
    if isinstance(spacing, (tuple, list)) and (
        all(isinstance(each, TensorCore) for each in spacing) or all(is_number(each) for each in spacing)
    ):
        return list(spacing)
    raise invalid_combination("gradient", (input,), {"spacing": spacing})


def _dims(dim: object, ndim: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(ndim))
    return wrap_dims((as_int(dim, "gradient", "dim"),) if is_int(dim) else as_ints(dim, "gradient", "dim"), ndim)


def _per_dim(spacing: object, dim: object, dims: Sequence[int], ndim: int) -> list[Any]:
    if not isinstance(spacing, list):
        return [spacing] * len(dims)
    if dim is None and len(spacing) != ndim:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{ndim}', since dim argument was not given, but got a list of length {len(spacing)}"
        )
    if len(spacing) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or one for each dim; "
            f"there are {len(spacing)} for {len(dims)} dims."
        )
    for each in spacing:
        if isinstance(each, TensorCore) and each._array.ndim != 1:
            raise RuntimeError(
                f"torch.gradient expected each element of spacing to have one dimension; one has {each._array.ndim}!"
            )
    return spacing


def _even(x: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """Slopes along a dim whose samples are a step apart."""
    n = x._array.shape[dim]
    at = lambda place: x.narrow(dim, place, 1)
    inner = (x.narrow(dim, 2, n - 2) - x.narrow(dim, 0, n - 2)) / (2 * step)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step, (at(n - 1) - at(n - 2)) / step
    else:
        first = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / step
        last = (at(n - 1) * 1.5 - at(n - 2) * 2 + at(n - 3) * 0.5) / step
    return cat([first, inner, last], dim)


def _uneven(x: Tensor, dim: int, points: Any, edge_order: int) -> Tensor:
    """Slopes along a dim whose samples were taken at points."""
    n, ndim = x._array.shape[dim], x._array.ndim
    steps = statistics.diff(points)
    shaped = lambda values: values.view([-1 if axis == dim else 1 for axis in range(ndim)])
    at = lambda place: x.narrow(dim, place, 1)
    before, after = shaped(steps.narrow(0, 0, n - 2)), shaped(steps.narrow(0, 1, n - 2))
    inner = (
        x.narrow(dim, 0, n - 2) * (-after / (before * (before + after)))
        + x.narrow(dim, 1, n - 2) * ((after - before) / (before * after))
        + x.narrow(dim, 2, n - 2) * (before / (after * (before + after)))
    )
    if edge_order == 1:
        first = (at(1) - at(0)) / steps[0]
        last = (at(n - 1) - at(n - 2)) / steps[n - 2]
    else:
        first = _edge(at(0), at(1), at(2), steps[0], steps[1])
        last = -_edge(at(n - 1), at(n - 2), at(n - 3), steps[n - 2], steps[n - 3])
    return cat([first, inner, last], dim)


def _edge(end: Any, second: Any, third: Any, near: Any, far: Any) -> Any:
    """Return the slope at an end from three samples, going inwards."""
    return (
        end * (-(2 * near + far) / (near * (near + far)))
        + second * ((near + far) / (near * far))
        + third * (-near / (far * (near + far)))
    )


@overloaded
def gradient(
    input: Tensor, *, spacing: Any = None, dim: _size | int | None = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Return the slope along each dim, exact for parabolas inside and of the given order at the edges."""
    check_tensor(input, "gradient")
    array = input._array
    given = _spacings(spacing, input)
    dims = _dims(dim, array.ndim)
    per_dim = _per_dim(given, dim, dims, array.ndim)
    if array.dtype == "uint8":
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for each in dims:
        if array.shape[each] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(
        [
            _uneven(input, each, step, edge_order)
            if isinstance(step, TensorCore)
            else _even(input, each, step, edge_order)
            for each, step in zip(dims, per_dim, strict=True)
        ]
    )
