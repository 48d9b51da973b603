"""Small helpers for tests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty, full, full_like, ones, zeros
from undertow._src.types.dtypes import float16
from undertow.overrides import TorchFunctionMode
from undertow.utils._pytree import tree_leaves


class NoTest:
    """A base class that marks a class as containing no tests."""

    __test__ = False


class CrossRefMode(TorchFunctionMode):
    """A mode that runs every function unchanged."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_iterable(obj: Any) -> bool:
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    """Whether an object is an iterable of tensors only."""
    if isinstance(iterable, TensorCore):
        return False
    items = list(iterable) if is_iterable(iterable) else [None]
    return all(isinstance(item, TensorCore) for item in items) if items else include_empty


def iter_indices(tensor: Any) -> Any:
    """Return the indices of all elements."""
    if tensor.dim() == 0:
        return range(0)
    return range(tensor.size(0)) if tensor.dim() == 1 else product(*map(range, tensor.size()))


def get_tensors_from(args: Any, kwargs: Any) -> set[Any]:
    """Return the tensors among the arguments of a call."""
    return {value for value in tree_leaves((args, kwargs)) if isinstance(value, TensorCore)}


def first_sample(self: Any, samples: Iterable[Any]) -> Any:
    """Return the first sample; skip the test if there is none."""
    try:
        return next(iter(samples))
    except StopIteration:
        self.skipTest("Skipped! Need at least 1 sample input for test.")


def noncontiguous_like(t: Any) -> Any:
    """Return a non-contiguous copy of a tensor; a tensor that is already non-contiguous is returned itself."""
    if not t.is_contiguous():
        return t
    wide = t.detach().new_empty(*t.shape, 2)
    result = wide[..., 0]
    result.copy_(t.detach())
    return result.requires_grad_(t.requires_grad)


def bytes_to_scalar(byte_list: list[int], dtype: Any, device: Any) -> Any:
    """Return a 0-dim tensor whose memory holds these bytes."""
    made = empty((), dtype=dtype, device=device)
    if made.element_size() != len(byte_list):
        raise AssertionError(f"{len(byte_list)} bytes for a {dtype} of {made.element_size()}")
    made._array[...] = np.frombuffer(bytes(byte_list), made._array.dtype)[0]
    return made


def to_gpu(obj: Any, type_map: Any = None) -> Any:
    raise RuntimeError("undertow has no GPU to move this to")


def do_test_empty_full(self: Any, dtypes: Any, layout: Any, device: Any) -> None:
    """Check the results of `empty`, `full` and similar functions for each of these dtypes."""
    for kind in dtypes:
        made = empty((2, 3), dtype=kind, layout=layout, device=device)
        self.assertEqual((made.shape, made.dtype, made.layout), ((2, 3), kind, layout))
        filled = full((2, 3), 1, dtype=kind, device=device)
        for each in (filled.new_full((2, 3), 1), full_like(filled, 1), ones((2, 3), dtype=kind, device=device)):
            self.assertEqual(each, filled)


def do_test_dtypes(self: Any, dtypes: Any, layout: Any, device: Any) -> None:
    """Check that tensors can be made with these dtypes."""
    for kind in dtypes:
        if kind is not float16:
            self.assertIs(zeros((2, 3), dtype=kind, layout=layout, device=device).dtype, kind)


def _test_function(fn: Any, device: Any) -> Any:
    return fn


def _device_spec_from_test_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the device that a test was called with."""
    given = kwargs.get("device", kwargs.get("devices", args[1] if len(args) > 1 else None))
    return given[0] if isinstance(given, (list, tuple)) and given else given
