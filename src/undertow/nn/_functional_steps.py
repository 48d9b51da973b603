"""Small private functions of `torch.nn.functional` that packages import: pooling without indices, size checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.ops import activation, embedding, pool, pool_average, pool_fractional
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def _without_indices(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def plain(*args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        return function(*args, return_indices=False, **kwargs)

    plain.__name__ = plain.__qualname__ = f"_{name}"
    plain.__doc__ = f"`{name}` that never returns indices."
    return plain


_max_pool1d = _without_indices("max_pool1d", pool.max_pool1d)
_max_pool2d = _without_indices("max_pool2d", pool.max_pool2d)
_max_pool3d = _without_indices("max_pool3d", pool.max_pool3d)
_adaptive_max_pool1d = _without_indices("adaptive_max_pool1d", pool_average.adaptive_max_pool1d)
_adaptive_max_pool2d = _without_indices("adaptive_max_pool2d", pool_average.adaptive_max_pool2d)
_adaptive_max_pool3d = _without_indices("adaptive_max_pool3d", pool_average.adaptive_max_pool3d)
_fractional_max_pool2d = _without_indices("fractional_max_pool2d", pool_fractional.fractional_max_pool2d)
_fractional_max_pool3d = _without_indices("fractional_max_pool3d", pool_fractional.fractional_max_pool3d)


def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Call `threshold`."""
    return (activation.threshold_ if inplace else activation.threshold)(input, threshold, value)


def _no_grad_embedding_renorm_(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows of a weight that are looked up, without recording."""
    with no_grad():
        embedding.embedding_renorm_(weight, input, max_norm, norm_type)


def _check_key_padding_mask(key_padding_mask: Tensor, src_len: int, bsz: int) -> None:
    """Check that a key padding mask has a row for each sequence and a column for each key."""
    for dim, wanted in ((0, bsz), (1, src_len)):
        got = key_padding_mask.shape[dim]
        if got != wanted:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {got}")


def _unpool_output_size(
    input: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    output_size: Sequence[int] | None,
) -> Sequence[int]:  # fmt: skip
    """Return the output size of max unpooling: the default, or the given one if it is close enough to that."""
    return pool.unpool_size(input.shape, kernel_size, stride, padding, output_size)


def _verify_spatial_size(size: Sequence[int]) -> None:
    """Raise if there is only one value per channel, which has no variance."""
    count = 1
    for each in size[2:]:
        count *= each
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


def assert_int_or_pair(arg: int | Sequence[int], arg_name: str, message: str) -> None:
    """Check that an argument is an integer or a pair."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def _is_integer(x: Tensor | float) -> bool:
    """Whether a number, or a tensor's dtype, is integral."""
    return isinstance(x, int) or (isinstance(x, TensorCore) and not x.is_floating_point())


def _list_or_empty(values: list[Any] | None) -> list[Any]:
    return [] if values is None else values


def _expand_single_value(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
