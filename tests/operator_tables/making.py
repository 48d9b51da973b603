"""How the tables of operators are written: a name, letters for the dtypes, and calls to try.

The letters: b bool, i integers, f float32 and float64, h float16, B bfloat16, c complex64 and complex128. A call is a tuple
of arguments, with those by name in a dict at its end, or a `SampleInput`. `t` makes a tensor in the dtype and on the device
of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from tests.operator_tables.op_info import OpInfo, SampleInput, _getattr_qual
from undertow._src.types import dtypes as d
from undertow.testing._creation import Maker
from undertow.testing._internal.common_dtype import _dispatch_dtypes, _integral_types
from undertow.testing._utils import wrapper_set_seed

ALL, NUMBERS, REAL, FLOATS, INEXACT = "bifhBc", "ifhBc", "ifhB", "fhB", "fhBc"
_LETTERS = {
    "b": (d.bool,), "i": _integral_types, "f": (d.float32, d.float64), "h": (d.float16,), "B": (d.bfloat16,),
    "c": (d.complex64, d.complex128),
}  # fmt: skip
Calls = Callable[..., list[Any]]


def dtypes_of(letters: str) -> _dispatch_dtypes:
    """Return the dtypes that letters stand for."""
    return _dispatch_dtypes(kind for letter in letters for kind in _LETTERS[letter])


def sampled(calls: Calls) -> Callable[..., Iterator[SampleInput]]:
    """Return a `sample_inputs_func` from a list of calls."""

    def samples(op: Any, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Iterator[SampleInput]:
        for call in calls(Maker(device, dtype, requires_grad)):
            if isinstance(call, SampleInput):
                yield call
                continue
            arguments = call if isinstance(call, tuple) else (call,)
            named = arguments[-1] if len(arguments) > 1 and isinstance(arguments[-1], dict) else {}
            yield SampleInput(arguments[0], args=arguments[1 : len(arguments) - bool(named)], kwargs=named)

    return samples


def seeded(name: str) -> Callable[..., Any]:
    """Return a function that draws the same numbers each time."""
    return lambda *args, **kwargs: wrapper_set_seed(_getattr_qual(import_module("undertow"), name), *args, **kwargs)


def operator(name: str, letters: str, calls: Calls, **options: Any) -> OpInfo:
    """Return a row of a table. `name/variant` tells two rows of one operator apart; a dot first means a method of
    tensors.
    """
    name, _, variant = name.partition("/")
    if not any(letter in letters for letter in "fhBc"):
        options.setdefault("supports_autograd", False)
    options.setdefault("supports_forward_ad", options.get("supports_autograd", True))
    options.setdefault("supports_fwgrad_bwgrad", options.get("supports_autograd", True))
    return OpInfo(
        name, variant_test_name=variant, dtypes=dtypes_of(letters), sample_inputs_func=sampled(calls), **options
    )
