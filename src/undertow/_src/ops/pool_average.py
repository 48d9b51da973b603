"""Average, adaptive and p-norm pooling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, is_int, must_be, no_kernel, wrap_real_dim
from undertow._src.ops.activation import relu
from undertow._src.ops.broadcasting import squeeze, unsqueeze
from undertow._src.ops.elementwise import abs, sign
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.pool import Sizes, check_windows, is_left_out, max_pool1d, max_pool2d, max_pool3d, window_option
from undertow._src.ops.public import finish, public
from undertow._src.ops.reduce import mean
from undertow._src.rules import pool as rules
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor


def _avg_pool(
    rank: int, input: Tensor, kernel_size: int | _size, stride: int | _size | None, padding: int | _size,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    name = f"avg_pool{rank}d"
    check_tensor(input, name)
    kernel = window_option(kernel_size, rank, name, "kernel_size")
    strides = kernel if is_left_out(stride) else window_option(stride, rank, name, "stride")
    paddings = window_option(padding, rank, name, "padding")
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if rank == 2:
        wrap_real_dim(-3, input._array.ndim)
    check_windows(name, input, kernel, strides, paddings, (1,) * rank, ceil_mode)
    if input._array.dtype.kind in "biu" and input._array.dtype != "i8":
        raise no_kernel(name if rank == 2 else f"{name}_out_frame", input)
    found = finish(
        rules.avg_pool[rank], (input,), out, kernel_size=kernel, stride=strides, padding=paddings,
        ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad), divisor_override=divisor_override,
    )  # fmt: skip
    return ordered_like(found, input) if rank == 2 and out is None else found


def check_rank(name: str, input: Tensor, low: int, high: int) -> None:
    if not low <= input._array.ndim <= high:
        raise RuntimeError(
            f"Expected {low} to {high} dimensions, but got {input._array.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name})"
        )


@public
def avg_pool1d(
    input: Tensor, kernel_size: int | _size, stride: int | _size = (), padding: int | _size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Return the mean of every window of a sequence."""
    name = "avg_pool1d"
    check_tensor(input, name)
    (kernel,) = window_option(kernel_size, 1, name, "kernel_size")
    (step,) = (kernel,) if is_left_out(stride) else window_option(stride, 1, name, "stride")
    (pad,) = window_option(padding, 1, name, "padding")
    check_rank(name, input, 2, 3)
    found = _avg_pool(2, unsqueeze(input, -2), (1, kernel), (1, step), (0, pad), ceil_mode, count_include_pad, None)
    return squeeze(found, -2)


@public
def avg_pool2d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of every window of an image."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)


@public
def avg_pool3d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of every window of a volume."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)


# --- a given number of windows


def _target_size(name: str, input: Tensor, output_size: int | _size, rank: int) -> Sizes:
    """Return the target size; None in it keeps the input's."""
    check_tensor(input, name)
    if is_int(output_size):
        return (as_int(output_size, name, "output_size"),) * rank
    if output_size is None and rank > 1:
        raise TypeError("object of type 'NoneType' has no len()")
    if not isinstance(output_size, (tuple, list)):
        raise must_be("tuple of ints", output_size, name, "output_size", 2)
    if rank == 1 and len(output_size) != 1:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(output_size)})")
    if len(output_size) > 1 and len(output_size) >= input._array.ndim:
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    sizes = input._array.shape[input._array.ndim - len(output_size) :]
    return tuple(
        [n if size is None else as_int(size, name, "output_size") for size, n in zip(output_size, sizes, strict=True)]
    )


def _check_adaptive(name: str, input: Tensor, rank: int, comma: str, first: int) -> None:
    """Refuse an input of a different rank, or with a size of zero from the dim `first` on."""
    shape = input._array.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got{comma} {list(shape)}")
    _check_not_empty(name, input, first)
    if not DTYPE_OF[input._array.dtype].is_inexact:
        raise no_kernel(name, input)


def _check_not_empty(name: str, input: Tensor, first: int) -> None:
    shape = input._array.shape
    for dim in range(first, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"{list(shape)} is empty at dimension {dim}"
            )


