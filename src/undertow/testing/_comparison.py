"""`assert_close`: check that two values, or nested containers of them, agree within the tolerances of their dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.tensor.from_data import as_tensor
from undertow._tensor import Tensor
from undertow.testing._mismatch import _DTYPE_PRECISIONS as _DTYPE_PRECISIONS
from undertow.testing._mismatch import ErrorMeta as ErrorMeta
from undertow.testing._mismatch import _make_bitwise_mismatch_msg as _make_bitwise_mismatch_msg
from undertow.testing._mismatch import _make_mismatch_msg as _make_mismatch_msg
from undertow.testing._mismatch import default_tolerances as default_tolerances
from undertow.testing._mismatch import get_tolerances as get_tolerances
from undertow.testing._mismatch import make_scalar_mismatch_msg as make_scalar_mismatch_msg
from undertow.testing._mismatch import make_tensor_mismatch_msg as make_tensor_mismatch_msg
from undertow.testing._pairs import BooleanPair as BooleanPair
from undertow.testing._pairs import NonePair as NonePair
from undertow.testing._pairs import NumberPair as NumberPair
from undertow.testing._pairs import ObjectPair as ObjectPair
from undertow.testing._pairs import Pair as Pair
from undertow.testing._pairs import TensorLikePair as TensorLikePair
from undertow.testing._pairs import UnsupportedInputs as UnsupportedInputs

__all__ = ["assert_allclose", "assert_close"]

HAS_NUMPY = True
_HAS_DTENSOR = False  # distributed tensors
_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "bfloat16": (1e-4, 1e-5), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def _unwrap_dtensor_for_comparison(actual: Any, expected: Any) -> tuple[Any, Any]:
    """Return the values unchanged: there are no distributed tensors."""
    return actual, expected


def originate_pairs(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]], sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,), id: tuple[Any, ...] = (), **options: Any,
) -> list[Pair]:  # fmt: skip
    """Return the pairs to compare in two values or nested containers, each of the first class that supports it."""
    also: Any = {
        "pair_types": pair_types, "sequence_types": sequence_types, "mapping_types": mapping_types, **options,
    }  # fmt: skip
    if _both(actual, expected, sequence_types) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            raise ErrorMeta(
                AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", id=id
            )
        keys: Any = range(len(actual))
    elif _both(actual, expected, mapping_types):
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            text = f"Missing keys in the actual mapping: {_sorted(missing)}\n"
            text += f"Additional keys in the actual mapping: {_sorted(additional)}"
            raise ErrorMeta(AssertionError, f"The keys of the mappings do not match:\n{text}", id=id)
        keys = _sorted(actual.keys())
    else:
        return [_pair(actual, expected, pair_types, id, options)]
    return [pair for key in keys for pair in originate_pairs(actual[key], expected[key], id=(*id, key), **also)]


def _both(actual: Any, expected: Any, types: tuple[type, ...]) -> bool:
    return isinstance(actual, types) and isinstance(expected, types)


def _sorted(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:  # of different types
        return list(keys)


def _pair(actual: Any, expected: Any, pair_types: Sequence[type[Pair]], id: Any, options: Any) -> Pair:
    for pair_type in pair_types:
        try:
            return pair_type(actual, expected, id=id, **options)
        except UnsupportedInputs:
            continue
    kinds = f"{type(actual)} and {type(expected)}"
    raise ErrorMeta(TypeError, f"No comparison pair was able to handle inputs of type {kinds}.", id=id)


def not_close_error_metas(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,), **options: Any,
) -> list[ErrorMeta]:  # fmt: skip
    """Return one error for each pair that differs in two values or nested containers."""
    try:
        pairs = originate_pairs(
            actual, expected, pair_types=pair_types, sequence_types=sequence_types, mapping_types=mapping_types,
            **options,
        )  # fmt: skip
    except ErrorMeta as error:
        raise error.to_error() from None
    return [error for error in map(_error_in, pairs) if error is not None]


def _error_in(pair: Pair) -> ErrorMeta | None:
    """Return the error of a pair that differs; raise RuntimeError if the comparison itself fails."""
    try:
        pair.compare()
    except ErrorMeta as error:
        return error
    except Exception as error:
        raise RuntimeError(f"Comparing\n\n{pair!r}\n\nfailed with {type(error).__name__}: {error}") from error
    return None


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, arrays and numbers are compared, and sequences and mappings of them item by item.
    """
    options = {name: value for name, value in locals().items() if name != "msg"}
    __tracebackhide__ = True
    errors = not_close_error_metas(**options, pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair))
    if errors:
        raise errors[0].to_error(msg)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: Any = "",
) -> None:  # fmt: skip
    """Check as `assert_close` (which replaces it): values are converted to tensors, and dtypes may differ."""
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12: use `torch.testing.assert_close()`.", FutureWarning
    )
    one, other = [value if isinstance(value, Tensor) else as_tensor(value) for value in (actual, expected)]
    if rtol is None and atol is None:
        limits = [_OLD_TOLERANCES.get(tensor.dtype.name, (0.0, 0.0)) for tensor in (one, other)]
        rtol, atol = max(limit[0] for limit in limits), max(limit[1] for limit in limits)
    assert_close(
        one, other, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, check_stride=False,
        msg=msg or None,
    )  # fmt: skip
