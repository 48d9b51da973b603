"""The words in which samples of functions are written, and how one sample runs.

A table is one family of functions; a line of it is one case in one or more forms:

    op = Table("elementwise").op
    op("mul", "broadcast", "a, b", FORMS, a=signed(3, 1), b=signed(4))

makes `torch.mul(a, b)`, `a.mul(b)`, `(x := (a).clone()).mul_(b)` and `torch.mul(a, b, out=out)`, each a test with an id
such as `elementwise-mul-broadcast-inplace`. Inputs are described, not made: both libraries get the same seeded numbers.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from tests.oracle.facts import to_tensor

FORMS = "function method inplace out"
FLOATS = "float32 float16 bfloat16"
INTEGERS = "int64 int32 int16 int8 uint8"
COMPLEX = "complex64 complex128"
EVERY = f"{FLOATS} int64 int32 uint8 bool {COMPLEX}"
REAL = f"{FLOATS} int64 int32 uint8 bool"

INEXACT = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DIFFERENTIABLE_TWICE = ("float64", "complex128")
# Half precision carries 11 and 8 bits; libraries may round between the steps of one function or not.
TOLERANCES = {"float16": (4e-3, 2e-3), "bfloat16": (3e-2, 1.6e-2), "float32": (1e-5, 1e-6), "complex64": (1e-5, 1e-6)}


@dataclass(frozen=True)
class Values:
    """An input: which numbers, in which shape. `dtype=None` follows the sample (float64 unless it sweeps dtypes)."""

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str | None = None
    grad: bool = True
    below: int = 0
    literal: Any = None

    def tensor(self, torch: ModuleType, seed: str, dtype: str, grad: bool, exact: bool = False) -> Any:
        """The leaf of the library `torch` that this describes; an `exact` one has the same numbers in float64."""
        name = self.dtype or dtype
        carried = "float32" if name == "bfloat16" else name
        random = np.random.default_rng(zlib.crc32(seed.encode()))
        array = np.asarray(self.literal if self.kind == "literal" else self._numbers(random, carried))
        made = to_tensor(torch, array.astype(carried), dtype=name)
        return (widened(torch, made) if exact else made).requires_grad_(grad and self.grad and name in INEXACT)

    def _numbers(self, random: np.random.Generator, dtype: str) -> Any:
        if dtype.startswith("complex"):
            return replace(self, kind="signed")._real(random) + 1j * self._real(random)
        if dtype == "bool" or self.kind == "mask":
            return random.random(self.shape) < 0.5
        if dtype.startswith(("int", "uint")) and self.kind != "index":
            return self._whole(random, signed=dtype.startswith("int"))
        return self._real(random)

    def _whole(self, random: np.random.Generator, signed: bool) -> Any:
        if self.kind == "distinct":
            return random.permutation(_size(self.shape)).reshape(self.shape)
        low, high = {"unit": (-1, 2), "probability": (0, 2), "above_one": (1, 7)}.get(self.kind, (1, 7))
        numbers = random.integers(low if signed else max(low, 0), high, self.shape)
        return numbers * random.choice([-1, 1], self.shape) if signed and self.kind == "signed" else numbers

    def _real(self, random: np.random.Generator) -> Any:
        """Numbers that stay clear of kinks and poles: never near 0, near ±1 or near each other where it matters."""
        shape = self.shape
        if self.kind == "index":
            return random.integers(0, self.below, shape)
        if self.kind == "distinct":
            count = _size(shape)
            return ((random.permutation(count) - count // 2) * 0.25 + 0.125).reshape(shape)
        low, high = {"unit": (0.1, 0.9), "probability": (0.1, 0.9), "above_one": (1.1, 2.9)}.get(self.kind, (0.3, 2.4))
        numbers = random.uniform(low, high, shape)
        return numbers * random.choice([-1.0, 1.0], shape) if self.kind in ("signed", "unit") else numbers


def widened(torch: ModuleType, tensor: Any) -> Any:
    """A tensor of floats in float64, one of complex numbers in complex128."""
    wide = {False: torch.float64, True: torch.complex128}[tensor.is_complex()]
    return tensor.to(wide) if tensor.is_floating_point() or tensor.is_complex() else tensor


def signed(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers of both signs, at least 0.3 from zero."""
    return Values("signed", shape, dtype, grad)


def positive(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers in (0.3, 2.4)."""
    return Values("positive", shape, dtype, grad)


def unit(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers in (-0.9, 0.9), at least 0.1 from zero."""
    return Values("unit", shape, dtype, grad)


def probability(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers in (0.1, 0.9)."""
    return Values("probability", shape, dtype, grad)


def above_one(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers in (1.1, 2.9)."""
    return Values("above_one", shape, dtype, grad)


def distinct(*shape: int, dtype: str | None = None, grad: bool = True) -> Values:
    """Numbers of which no two are equal, in any dtype: for everything that orders."""
    return Values("distinct", shape, dtype, grad)


def index(below: int, *shape: int, dtype: str = "int64") -> Values:
    """Whole numbers in [0, below)."""
    return Values("index", shape, dtype, grad=False, below=below)


def mask(*shape: int) -> Values:
    """True and False."""
    return Values("mask", shape, "bool", grad=False)


def values(literal: Any, dtype: str | None = None, grad: bool = True) -> Values:
    """Exactly these numbers."""
    return Values("literal", (), dtype, grad, literal=literal)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=int))


