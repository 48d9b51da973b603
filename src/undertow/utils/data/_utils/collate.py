"""Collating samples into batches: leaves are stacked, the structure around them is kept."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from undertow._src.ops.join import stack
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import as_tensor, tensor
from undertow._src.types.dtypes import float64

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
np_str_obj_array_pattern = re.compile(r"[SaUO]")

Collate = Callable[..., Any]


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays in nested lists and dicts to tensors; keep everything else.

    >>> default_convert({"a": np.array([1, 2]), "b": "text"})
    {'a': tensor([1, 2]), 'b': 'text'}
    """
    if isinstance(data, (TensorCore, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return (
            data
            if isinstance(data, np.ndarray) and np_str_obj_array_pattern.search(data.dtype.str)
            else as_tensor(data)
        )
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*[default_convert(item) for item in data])
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch: Any, *, collate_fn_map: dict[Any, Collate] | None = None) -> Any:
    """Return a list of samples as one batch; `collate_fn_map` has the function for each type of leaf."""
    sample = batch[0]
    makers = collate_fn_map or {}
    if type(sample) in makers:
        return makers[type(sample)](batch, collate_fn_map=collate_fn_map)
    for kind, maker in makers.items():
        if isinstance(sample, kind):
            return maker(batch, collate_fn_map=collate_fn_map)
    if isinstance(sample, Mapping):
        columns = {key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map) for key in sample}
        return _like_mapping(sample, columns)
    if _is_namedtuple(sample):
        return type(sample)(*[collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch, strict=False)])
    if isinstance(sample, Sequence):
        if any(len(item) != len(sample) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch, strict=True)]
        return parts if isinstance(sample, tuple) else _like_sequence(sample, parts)
    raise TypeError(default_collate_err_msg_format.format(type(sample)))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


default_collate_fn_map: dict[Any, Collate] = {
    TensorCore: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Return a list of samples as one batch: tensors stacked, numbers as tensors, containers collated inside.

    >>> default_collate([(torch.tensor([1.0]), 5), (torch.tensor([2.0]), 6)])
    [tensor([[1.], [2.]]), tensor([5, 6])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like_mapping(model: Any, content: dict[Any, Any]) -> Any:
    """Return the content in a mapping of the model's class, or in a dict if that cannot be constructed."""
    try:
        if isinstance(model, MutableMapping):
            clone = copy.copy(model)
            clone.update(content)
            return clone
        return type(model)(content)
    except TypeError:
        return content


def _like_sequence(model: Any, content: list[Any]) -> Any:
    """Return the content in a sequence of the model's class, or in a list if that cannot be constructed."""
    try:
        if isinstance(model, MutableSequence):
            clone = copy.copy(model)
            for position, item in enumerate(content):
                clone[position] = item
            return clone
        return type(model)(content)
    except TypeError:
        return content
