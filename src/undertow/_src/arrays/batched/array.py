"""`BatchedArray`: what a backward pass for many grad_outputs at once carries (`is_grads_batched`, `jacrev`).

To a rule it is the gradient of one row, with that row's shape, and it holds all rows, with the dim of the batch in front.
Where a rule mixes it with arrays that are the same for every row (what the forward saved), only its own rows are repeated.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from undertow._src.arrays.batched.namespace import BatchedNamespace


class BatchedArray:
    """A row of a batch, which is all rows at once. `raw` has the dim of the batch in front."""

    __slots__ = ("raw", "xp")

    BATCHED = True
    __array_ufunc__ = None  # NumPy's operators leave the work to this class

    def __init__(self, raw: Any, xp: BatchedNamespace) -> None:
        self.raw, self.xp = raw, xp

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape[1:])

    @property
    def ndim(self) -> int:
        return self.raw.ndim - 1

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.xp.dtype_of(self)

    @property
    def _edge(self) -> Any:
        return self.raw._edge  # of a tensor, in a pass that is recorded

    def __getitem__(self, key: Any) -> BatchedArray:
        keys = key if type(key) is tuple else (key,)
        if not all(isinstance(each, (int, slice, type(None), type(Ellipsis))) for each in keys):
            return self.xp.by_rows(operator.getitem, (self, key), {})
        return BatchedArray(self.raw[(slice(None), *keys)], self.xp)

    def astype(self, dtype: Any, copy: bool = True) -> BatchedArray:
        return self.xp.astype(self, dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("the rows of a batch may differ in whether they are true")

    def as_tensor(self) -> Any:
        """Return what hooks are shown of it: an example of a vmap."""
        value = self.raw if self.xp.RECORDED else self.xp.wrap(self.raw)
        return self.xp.level.wrap(value)


def _operator(name: str, function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def applied(self: BatchedArray, *others: Any) -> Any:
        operands = (*others, self) if reflected else (self, *others)
        return self.xp.elementwise(function, operands, {})

    applied.__name__ = name
    return applied


for _name in "add sub mul truediv floordiv mod pow and or xor lt le gt ge eq ne neg abs invert".split():
    _own = getattr(operator, _name if _name not in ("and", "or") else _name + "_")
    setattr(BatchedArray, f"__{_name}__", _operator(_name, _own, reflected=False))
    if _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
        setattr(BatchedArray, f"__r{_name}__", _operator("r" + _name, _own, reflected=True))
BatchedArray.__hash__ = object.__hash__  # type: ignore[method-assign]