@dataclass(frozen=True)
class Sample:
    """One program over named inputs, and what is compared of it."""

    function: str
    name: str
    program: str
    inputs: Mapping[str, Values]
    seed: str
    form: str = "function"
    dtype: str = "float64"
    first: bool = True
    second: bool = True
    layout: bool = False
    graph: bool = True
    raises: bool | None = False
    words: int = 8
    tolerance: tuple[float, float] | None = None

    def environment(self, torch: ModuleType, grad: bool, exact: bool = False) -> dict[str, Any]:
        """The names that the program may use."""
        tensors = {
            name: value.tensor(torch, f"{self.seed}/{name}", self.dtype, grad, exact)
            for name, value in self.inputs.items()
        }
        return {"torch": torch, "F": _functional(torch), "inf": float("inf"), "nan": float("nan"), **tensors}


class Table:
    """The samples of one family of functions; those `beyond` what undertow promises are tested where they exist."""

    def __init__(self, family: str, beyond: str = "") -> None:
        self.family = family
        self.beyond = set(beyond.split())
        self.samples: list[Sample] = []

    def samples_for(self, torch: ModuleType) -> list[Sample]:
        """The samples that the library `torch` has to agree with."""
        return [one for one in self.samples if one.function not in self.beyond or _has(torch, one.function)]

    def op(self, function: str, case: str, arguments: str, forms: str = "function", /, **rest: Any) -> None:
        """Call `function` with `arguments` in each of `forms`; as function and in place also for each of `dtypes`."""
        inputs, options, dtypes = _sorted_out(rest)
        name = f"{self.family}-{function}-{case}"
        for form, program in _programs(function, arguments, forms.split()):
            suffix = "" if form == "function" else f"-{form}"
            sample = Sample(function, name + suffix, program, inputs, name, form, **options)
            self.samples.append(sample)
            for dtype in dtypes if form in ("function", "inplace") else ():
                self._sweep(sample, dtype)
            if form == "out":
                self.samples.append(replace(sample, name=f"{name}-out_requires_grad", form="out_grad", raises=None))

    def expression(self, function: str, case: str, program: str, /, **rest: Any) -> None:
        """Any expression over `torch`, `F` and the inputs; gradients as for `op`."""
        inputs, options, dtypes = _sorted_out(rest)
        name = f"{self.family}-{function}-{case}"
        sample = Sample(function, name, program, inputs, name, **options)
        self.samples.append(sample)
        for dtype in dtypes:
            self._sweep(sample, dtype)

    def programs(self, text: str, inputs: dict[str, Values], /, **rest: Any) -> None:
        """One expression per line over the inputs that it names; torch may refuse it, and then in the same words."""
        for program in text.strip().splitlines():
            words = set(re.findall(r"(?<![\w.'])[A-Za-z]\w*(?![\w'=])", program))
            used = {name: value for name, value in inputs.items() if name in words}
            function = re.sub(r"^torch\.|\(.*", "", program) or "expression"
            self.expression(function, str(len(self.samples)), program, **{"raises": None, **used, **rest})

    def bad(self, function: str, case: str, program: str, /, **rest: Any) -> None:
        """An expression that must raise: same class and opening words."""
        inputs, options, _ = _sorted_out(rest)
        name = f"{self.family}-{function}-bad_{case}"
        self.samples.append(Sample(function, name, program, inputs, name, **{"raises": True, **options}))

    def _sweep(self, sample: Sample, dtype: str) -> None:
        """The same sample in another dtype, where torch may also refuse it."""
        twice = sample.second and dtype in DIFFERENTIABLE_TWICE
        tolerance = _looser(sample.tolerance, TOLERANCES.get(dtype))
        name = f"{sample.name}-{dtype}"
        self.samples.append(replace(sample, name=name, dtype=dtype, second=twice, raises=None, tolerance=tolerance))


def _looser(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, float] | None:
    """What allows both; a sample's own tolerance is meant for float64."""
    return (max(a[0], b[0]), max(a[1], b[1])) if a and b else a or b


def _has(torch: ModuleType, function: str) -> bool:
    """Whether the library has `function`, under the name that its samples use."""
    module, _, name = function.rpartition(".")
    place = {"": torch, "F": _functional(torch), "linalg": getattr(torch, "linalg", None)}[module]
    return hasattr(place, name) or (not module and hasattr(torch.Tensor, name))


def _functional(torch: ModuleType) -> Any:
    """`torch.nn.functional`, or None in a library without `nn`: the families that need no layers are testable without."""
    return getattr(getattr(torch, "nn", None), "functional", None)


def _sorted_out(rest: dict[str, Any]) -> tuple[dict[str, Values], dict[str, Any], list[str]]:
    """The inputs, the options of `Sample` and the dtypes to sweep, from the keywords of one line."""
    inputs = {name: value for name, value in rest.items() if isinstance(value, Values)}
    options = {name: value for name, value in rest.items() if name not in inputs and name != "dtypes"}
    return inputs, options, rest.get("dtypes", "").split()


def _programs(function: str, arguments: str, forms: list[str]) -> Iterator[tuple[str, str]]:
    """The spelling of a call in each form; the method is called on the first argument."""
    path = function if function.startswith("F.") else f"torch.{function}"
    method = function.rpartition(".")[2]
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(call, ast.Call)
    parts = [ast.unparse(argument) for argument in [*call.args, *call.keywords]]
    receiver, others = (parts[0], ", ".join(parts[1:])) if call.args else ("", "")
    spelled = {
        "function": f"{path}({arguments})",
        "method": f"({receiver}).{method}({others})",
        "inplace": f"(x := ({receiver}).clone()).{method}_({others})",
        "out": f"{path}({arguments}, out=out)",
    }
    for form in forms:
        yield form, spelled[form]
