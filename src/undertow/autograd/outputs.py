"""Results that go into a tensor which is there already: `out=`, what forbids it, and the count of writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow import mirrors
from undertow._core import InferenceStorage, TensorCore, wrap
from undertow.dtypes import DTYPE_OF
from undertow.modes import local, special
from undertow.ops.arguments import type_name
from undertow.sites import user_stack, warn
from undertow.xp.device_placement import empty_beside
from undertow.xp.quiet import quietly


def into(out: Any, compute: Callable[[], Any], inputs: Sequence[Any], name: str, same_dtype: bool = False) -> Any:
    """`out=`: computes unrecorded and writes the result into a tensor, giving it the result's shape."""
    if not isinstance(out, TensorCore):
        if not isinstance(out, (bool, int, float, complex)):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(out)}")
        out = wrap(out)
    modes = local.modes
    if modes.grad_enabled:
        for given in (*inputs, out):
            if isinstance(given, TensorCore) and given._requires_grad:
                raise RuntimeError(
                    f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                    "the arguments requires grad."
                )
    before, modes.grad_enabled = modes.grad_enabled, False
    try:
        result = compute()
    finally:
        modes.grad_enabled = before
    write_out(out, result, same_dtype)
    return out


def copied_into(out: Any, result: Any) -> Any:
    """`out=` of a function that copies its result there as its last step, which is recorded if the result is."""
    if not result._requires_grad:
        write_out(out, result)
        return out
    if out._array.shape != result._array.shape:
        out._array = empty_beside(out._array, result._array.shape)
    return out.copy_(result)


_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def write_out(out: Any, result: Any, same_dtype: bool = False) -> None:
    """Writes a result into the tensor given as `out=`; `same_dtype`: an op that casts nothing on the way."""
    refuse_overlap(out._array)
    found, wanted = DTYPE_OF[result._array.dtype], DTYPE_OF[out._array.dtype]
    if same_dtype and found is not wanted:
        raise RuntimeError(
            f"Expected out tensor to have dtype {_C_NAMES.get(found.name, found.name)}, but got "
            f"{_C_NAMES.get(wanted.name, wanted.name)} instead"
        )
    if found.category > wanted.category:
        raise RuntimeError(
            f"result type {found.scalar_name} can't be cast to the desired output type {wanted.scalar_name}"
        )
    if out._array.shape != result._array.shape:
        if out._array.size:
            warn(
                f"An output with one or more elements was resized since it had shape {list(out._array.shape)}, which "
                f"does not match the required output shape {list(result._array.shape)}. Give an empty tensor, or one "
                "of that shape.",
            )
        out._array = empty_beside(out._array, result._array.shape)
    quietly(np.copyto, out._array, result._array, casting="unsafe")
    bump(out)


def refuse_overlap(array: Any) -> None:
    """Memory that shows in several places can't be written to."""
    if 0 in array.strides and overlaps(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def overlaps(array: Any) -> bool:
    """Whether a stretched array shows one memory location in several places."""
    return array.size > 1 and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


def bump(tensor: Any) -> None:
    """Counts a write to a tensor's memory."""
    storage = tensor._get_storage()
    if mirrors.known:
        mirrors.sync(tensor._array)
    if type(storage) is InferenceStorage:
        return
    storage.version += 1
    if special.anomaly:
        lines = storage.writes = storage.writes or []
        lines += [None] * (storage.version - 1 - len(lines))  # writes made while nobody looked
        stack = user_stack()
        lines.append(stack[-1] if stack else None)
