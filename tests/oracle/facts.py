"""What a value *is*, in plain NumPy and Python terms, so that values of two libraries can be compared.

`facts(torch, value)` copies a value out of the library `torch` (real PyTorch or undertow); `differences(expected, actual)`
lists how two such copies differ. Nothing here knows which of the two libraries it is looking at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tests.oracle.cpus import last_bits

# rtol and atol by dtype; everything not listed is compared exactly.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-9, 1e-9),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-9, 1e-9),
}
# The distance from 1 to the next number, of the dtypes that a float64 reference is more exact than.
SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}


@dataclass(frozen=True, eq=False)
class TensorFacts:
    """A tensor's dtype, shape, values and place in the graph, copied at the moment it was looked at."""

    dtype: str
    shape: tuple[int, ...]
    array: np.ndarray
    requires_grad: bool
    is_leaf: bool
    grad_fn: str | None


@dataclass(frozen=True)
class Text:
    """Anything that is compared by how it prints: dtypes, devices, nodes, handles, classes."""

    kind: str
    text: str


def neutral(text: str) -> str:
    """`text` with both libraries' names and all memory addresses made equal."""
    text = re.sub(r"\bundertow\b", "torch", text)
    return re.sub(r"0x[0-9a-fA-F]+", "0x…", text)


