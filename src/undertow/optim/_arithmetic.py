"""The elementwise operations that optimizers are written with, and the three ways to run them.

An optimizer's rule is a function of one parameter, its gradient and its buffers, made of the elementwise steps below. A
function whose name ends in `_` may overwrite its first argument, so a rule continues with its result. A gradient is
never overwritten. A rule returns the new parameter and the new buffers, in order.

    Blocks    NumPy arrays, written in place, one cache-sized block after the other
    Recorded  tensors, each step making a new one: autograd can record it, a compiler can trace it, and in half
              precision every step is rounded, as it is in PyTorch
    Shown     tensors, written in place: what a `TorchDispatchMode` sees of a step
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.base.modes import is_grad_enabled, local, slow_path
from undertow._src.ops.compare import where
from undertow._src.ops.complex import view_as_real
from undertow._src.tensor.core import TensorCore, ndarray

Array = Any
Rule = Callable[..., tuple[Array, ...]]

BLOCK = 65536  # elements; a block of parameter, gradient, two buffers and scratch stays in a core's second-level cache


class Blocks:
    """The operations on flat blocks of NumPy arrays of one dtype, with scratch memory that is reused between calls."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._buffers: list[ndarray[Any, Any]] = [np.empty(BLOCK, dtype)]
        self._of_shape: dict[tuple[int, ...], list[ndarray[Any, Any]]] = {}  # shape -> the buffers, sliced to it
        self._cut: list[ndarray[Any, Any]] = []
        self._used = 1

    # --- numbers

    def scalar(self, value: Any) -> float:
        """Return an option of a parameter group, which may be a tensor, as a plain number."""
        return value if isinstance(value, (float, int)) else float(value)

    def number(self, value: float) -> ndarray[Any, Any]:
        """Return a plain number in the form that is fastest to compute with."""
        return np.array(value, self.dtype)

    # --- running a rule

    def run(self, rule: Rule, arrays: list[ndarray[Any, Any]]) -> None:
        """Apply a rule to a parameter, its gradient and its buffers, in place."""
        dtype = self.dtype
        for array in arrays:
            if (array.dtype is not dtype and array.dtype != dtype) or not array.flags.c_contiguous:
                self._run_on_copies(rule, arrays)
                return
        size = arrays[0].size
        if size <= BLOCK:
            self._start(arrays[0].shape, size)
            rule(*arrays)
            return
        flat = [array.reshape(-1) for array in arrays]
        for begin in range(0, size, BLOCK):
            length = min(BLOCK, size - begin)
            self._start((length,), length)
            rule(*[array[begin : begin + length] for array in flat])

    def _run_on_copies(self, rule: Rule, arrays: list[ndarray[Any, Any]]) -> None:
        """Run on contiguous real copies, then write back: for complex arrays and other memory orders."""
        copies = [self._stand_in(array) for array in arrays]
        self.run(rule, copies)
        for place, (array, copy) in enumerate(zip(arrays, copies)):
            if place != 1 and not np.may_share_memory(array, copy):  # 1 is the gradient, which no rule writes to
                array[...] = copy.view(array.dtype).reshape(array.shape) if array.dtype.kind == "c" else copy

    def _stand_in(self, array: ndarray[Any, Any]) -> ndarray[Any, Any]:
        if array.dtype.kind == "c":  # the real and imaginary parts are separate parameters
            return np.ascontiguousarray(array).reshape(-1).view(self.dtype)
        return np.array(array, self.dtype, order="C", copy=None)

    def _start(self, shape: tuple[int, ...], size: int) -> None:
        cut = self._of_shape.get(shape)
        if cut is None:
            cut = self._of_shape[shape] = [buffer[:size].reshape(shape) for buffer in self._buffers]
        self._cut = cut
        self._used = 1  # the first is scratch within an operation; `new` returns the others

    def new(self) -> ndarray[Any, Any]:
        """Return memory for a value that is used until the end of the block."""
        cut, used = self._cut, self._used
        self._used = used + 1
        if used >= len(cut):
            if used >= len(self._buffers):
                self._buffers.append(np.empty(BLOCK, self.dtype))
            cut.append(self._buffers[used][: cut[0].size].reshape(cut[0].shape))
        return cut[used]

    # --- operations that overwrite their first argument

    def add_(self, a: Array, b: Array, weight: Array = None) -> Array:
        """Return a + weight b"""
        if weight is not None:
            b = np.multiply(b, weight, self._cut[0])
        return np.add(a, b, a)

    def mul_(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b, a)

    def lerp_(self, a: Array, b: Array, weight: Array) -> Array:
        """Return a + weight (b - a)"""
        part = self._cut[0]
        np.subtract(b, a, part)
        np.multiply(part, weight, part)
        return np.add(a, part, a)

    def addcmul_(self, a: Array, b: Array, c: Array, weight: Array) -> Array:
        """Return a + weight b c"""
        part = self._cut[0]
        np.square(b, part) if b is c else np.multiply(b, c, part)
        np.multiply(part, weight, part)
        return np.add(a, part, a)

    def addcdiv_(self, a: Array, b: Array, c: Array, weight: Array) -> Array:
        """Return a + weight b / c"""
        part = self._cut[0]
        np.divide(b, c, part)
        np.multiply(part, weight, part)
        return np.add(a, part, a)

    def maximum_(self, a: Array, b: Array) -> Array:
        return np.maximum(a, b, out=a)

    def clamp_(self, a: Array, low: Array, high: Array) -> Array:
        return np.minimum(np.maximum(a, low, out=a), high, out=a)

    def sqrt_(self, a: Array) -> Array:
        return np.sqrt(a, a)

    def copy_(self, a: Array, b: Array) -> Array:
        a[...] = b
        return a

    # --- operations that make a new array

    def add(self, a: Array, b: Array, weight: Array = None) -> Array:
        """Return a + weight b"""
        result = self.new()
        if weight is not None:
            b = np.multiply(b, weight, result)
        return np.add(a, b, result)

    def mul(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b, self.new())

    def div(self, a: Array, b: Array) -> Array:
        return np.divide(a, b, self.new())

    def neg(self, a: Array) -> Array:
        return np.negative(a, self.new())

    def sqrt(self, a: Array) -> Array:
        return np.sqrt(a, self.new())

    def abs(self, a: Array) -> Array:
        return np.abs(a, self.new())

    def sign(self, a: Array) -> Array:
        """Return 1, 0 or -1; 0 for nan too, as in PyTorch."""
        return np.subtract(a > 0, a < 0, self.new(), dtype=self.dtype)

    def where(self, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)


