"""Random tensors for tests."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.ops.complex import view_as_complex
from undertow._src.tensor.creation import empty
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes
from undertow._src.types.dtypes import finfo, iinfo
from undertow.random import randint

_INTEGRAL_TYPES = [
    dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint16, dtypes.uint32, dtypes.uint64,
]  # fmt: skip
_FLOATING_TYPES = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
_FLOATING_8BIT_TYPES = [dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float8_e4m3fnuz, dtypes.float8_e5m2fnuz]
_COMPLEX_TYPES = [dtypes.complex32, dtypes.complex64, dtypes.complex128]
_BOOLEAN_OR_INTEGRAL_TYPES = [dtypes.bool, *_INTEGRAL_TYPES]
_FLOATING_OR_COMPLEX_TYPES = [*_FLOATING_TYPES, *_COMPLEX_TYPES]

# The default range of values for each kind of dtype.
_RANGES = {"boolean": (0, 2), "unsigned": (0, 10), "integral": (-9, 10), "real": (-9, 9)}


def make_tensor(
    *shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return a tensor of random numbers from [low, high); the default range is small and depends on the dtype.

    >>> torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu").shape
    torch.Size([2, 3])
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    number = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not number:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous=True and "
            f"memory_format={memory_format}"
        )
    low, high = _range(dtype, low, high)
    spread = noncontiguous and math.prod(shape) > 1  # take every second one of twice as many numbers
    drawn = (*shape[:-1], 2 * shape[-1]) if spread else shape
    if dtype.is_complex:
        pairs = empty((*drawn, 2), dtype=dtype.to_real(), device=device).uniform_(low, high)
        result = view_as_complex(pairs)
    elif number:
        result = empty(drawn, dtype=dtype, device=device).uniform_(low, high)
    else:
        result = randint(low, high, drawn, dtype=dtype, device=device)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = finfo(dtype).tiny if number else 1
    return result.requires_grad_() if requires_grad else result


def _range(dtype: Any, low: float | None, high: float | None) -> tuple[Any, Any]:
    number = dtype.is_floating_point or dtype.is_complex
    kind = "boolean" if dtype is dtypes.bool else "real" if number else "integral" if dtype.is_signed else "unsigned"
    given = _RANGES[kind]
    low, high = given[0] if low is None else low, given[1] if high is None else high
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low > high or (low == high and not number):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if kind == "boolean":
        return max(math.floor(low), 0), min(math.ceil(high), 2)
    if number:
        return max(low, finfo(dtype.to_real()).min), min(high, finfo(dtype.to_real()).max)
    return max(math.floor(low), iinfo(dtype).min), min(math.ceil(high), iinfo(dtype).max + 1)


class Maker:
    """Makes the tensors of samples, all with one device and dtype."""

    def __init__(self, device: Any, dtype: Any, requires_grad: bool) -> None:
        self.device, self.dtype = device, dtype
        self.requires_grad = requires_grad and (dtype.is_floating_point or dtype.is_complex)

    def __call__(self, *shape: int, low: Any = None, high: Any = None, grad: bool = True, **options: Any) -> Any:
        """Return a tensor of random values."""
        if self.dtype is dtypes.bool:
            low = high = None
        elif self.dtype is dtypes.uint8 and low is not None:
            low = max(low, 0)
        return make_tensor(
            shape, dtype=self.dtype, device=self.device, low=low, high=high, requires_grad=self.requires_grad and grad,
            **options,
        )  # fmt: skip

    def whole(self, high: int, *shape: int, low: int = 0) -> Any:
        """Return a tensor of indices."""
        return make_tensor(shape, dtype=dtypes.int64, device=self.device, low=low, high=high)

    def flags(self, *shape: int) -> Any:
        """Return a random mask."""
        return make_tensor(shape, dtype=dtypes.bool, device=self.device)

    def given(self, values: Any) -> Any:
        """Return a tensor of these values."""
        return tensor(values, device=self.device)

    def regular(self, *shape: int) -> Any:
        """Return invertible matrices: the identity plus a little noise."""
        noise = make_tensor(shape, dtype=self.dtype, device=self.device, low=-0.2, high=0.2)
        whole = noise + noise.new_ones(shape[-1]).diag()
        return whole.detach().requires_grad_(self.requires_grad)

    def positive(self, *shape: int) -> Any:
        """Return positive definite Hermitian matrices."""
        root = self.regular(*shape).detach()
        return (root @ root.mH).requires_grad_(self.requires_grad)
