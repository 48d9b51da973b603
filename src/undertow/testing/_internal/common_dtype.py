"""Groups of dtypes that tests run over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.types import dtypes as d


class _dispatch_dtypes(tuple[Any, ...]):
    """A group of dtypes; `+` joins two groups."""

    __slots__ = ()

    def __add__(self, other: Any) -> _dispatch_dtypes:
        return _dispatch_dtypes(tuple(self) + tuple(other))


def _validate_dtypes(*dtypes: Any) -> tuple[Any, ...]:
    for kind in dtypes:
        if not isinstance(kind, d.dtype):
            raise AssertionError(f"Expected dtype to be torch.dtype, got {type(kind).__name__}")
    return dtypes


def _functions(group: _dispatch_dtypes) -> tuple[Callable[[], _dispatch_dtypes], Callable[..., _dispatch_dtypes]]:
    """Return two functions: one that returns a group, and one that returns it with further dtypes."""

    def alone() -> _dispatch_dtypes:
        return group

    def with_more(*dtypes: Any) -> _dispatch_dtypes:
        return group + _validate_dtypes(*dtypes)

    return alone, with_more


_empty_types = _dispatch_dtypes(())
_floating_types = _dispatch_dtypes((d.float32, d.float64))
_floating_types_and_half = _floating_types + (d.float16,)
_complex_types = _dispatch_dtypes((d.complex64, d.complex128))
_floating_and_complex_types = _floating_types + _complex_types
_double_types = _dispatch_dtypes((d.float64, d.complex128))
_integral_types = _dispatch_dtypes((d.uint8, d.int8, d.int16, d.int32, d.int64))
_all_types = _floating_types + _integral_types
_all_types_and_half = _all_types + (d.float16,)
_all_types_and_complex = _all_types + _complex_types
_all_mps_types = _dispatch_dtypes((d.float32, d.float16, d.bfloat16)) + _integral_types
_float8_types = _dispatch_dtypes((d.float8_e4m3fn, d.float8_e4m3fnuz, d.float8_e5m2, d.float8_e5m2fnuz))
_INTEGRAL, _FLOATING, _COMPLEX = _integral_types, _floating_types, _complex_types

empty_types, custom_types = _functions(_empty_types)
floating_types, floating_types_and = _functions(_floating_types)
floating_types_and_half = _functions(_floating_types_and_half)[0]
floating_and_complex_types, floating_and_complex_types_and = _functions(_floating_and_complex_types)
double_types = _functions(_double_types)[0]
integral_types, integral_types_and = _functions(_integral_types)
all_types, all_types_and = _functions(_all_types)
all_types_and_half = _functions(_all_types_and_half)[0]
complex_types, complex_types_and = _functions(_complex_types)
all_types_and_complex, all_types_and_complex_and = _functions(_all_types_and_complex)
all_types_complex_float8_and = _functions(_all_types_and_complex + _float8_types)[1]
all_mps_types, all_mps_types_and = _functions(_all_mps_types)
float8_types, float8_types_and = _functions(_float8_types)
float_to_corresponding_complex_type_map = {d.float16: d.complex32, d.float32: d.complex64, d.float64: d.complex128}


def get_all_dtypes(
    include_half: bool = True, include_bfloat16: bool = True, include_bool: bool = True, include_complex: bool = True,
    include_complex32: bool = False, include_qint: bool = False,
) -> list[Any]:  # fmt: skip
    """Return all dtypes, except excluded kinds."""
    return [
        *get_all_int_dtypes(), *get_all_fp_dtypes(include_half, include_bfloat16), *[d.bool] * include_bool,
        *(get_all_complex_dtypes(include_complex32) if include_complex else []),
        *(get_all_qint_dtypes() if include_qint else []),
    ]  # fmt: skip


def get_all_int_dtypes() -> list[Any]:
    return list(_INTEGRAL)


def get_all_complex_dtypes(include_complex32: bool = False) -> list[Any]:
    return [d.complex32] * include_complex32 + list(_COMPLEX)


def get_all_fp_dtypes(include_half: bool = True, include_bfloat16: bool = True) -> list[Any]:
    return [*_FLOATING, *[d.float16] * include_half, *[d.bfloat16] * include_bfloat16]


def get_all_math_dtypes(device: Any) -> list[Any]:
    return [*get_all_int_dtypes(), *get_all_fp_dtypes(include_bfloat16=False), *_COMPLEX]


def get_all_qint_dtypes() -> list[Any]:
    return [d.qint8, d.quint8, d.qint32, d.quint4x2, d.quint2x4]


def highest_precision_float(device: Any) -> Any:
    return d.float64


def highest_precision_complex(device: Any) -> Any:
    return d.complex128