class Recorded:
    """The operations on tensors. Numbers are not converted, so a learning rate may be a tensor with a gradient."""

    def scalar(self, value: Any) -> Any:
        return value

    number = scalar

    def run(self, rule: Rule, tensors: list[Any]) -> None:
        """Apply a rule to a parameter, its gradient and its buffers, and write the results into them."""
        if tensors[0].is_complex():
            tensors = [view_as_real(tensor) for tensor in tensors]
        param, grad, *buffers = tensors
        written = [param, *buffers]
        # The graph may save the tensors it reads.
        read = [tensor.clone() for tensor in written] if is_grad_enabled() else written
        for old, new in zip(written, rule(read[0], grad, *read[1:])):
            old.copy_(new)

    def add(self, a: Any, b: Any, weight: Any = None) -> Any:
        return a + (b if weight is None else b * weight) if _is_factor(weight) else a.add(b, alpha=weight)

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def div(self, a: Any, b: Any) -> Any:
        return a / b

    def lerp_(self, a: Any, b: Any, weight: Any) -> Any:
        return a + (b - a) * weight if isinstance(weight, TensorCore) else a.lerp(b, weight)

    def addcmul_(self, a: Any, b: Any, c: Any, weight: Any) -> Any:
        return a + b * c * weight if isinstance(weight, TensorCore) else a.addcmul(b, c, value=weight)

    def addcdiv_(self, a: Any, b: Any, c: Any, weight: Any) -> Any:
        return a + b / c * weight if isinstance(weight, TensorCore) else a.addcdiv(b, c, value=weight)

    def maximum_(self, a: Any, b: Any) -> Any:
        return a.maximum(b)

    def clamp_(self, a: Any, low: Any, high: Any) -> Any:
        return a.clamp(low, high)

    def copy_(self, a: Any, b: Any) -> Any:
        return b

    def neg(self, a: Any) -> Any:
        return -a

    def sqrt(self, a: Any) -> Any:
        return a.sqrt()

    def abs(self, a: Any) -> Any:
        return a.abs()

    def sign(self, a: Any) -> Any:
        return a.sign()

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return where(condition, a, b)

    add_, mul_, sqrt_ = add, mul, sqrt