def _adaptive_avg_pool(rank: int, input: Tensor, output_size: int | _size) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    size = _target_size(name, input, output_size, rank)
    if len(size) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank}")
    if min(size) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, size))}}}"
        )
    if all(n == 1 for n in size) and rank > 1:
        return mean(input, tuple(range(-rank, 0)), True)
    _check_adaptive(name, input, rank, "", input._array.ndim - rank if rank < 3 else 1)
    found = apply(rules.adaptive_avg_pool[rank], input, output_size=size)
    return ordered_like(found, input) if rank == 2 else found


@public
def adaptive_avg_pool1d(input: Tensor, output_size: int | _size) -> Tensor:
    """Return the means of `output_size` windows that cover a sequence."""
    name = "adaptive_avg_pool1d"
    (size,) = _one_size(name, input, output_size)
    return squeeze(_adaptive_avg_pool(2, unsqueeze(input, -2), (1, size)), -2)


def _one_size(name: str, input: Tensor, output_size: int | _size) -> Sizes:
    check_tensor(input, name)
    check_rank(name, input, 2, 3)
    return _target_size(name, input, output_size, 1)


@public
def adaptive_avg_pool2d(input: Tensor, output_size: int | _size) -> Tensor:
    """Return the means of windows that cover an image, as many as `output_size` says."""
    check_tensor(input, "adaptive_avg_pool2d")
    return _adaptive_avg_pool(2, input, output_size)


@public
def adaptive_avg_pool3d(input: Tensor, output_size: int | _size) -> Tensor:
    """Return the means of windows that cover a volume, as many as `output_size` says."""
    check_tensor(input, "adaptive_avg_pool3d")
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(rank: int, input: Tensor, output_size: int | _size) -> Any:
    name = f"adaptive_max_pool{rank}d"
    check_tensor(input, name)
    size = _target_size(name, input, output_size, rank)
    _check_adaptive(name, input, rank, ":", 1)
    if len(size) != rank:
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {rank}")
    if min(size) < 0:
        whole = [*input._array.shape[:-rank], *size]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {whole}")
    found = apply(rules.adaptive_max_pool[rank], input, output_size=size)
    return ordered_like(found, input) if rank == 2 else found


@public
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: int | _size, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d, and where each largest element stands."""
    (size,) = _one_size("adaptive_max_pool1d", input, output_size)
    _check_not_empty("adaptive_max_pool1d", input, 1)
    found = _adaptive_max_pool(2, unsqueeze(input, -2), (1, size))
    return tuple([squeeze(part, -2) for part in found])


@public
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: int | _size, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d, and where each largest element stands in its plane."""
    return _adaptive_max_pool(2, input, output_size)


@public
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: int | _size, return_indices: bool = False) -> Any:
    """adaptive_max_pool3d, and where each largest element stands in its volume."""
    return _adaptive_max_pool(3, input, output_size)


@public
def adaptive_max_pool1d(input: Tensor, output_size: int | _size, return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest elements of `output_size` windows that cover a sequence."""
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


@public
def adaptive_max_pool2d(input: Tensor, output_size: int | _size, return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that cover an image."""
    found = _adaptive_max_pool(2, input, output_size)
    return found if return_indices else found[0]


@public
def adaptive_max_pool3d(input: Tensor, output_size: int | _size, return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that cover a volume."""
    found = _adaptive_max_pool(3, input, output_size)
    return found if return_indices else found[0]


# --- p-norms


def _lp_pool(
    rank: int, input: Tensor, norm_type: float, kernel_size: int | _size, stride: Any, ceil_mode: bool
) -> Tensor:
    """(Σ window xᵖ)^(1/p), by way of the mean."""
    check_tensor(input, f"lp_pool{rank}d")
    kernel = window_option(kernel_size, rank, f"avg_pool{rank}d", "kernel_size")
    pooled = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    strides = {} if stride is None else {"stride": stride}
    if norm_type == math.inf:
        return (max_pool1d, max_pool2d, max_pool3d)[rank - 1](abs(input), kernel_size, ceil_mode=ceil_mode, **strides)
    out = pooled(input**norm_type, kernel_size, ceil_mode=ceil_mode, **strides)
    count = 1
    for k in kernel:
        count *= k
    return (sign(out) * relu(abs(out)) * count) ** (1.0 / norm_type)


@public
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int | _size, stride: int | _size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the p-norm of every window of a sequence."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@public
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: int | _size, stride: int | _size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the p-norm of every window of an image."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@public
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: int | _size, stride: int | _size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the p-norm of every window of a volume."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