def facts(torch: ModuleType, value: Any) -> Any:
    """A copy of `value` that no longer belongs to the library `torch`; containers keep their structure."""
    if isinstance(value, torch.Tensor):
        return _tensor_facts(torch, value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return neutral(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, BaseException):
        return Text(type(value).__name__, opening(str(value)))
    if isinstance(value, Mapping):
        return {_key(torch, key): facts(torch, item) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return Text("Size", str(tuple(value)))
    if isinstance(value, (set, frozenset)):
        return sorted(_key(torch, item) for item in value)
    if isinstance(value, list):
        return [facts(torch, item) for item in value]
    if isinstance(value, tuple):
        return tuple(facts(torch, item) for item in value)
    return Text(type(value).__name__, neutral(value.__qualname__ if isinstance(value, type) else str(value)))


def _key(torch: ModuleType, key: Any) -> Any:
    return key if isinstance(key, (str, int, float, bool, type(None))) else str(facts(torch, key))


def _tensor_facts(torch: ModuleType, tensor: Any) -> TensorFacts:
    grad_fn = tensor.grad_fn
    return TensorFacts(
        dtype=dtype_name(tensor.dtype),
        shape=tuple(tensor.shape),
        array=to_numpy(torch, tensor),
        requires_grad=tensor.requires_grad,
        is_leaf=tensor.is_leaf,
        grad_fn=None if grad_fn is None else grad_fn.name(),
    )


def dtype_name(dtype: Any) -> str:
    """`torch.float32` and `undertow.float32` are both `float32`."""
    return str(dtype).rpartition(".")[2]


def to_numpy(torch: ModuleType, tensor: Any) -> np.ndarray:
    """A copy of `tensor` as a NumPy array; bfloat16 comes as float32."""
    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        plain = plain.to(torch.float32)
    return np.array(plain.numpy(force=True), copy=True)


def to_tensor(torch: ModuleType, array: Any, requires_grad: bool = False, dtype: str | None = None) -> Any:
    """A new leaf of the library `torch` holding a copy of `array`; `dtype="bfloat16"` goes through float32."""
    array = np.array(array, copy=True)
    if array.dtype.name == "bfloat16":
        array, dtype = array.astype(np.float32), dtype or "bfloat16"
    tensor = torch.from_numpy(array)
    if dtype is not None and dtype_name(tensor.dtype) != dtype:
        tensor = tensor.to(getattr(torch, dtype))
    return tensor.requires_grad_() if requires_grad else tensor


def opening(message: str, words: int = 8) -> str:
    """The first words of a message, up to its first full stop or line end: what a user searches for.

    A message that opens with the name of a kernel (`"exp_vml_cpu" not implemented for 'Half'`) is the same for any kernel.
    The words of a printed set are sorted: they stand in an order that changes from process to process.
    """
    line = neutral(message).strip().split("\n", 1)[0]
    line = re.sub(r"\{('[^{}:]*')\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", line)
    line = re.sub(r'^"[^"]+" not implemented', '"…" not implemented', line)
    sentence = re.split(r"[.;](?:\s|$)", line, maxsplit=1)[0]
    return " ".join(sentence.split()[:words])


def differences(
    expected: Any,
    actual: Any,
    where: str = "result",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    graph: bool = False,
    requires_grad: bool = True,
    reference: Any = None,
) -> Iterator[str]:
    """One line for each way in which `actual` is not `expected`.

    `reference` is the same in float64, if there is one. Which kernel torch chooses, and so how it rounds, depends on the
    CPU: a number that is not torch's is right, too, if its rounding error is none that torch could not have (`_rounded`).
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "graph": graph, "requires_grad": requires_grad}
    if isinstance(expected, TensorFacts) and isinstance(actual, TensorFacts):
        yield from _tensor_differences(expected, actual, where, **options, reference=reference)
    elif type(expected) is not type(actual):
        yield f"{where}: torch gives {_short(expected)}, undertow gives {_short(actual)}"
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(actual):
            counts = f"{where}: {len(expected)} items from torch, {len(actual)} from undertow"
            yield f"{counts}\n    torch    {expected}\n    undertow {actual}"
            return
        parallel = type(reference) is type(expected) and len(reference) == len(expected)
        exact = reference if parallel else [None] * len(expected)
        for index, (one, other, third) in enumerate(zip(expected, actual, exact, strict=True)):
            yield from differences(one, other, f"{where}[{index}]", **options, reference=third)
    elif isinstance(expected, dict):
        if list(expected) != list(actual):
            yield f"{where}: keys {list(expected)} from torch, {list(actual)} from undertow"
            return
        exact = reference if isinstance(reference, dict) else {}
        for key in expected:
            yield from differences(expected[key], actual[key], f"{where}[{key!r}]", **options, reference=exact.get(key))
    elif isinstance(expected, np.ndarray):
        yield from _array_differences(expected, actual, where, expected.dtype.name, actual.dtype.name, rtol, atol)
    elif isinstance(expected, (float, complex)):
        rtol, atol = last_bits(1e-6 if rtol is None else rtol, 1e-7 if atol is None else atol, "float64", expected)
        if not np.isclose(expected, actual, rtol=rtol, atol=atol, equal_nan=True):
            yield f"{where}: {expected!r} from torch, {actual!r} from undertow"
    elif expected != actual:
        yield f"{where}: {_short(expected)} from torch, {_short(actual)} from undertow"


def _tensor_differences(
    expected: TensorFacts,
    actual: TensorFacts,
    where: str,
    rtol: float | None,
    atol: float | None,
    graph: bool,
    requires_grad: bool,
    reference: Any,
) -> Iterator[str]:
    if requires_grad and expected.requires_grad != actual.requires_grad:
        yield f"{where}.requires_grad: {expected.requires_grad} from torch, {actual.requires_grad} from undertow"
    if graph and (expected.is_leaf, expected.grad_fn) != (actual.is_leaf, actual.grad_fn):
        yield (
            f"{where}: is_leaf={expected.is_leaf} grad_fn={expected.grad_fn} from torch, "
            f"is_leaf={actual.is_leaf} grad_fn={actual.grad_fn} from undertow"
        )
    exact = reference.array if isinstance(reference, TensorFacts) else None
    yield from _array_differences(expected.array, actual.array, where, expected.dtype, actual.dtype, rtol, atol, exact)


def _array_differences(
    expected: np.ndarray,
    actual: np.ndarray,
    where: str,
    expected_dtype: str,
    actual_dtype: str,
    rtol: float | None,
    atol: float | None,
    exact: np.ndarray | None = None,
) -> Iterator[str]:
    if expected_dtype != actual_dtype:
        yield f"{where}.dtype: {expected_dtype} from torch, {actual_dtype} from undertow"
        return
    if expected.shape != actual.shape:
        yield f"{where}.shape: {expected.shape} from torch, {actual.shape} from undertow"
        return
    default_rtol, default_atol = TOLERANCES.get(expected_dtype, (0.0, 0.0))
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    if expected.dtype.kind in "fc":
        rtol, atol = last_bits(rtol, atol, expected_dtype, expected)
        equal = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
        if expected_dtype in SPACING and exact is not None and exact.shape == expected.shape:
            equal |= _rounded(expected, actual, exact, SPACING[expected_dtype])
    else:
        equal = actual == expected
    if not np.all(equal):
        bad = np.argwhere(~np.asarray(equal))
        first = tuple(int(i) for i in bad[0])
        yield (
            f"{where}: {len(bad)} of {expected.size} values differ; at {first} torch has {expected[first]!r}, "
            f"undertow {actual[first]!r} (dtype {expected_dtype}, rtol {rtol:g}, atol {atol:g})"
        )


def _rounded(expected: np.ndarray, actual: np.ndarray, exact: np.ndarray, spacing: float) -> np.ndarray:
    """Where `actual` is no further from `exact` than rounding explains.

    That is torch's own largest error here, or two units in the last place of the largest number: a sum, of which most
    results are made, has errors of the size of its terms, however small it comes out.
    """
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact))
        errors = np.abs(expected - exact)
        allowed = max(2 * spacing * scale, np.max(errors, initial=0.0, where=np.isfinite(errors)))
        return np.abs(actual - exact) <= allowed


def _short(value: Any) -> str:
    if isinstance(value, TensorFacts):
        return f"a tensor {value.dtype}{list(value.shape)}"
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) < 300 else text[:297] + "…"