class Shown(Recorded):
    """The operations on tensors, in place where their names end in `_`."""

    def run(self, rule: Rule, tensors: list[Any]) -> None:
        if tensors[0].is_complex():
            tensors = [view_as_real(tensor) for tensor in tensors]
        param, grad, *buffers = tensors
        for old, new in zip((param, *buffers), rule(param, grad, *buffers)):
            if new is not old and new is not None:
                old.copy_(new)

    def add_(self, a: Any, b: Any, weight: Any = None) -> Any:
        return a.add_(b if weight is None else b * weight) if _is_factor(weight) else a.add_(b, alpha=weight)

    def mul_(self, a: Any, b: Any) -> Any:
        return a.mul_(b)

    def sqrt_(self, a: Any) -> Any:
        return a.sqrt_()

    def lerp_(self, a: Any, b: Any, weight: Any) -> Any:
        return a.lerp_(b, weight)

    def addcmul_(self, a: Any, b: Any, c: Any, weight: Any) -> Any:
        return a.add_(b * c * weight) if isinstance(weight, TensorCore) else a.addcmul_(b, c, value=weight)

    def addcdiv_(self, a: Any, b: Any, c: Any, weight: Any) -> Any:
        return a.add_(b / c * weight) if isinstance(weight, TensorCore) else a.addcdiv_(b, c, value=weight)

    def maximum_(self, a: Any, b: Any) -> Any:
        return a.copy_(a.maximum(b))

    def clamp_(self, a: Any, low: Any, high: Any) -> Any:
        return a.clamp_(low, high)

    def copy_(self, a: Any, b: Any) -> Any:
        return a.copy_(b)


def _is_factor(weight: Any) -> bool:
    return weight is None or isinstance(weight, TensorCore)


class _Local(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[np.dtype[Any], Blocks] = {}


_local = _Local()
recorded = Recorded()
shown = Shown()


def on_tensors(param: Any, grad: Any, differentiable: bool) -> Recorded:
    """Return `shown` if a dispatch mode or class sees these tensors, else `recorded`."""
    watched = slow_path.dispatcher is not None and slow_path.dispatcher.takes((param, grad))
    return shown if watched and not differentiable else recorded


def blocks_for(array: Any) -> Blocks | None:
    """Return this thread's blocks for a parameter's array; None if the step must run on tensors."""
    if type(array) is not ndarray or array.dtype not in _COMPUTED_IN or local.modes.dispatch_modes:
        return None
    dtype = _COMPUTED_IN[array.dtype]
    found = _local.blocks.get(dtype)
    if found is None:
        found = _local.blocks[dtype] = Blocks(dtype)
    return found


_COMPUTED_IN = {
    np.dtype(of): np.dtype(computed) for of, computed in (("f4", "f4"), ("f8", "f8"), ("c8", "f4"), ("c16", "f8"))
}
