"""The strides that results of array functions have in eager mode, for programs whose own layout is XLA's.

XLA lays arrays out as it likes. But code reads strides, draws fill a tensor in the order of its strides, and whether a
reshape is a view depends on them. So a buffer of a program for the CPU notes the strides that NumPy's would have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.types.devices import cpu
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.device.memory import DeviceMemory
from undertow._src.arrays.numpy.shape import contiguous_strides, view_strides
from undertow._src.arrays.vocabulary import ELEMENTWISE

Word = Callable[..., Any]

_VIEWS = frozenset(
    "alias broadcast_to transpose swapaxes expand_dims squeeze select slice_along diagonal windows real imag".split()
)
_BY_COLUMNS = frozenset(
    "inverse solve solve_triangular cholesky cholesky_solve cofactors qr svd eigh lu_factor geqrf".split()
)
_IN_ORDER = frozenset("contiguous in_rows log_sigmoid softmax softmax_grad log_softmax log_softmax_grad".split())
_LIKE_OPERANDS = frozenset([*ELEMENTWISE, *"where cast copy flip zeros_like ones_like full_like masked_fill".split()])
_FEW = 1 << 16  # elements up to which NumPy may compute just to find out the strides of its result


def laying_out(word: str, function: Word) -> Word:
    """Return an array function that notes, while a program for the CPU is traced, the eager strides of its result."""
    usual = getattr(numpy_xp, word, None)
    lay: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
    if word in _IN_ORDER:
        return function
    if word == "reshape":
        lay = _lay_reshaped
    elif word in _VIEWS:
        lay = lambda result, args, kwargs: _take_strides(result, usual(*_lying(args), **_lying(kwargs)))  # type: ignore[misc]
    elif word in _BY_COLUMNS:
        lay = lambda result, args, kwargs: _lay_by_columns(result)
    elif word in ("astype", "sum_to_shape"):
        lay = lambda result, args, kwargs: _lay_unless_itself(result, usual, args, kwargs)
    elif isinstance(usual, np.ufunc) or word in _LIKE_OPERANDS:
        lay = lambda result, args, kwargs: lay_like(result, args)
    elif callable(usual):
        lay = lambda result, args, kwargs: _lay_computed(result, usual, args, kwargs)
    else:
        return function

    def laid(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if tracer.current is not None and tracer.current.device is cpu:
            lay(result, args, kwargs)
        return result

    return laid


def lay_like(result: Any, operands: Iterable[Any]) -> None:
    """Record the strides of an elementwise function's result, which follow its operands."""
    if not isinstance(result, DeviceMemory) or result.ndim < 2:
        return
    arrays = [each for each in operands if isinstance(each, (DeviceMemory, np.ndarray))]
    if any(not _in_order(each) for each in arrays):
        lying = [each.lying() if isinstance(each, DeviceMemory) else each for each in arrays]
        flags: Any = [*[["readonly"]] * len(lying), ["writeonly", "allocate"]]
        dtypes = [*[each.dtype for each in lying], result.dtype]
        order = np.nditer([*lying, None], ["zerosize_ok"], flags, dtypes, "K", "unsafe").operands[-1]
        if order.shape == result.shape:
            result.lie_with(order.strides)


def _lay_reshaped(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if isinstance(result, DeviceMemory) and not _in_order(args[0]):
        result.lie_with(view_strides(_lying(args[0]), result.shape))


def _lay_unless_itself(result: Any, usual: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record the layout for a function that returns its operand itself if there is nothing to do."""
    x = args[0]
    if not isinstance(result, DeviceMemory) or not isinstance(x, DeviceMemory):
        return
    if result.shape == x.shape and result.dtype == x.dtype:
        _take_strides(result, x.lying())
    elif result.shape == x.shape:
        lay_like(result, [x])
    else:
        _lay_computed(result, usual, args, kwargs)


def _lay_by_columns(results: Any) -> None:
    for result in results if type(results) is tuple else (results,):
        if isinstance(result, DeviceMemory) and result.ndim > 1 and result.dtype.kind in "fc":
            *lead, rows, columns = result.shape
            *steps, one, other = contiguous_strides((*lead, columns, rows), result.itemsize)
            result.lie_with((*steps, other, one))


def _lay_computed(result: Any, usual: Word, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = _arrays_in((*args, *kwargs.values()))
    if all(map(_in_order, given)) or sum([each.size for each in given]) > _FEW:
        return
    try:
        with np.errstate(all="ignore"):
            computed = usual(*_lying(args, zeros=True), **_lying(kwargs, zeros=True))
    except Exception:  # for which zeros don't work
        return
    for each, lying in zip(*[value if type(value) is tuple else (value,) for value in (result, computed)]):
        _take_strides(each, lying)


def _take_strides(result: Any, lying: Any) -> None:
    if isinstance(result, DeviceMemory) and type(lying) is np.ndarray and lying.shape == result.shape:
        result.lie_with(lying.strides)


def _in_order(array: Any) -> bool:
    return array.lies_in_order() if isinstance(array, DeviceMemory) else array.flags.c_contiguous


def _arrays_in(args: Any) -> list[Any]:
    if isinstance(args, (DeviceMemory, np.ndarray)):
        return [args]
    return [each for arg in args for each in _arrays_in(arg)] if type(args) in (tuple, list) else []


def _lying(args: Any, zeros: bool = False) -> Any:
    """Replace a program's arrays in arguments by arrays with their eager strides."""
    if isinstance(args, DeviceMemory):
        return _zeros_lying_as(args.lying()) if zeros else args.lying()
    if type(args) in (tuple, list):
        return type(args)([_lying(arg, zeros) for arg in args])
    if type(args) is dict:
        return {name: _lying(arg, zeros) for name, arg in args.items()}
    return args


def _zeros_lying_as(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    steps = [*map(abs, array.strides)]
    size = sum([step * (n - 1) for step, n in zip(steps, array.shape) if n]) + array.itemsize
    return np.ndarray(array.shape, array.dtype, np.zeros(size, np.uint8), strides=steps)
