"""Every rule on JAX as on NumPy, forward and backward, on the operands that the oracle's samples bring.

Shapes and dtypes are compared for many calls, by tracing them, which costs little. Values are compared for a call of each
rule and dtype, compiled together: what costs time here is XLA's compiler. NumPy's arrays are traced and given to programs
as they are, because to make one JAX's is a program of its own for each shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import test_functions as functions
from tests.xp.rule_calls import Call, calls_of, on_numpy, results
from undertow._src.arrays.jax import namespace as jax_xp
from undertow._src.arrays.jax.tracing import ShapeNeedsValues

FAMILIES = [table.family for table in functions.TABLES]
COMPILED_DTYPES = ("float64", "int64", "bool")
AT_ONCE = 60  # calls compiled together

# What these return is as long as the values say: they refuse to be traced, and run on values that are known.
NEED_VALUES = {"index", "index_put", "index_backward", "masked_select", "unique2", "unique_dim", "unique_consecutive",
               "bincount", "linalg_lstsq", "masked_scatter"}  # fmt: skip

_compared: set[Any] = set()  # rules and dtypes whose values have been compared


def calls(family: str) -> list[tuple[Call, dict[str, Any]]]:
    """A call of each rule and dtype that a family's samples make, two for float64, with NumPy's results."""
    samples = [
        sample for sample in functions.SAMPLES
        if sample.name.startswith(family + "-") and sample.form == "function" and sample.raises is not True
    ]  # fmt: skip
    many: Counter[Any] = Counter()
    chosen = []
    for call in calls_of(samples):
        kind = _rule_and_dtype(call)
        many[kind] += 1
        if many[kind] <= (2 if "float64" in str(kind) else 1) and (expected := on_numpy(call)) is not None:
            chosen.append((call, expected))
    return chosen


def _rule_and_dtype(call: Call) -> Any:
    return (
        call.rule.node_name,
        call.rule.name,
        tuple([str(array.dtype) for array in call.arrays if array is not None][:2]),
    )


def operands(call: Call, expected: dict[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """A rule's operands, and NumPy's forward results, from which the gradients are taken."""
    known = [value for name, value in expected.items() if name.startswith("result")]
    return [None if array is None else np.asarray(array) for array in call.arrays], tuple(map(np.asarray, known))


def on_jax(call: Call, arrays: list[Any], known: tuple[Any, ...]) -> dict[str, Any]:
    found = {}
    try:
        for name, value in results(call, jax_xp, arrays, known):
            found[name] = value
    except (RuntimeError, NotImplementedError):
        pass  # a gradient that does not exist: NumPy refuses it too, or its result is missed below
    return found


def differences(call: Call, expected: dict[str, Any], found: dict[str, Any], values: bool) -> Iterator[str]:
    """What of JAX's results is not NumPy's."""
    for name, value in expected.items():
        want, got = np.asarray(value), found.get(name)
        if got is None:
            yield f"{call.sample}: {call.rule}: no {name}"
        elif (got.shape, got.dtype) != (want.shape, want.dtype):
            yield f"{call.sample}: {call.rule}: {name} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
        elif values and not close(want, np.asarray(got)):
            yield f"{call.sample}: {call.rule}: {name} is {np.asarray(got).ravel()[:4]}, not {want.ravel()[:4]}"


def close(want: Any, got: Any) -> bool:
    if want.dtype.kind in "iub":
        return np.array_equal(want, got)
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}.get(str(want.dtype), 1e-9)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    return np.allclose(want.astype(wide), got.astype(wide), tolerance, tolerance, equal_nan=True)


def traced(call: Call, expected: dict[str, Any]) -> dict[str, Any] | None:
    """What JAX would return, as shapes and dtypes; None where that depends on values."""
    try:
        return jax.eval_shape(lambda *given: on_jax(call, *given), *operands(call, expected))
    except ShapeNeedsValues:
        assert call.rule.name in NEED_VALUES, call
        return None


def wants_values(call: Call) -> bool:
    """Whether a call is the first of its rule and dtype, and the dtype one of those whose values are compared."""
    kind = _rule_and_dtype(call)
    if kind in _compared or not all(array is None or str(array.dtype) in COMPILED_DTYPES for array in call.arrays):
        return False
    _compared.add(kind)
    return True


@pytest.mark.parametrize("family", FAMILIES)
def test_rules(family: str) -> None:
    wrong: list[str] = []
    compiled = []
    for call, expected in calls(family):
        values, found = wants_values(call), traced(call, expected)
        if found is None:
            on_device = jax.tree.map(jnp.asarray, operands(call, expected))
            wrong += differences(call, expected, on_jax(call, *on_device), values)
        else:
            wrong += differences(call, expected, found, values=False)
            if values:
                compiled.append((call, expected))
    for start in range(0, len(compiled), AT_ONCE):
        part = compiled[start : start + AT_ONCE]

        def together(given: list[Any], part: list[Any] = part) -> list[dict[str, Any]]:
            return [on_jax(call, *each) for (call, _), each in zip(part, given, strict=True)]

        given = [operands(call, expected) for call, expected in part]
        for (call, expected), found in zip(part, jax.jit(together)(given), strict=True):
            wrong += differences(call, expected, found, values=True)
    assert not wrong, "\n".join(wrong)
