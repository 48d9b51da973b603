"""Dtypes, promotion, limits, devices, layouts and sizes against PyTorch, over all pairs and kinds of operands."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.oracle.harness import agree, without_cuda
from tests.oracle.programs import attempt
from undertow._src.types import devices, dtypes, layouts, sizes

NAMES = [each.name for each in dtypes.ALL]
PAIRS = list(itertools.product(NAMES, NAMES))
SCALARS = [True, 3, 2.5, 1j]
DEFAULTS = ["float16", "bfloat16", "float32", "float64"]


@contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """Run a block with this default dtype in both libraries."""
    try:
        dtypes.set_default_dtype(getattr(dtypes, name))
        torch.set_default_dtype(getattr(torch, name))
        yield
    finally:
        dtypes.set_default_dtype(dtypes.float32)
        torch.set_default_dtype(torch.float32)


def outcome(call: Callable[[], Any]) -> str:
    """What `call` gives or raises, as text that does not depend on the library."""
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def outcome_opening(call: Callable[[], Any]) -> str:
    return outcome(call).partition("\n")[0]


@pytest.mark.parametrize("name", NAMES)
def test_dtype_attributes(name: str) -> None:
    ours, theirs = getattr(dtypes, name), getattr(torch, name)
    assert repr(ours) == str(ours) == repr(theirs)
    for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize", "abbr"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    for method in ("to_real", "to_complex"):
        assert outcome(getattr(ours, method)) == outcome(getattr(theirs, method))
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy(ours) is ours
    assert copy.copy(ours) is ours
    assert {ours: 1}[ours] == 1
    assert ours != name


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "complex64"]
)
def test_the_names_of_dtypes_in_errors(name: str) -> None:
    def program(torch: Any, log: Any) -> None:
        x, other = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2).to(getattr(torch, name))
        attempt(log, "lerp", lambda: torch.lerp(x, other, 0.5), words=20)
        attempt(log, "masked_fill", lambda: x.masked_fill(other, 1), words=20)
        attempt(log, "mm", lambda: torch.mm(x, other), words=20)
        attempt(log, "grad", lambda: setattr(x, "grad", other), words=20)
        attempt(log, "random_", lambda: other.random_(-(2**62), 2**62), words=20)
        attempt(log, "assigned", lambda: (other.__setitem__(0, 1e39), other.clone()), words=20)
        attempt(log, "fill_", lambda: torch.fill_(other, 1e39), words=20)
        attempt(log, "full", lambda: torch.full((2,), 1e39, dtype=other.dtype), words=20)
        attempt(log, "complex", lambda: torch.full((2,), 1e39j, dtype=other.dtype), words=20)

    agree(program)


def test_dtype_is_closed() -> None:
    assert outcome(dtypes.dtype) == outcome(torch.dtype)
    assert outcome(lambda: dtypes.float32.shape) == outcome(lambda: torch.float32.shape)


def test_every_alias_names_the_same_dtype() -> None:
    for alias in "float double half long int short cfloat cdouble chalf".split():
        assert repr(getattr(dtypes, alias)) == repr(getattr(torch, alias))


def test_numpy_dtypes() -> None:
    for each in dtypes.ALL:
        if each is dtypes.complex32:
            with pytest.raises(AttributeError, match="no NumPy equivalent"):
                _ = each.numpy
        else:
            assert dtypes.from_numpy(each.numpy) is each
            assert each.numpy.itemsize == each.itemsize
    assert dtypes.bfloat16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert dtypes.DTYPE_OF[np.dtype(np.longlong)] is dtypes.int64
    assert dtypes.float16.opmath is dtypes.bfloat16.opmath is dtypes.float32
    assert dtypes.int8.opmath is dtypes.int8


@pytest.mark.parametrize("code", ["U1", "O", "longdouble", ">f4", "M8[s]", "V4"])
def test_unsupported_numpy_dtypes(code: str) -> None:
    array = np.empty(2, code)
    # undertow does take bfloat16, so its list is longer by that word.
    ours = outcome(lambda: dtypes.from_numpy(array.dtype)).replace("bfloat16, ", "")
    theirs = outcome(lambda: torch.from_numpy(array))
    words = 8 if "byte order" in theirs else None  # the opening words; the list of supported types is compared whole
    assert ours.split()[:words] == theirs.split()[:words]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promote_types_and_can_cast(a: str, b: str) -> None:
    for function in ("promote_types", "can_cast"):
        ours = outcome(lambda: getattr(dtypes, function)(getattr(dtypes, a), getattr(dtypes, b)))
        assert ours == outcome(lambda: getattr(torch, function)(getattr(torch, a), getattr(torch, b)))


def test_promotion_takes_python_types_and_nothing_else() -> None:
    for a, b in itertools.product([bool, int, float, complex, None, 3, "float32"], [float, "a"]):
        assert outcome(lambda: dtypes.promote_types(a, b)) == outcome(lambda: torch.promote_types(a, b))  # type: ignore[arg-type]
        assert outcome(lambda: dtypes.can_cast(a, b)) == outcome(lambda: torch.can_cast(a, b))  # type: ignore[arg-type]


def ranks(operand: tuple[str, Any]) -> tuple[list[dtypes.dtype], list[dtypes.dtype], list[dtypes.dtype]]:
    """An operand as the lists that `result_type` takes."""
    kind, value = operand
    dtype = dtypes.SCALAR_DTYPE[type(value)] if kind == "scalar" else getattr(dtypes, value)
    return tuple([dtype] if kind == each else [] for each in ("tensor", "0-dim", "scalar"))  # type: ignore[return-value]


def torch_operand(operand: tuple[str, Any]) -> Any:
    kind, value = operand
    if kind == "scalar":
        return value
    return torch.empty((1,) if kind == "tensor" else (), dtype=getattr(torch, value))


@pytest.mark.parametrize("default", DEFAULTS)
def test_result_type_of_every_pair(default: str) -> None:
    operands: list[tuple[str, Any]] = [(kind, name) for kind in ("tensor", "0-dim") for name in NAMES]
    operands += [("scalar", value) for value in SCALARS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ComplexHalf")
        values = [torch_operand(each) for each in operands]
    with default_dtype(default):
        for (a, x), (b, y) in itertools.product(zip(operands, values, strict=True), repeat=2):
            ours = outcome(lambda: dtypes.result_type(*map(operator.add, ranks(a), ranks(b))))
            assert ours == outcome(lambda: torch.result_type(x, y)), (a, b)


def test_result_type_of_three_operands() -> None:
    # torch.result_type takes two operands; addcmul promotes three, of any ranks.
    names = ["uint8", "int8", "int64", "float16", "float32", "float64", "complex64"]
    operands = [(kind, name) for kind in ("tensor", "0-dim") for name in names]
    values = {operand: torch_operand(operand).fill_(1) for operand in operands}
    for several in itertools.product(operands, repeat=3):
        ours = dtypes.result_type(*map(itertools.chain, *map(ranks, several)))
        assert repr(ours) == repr(torch.addcmul(*(values[operand] for operand in several)).dtype), several


def test_numpy_scalars_rank_as_python_numbers() -> None:
    for value in (np.float64(1), np.float32(1), np.int8(1), np.bool_(True), np.complex64(1)):
        python = {"f": float, "i": int, "b": bool, "c": complex}[value.dtype.kind]
        assert dtypes.SCALAR_DTYPE[type(value)] is dtypes.SCALAR_DTYPE[python]
    with pytest.raises(TypeError):
        dtypes.SCALAR_DTYPE[str]


def test_default_dtype() -> None:
    assert dtypes.get_default_dtype() is dtypes.float32
    for bad in ("int64", "bool", "complex64"):
        ours = outcome(lambda: dtypes.set_default_dtype(getattr(dtypes, bad)))
        assert ours == outcome(lambda: torch.set_default_dtype(getattr(torch, bad)))
    for junk in ("float32", float, None):
        assert outcome(lambda: dtypes.set_default_dtype(junk)) == outcome(lambda: torch.set_default_dtype(junk))  # type: ignore[arg-type]
    with default_dtype("float64"):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(dtypes.get_default_dtype()))
        thread.start()
        thread.join()
        assert seen == [dtypes.float64]
        assert dtypes.SCALAR_DTYPE[complex] is dtypes.complex128


@pytest.mark.parametrize("name", NAMES)
def test_limits(name: str) -> None:
    for kind, attributes in (
        ("finfo", "bits dtype eps max min resolution smallest_normal tiny"),
        ("iinfo", "bits dtype max min"),
    ):
        ours, theirs = getattr(dtypes, kind), getattr(torch, kind)
        assert outcome(lambda: ours(getattr(dtypes, name))) == outcome(lambda: theirs(getattr(torch, name)))
        for attribute in attributes.split():
            assert outcome(lambda: getattr(ours(getattr(dtypes, name)), attribute)) == outcome(
                lambda: getattr(theirs(getattr(torch, name)), attribute)
            )


def test_limits_arguments() -> None:
    for kind, junk in itertools.product(("finfo", "iinfo"), (float, int, complex, bool, None, "float32", 3)):
        assert outcome(lambda: getattr(dtypes, kind)(junk)) == outcome(lambda: getattr(torch, kind)(junk))
    assert str(dtypes.finfo()) == str(torch.finfo())
    limits = dtypes.finfo(dtypes.float32)
    assert limits == dtypes.finfo(dtypes.complex64)
    assert limits != dtypes.finfo(dtypes.float64)
    assert outcome(lambda: setattr(limits, "eps", 1)) == outcome(lambda: setattr(torch.finfo(), "eps", 1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(limits)


DEVICE_ARGUMENTS: list[tuple[Any, ...]] = [
    ("cpu",), ("cuda",), ("cuda:0",), ("cuda", 0), ("cpu:0",), ("cpu", 0), ("meta",), ("xla:3",), ("mps",), ("hpu:12",),
    ("foo",), ("foo:1",), ("foo bar",), ("CPU",), ("cuda:",), ("cuda:a",), ("cuda:-1",), ("cuda:01",), ("cuda:1:2",),
    ("cuda: 1",), ("cuda-1",), ("",), (":1",), ("cuda", -1), ("cuda:1", 2), ("cpu", "0"), ("cpu", 1.5), ("cpu", None),
    ("cuda", True), *without_cuda([(3,)]), (-1,), (None,), (1.5,), (True,), ([1],), (),
]  # fmt: skip


@pytest.mark.parametrize("arguments", DEVICE_ARGUMENTS)
def test_device(arguments: tuple[Any, ...]) -> None:
    assert outcome_opening(lambda: repr(devices.device(*arguments))) == outcome_opening(
        lambda: repr(torch.device(*arguments))
    )
    assert outcome_opening(lambda: devices.device(*arguments)) == outcome_opening(lambda: torch.device(*arguments))


def test_device_values() -> None:
    cuda = devices.device("cuda:1")
    assert (cuda.type, cuda.index) == ("cuda", 1)
    assert cuda == devices.device("cuda", 1) == devices.device(type="cuda", index=1) == devices.device(cuda)
    assert hash(cuda) == hash(devices.device("cuda", 1))
    assert cuda != devices.device("cuda")
    assert (cuda == "cuda:1") == (torch.device("cuda:1") == "cuda:1")
    assert devices.device("cpu") != devices.device("cpu:0")
    assert pickle.loads(pickle.dumps(cuda)) == cuda == copy.deepcopy(cuda)
    assert outcome(lambda: setattr(cuda, "index", 3)) == outcome(lambda: setattr(torch.device("cuda:1"), "index", 3))
    assert outcome(lambda: devices.device(devices.cpu, 1)) == outcome(lambda: torch.device(torch.device("cpu"), 1))


def test_default_device_is_scoped_and_per_thread() -> None:
    meta = devices.device("meta")
    seen = []
    with meta as entered, devices.cpu:
        assert entered is meta
        assert devices.get_default_device() is devices.cpu
    with meta, meta:
        assert devices.get_default_device() is meta
        thread = threading.Thread(target=lambda: seen.append(devices.get_default_device()))
        thread.start()
        thread.join()
    assert seen == [devices.cpu]
    with pytest.raises(ZeroDivisionError), meta:
        _ = 1 / 0
    assert devices.get_default_device() is devices.cpu
    devices.set_default_device("meta")
    assert devices.get_default_device() is meta
    devices.set_default_device(None)
    assert devices.get_default_device() is devices.cpu


def test_layouts_and_memory_formats() -> None:
    for kind in ("layout", "memory_format"):
        ours, theirs = getattr(layouts, kind), getattr(torch, kind)
        assert outcome(ours) == outcome(theirs)
        named = {name for name, value in vars(torch).items() if isinstance(value, theirs)}
        assert {name for name, value in vars(layouts).items() if isinstance(value, ours)} == named
        for name in named:
            value = getattr(layouts, name)
            assert repr(value) == repr(getattr(torch, name))
            assert pickle.loads(pickle.dumps(value)) is value is copy.deepcopy(value)


SIZE_PROGRAMS: list[Callable[[Any], Any]] = [
    lambda Size: Size(),
    lambda Size: Size([2, 3]),
    lambda Size: Size(range(3)),
    lambda Size: Size([True, np.int64(3)]),
    lambda Size: Size([2, "a"]),
    lambda Size: Size([2, 1.5]),
    lambda Size: Size([np.float32(2)]),
    lambda Size: Size([None]),
    lambda Size: Size(3),
    lambda Size: Size([2, 3]).numel(),
    lambda Size: Size().numel(),
    lambda Size: Size([2, 3, 4])[1:],
    lambda Size: Size([2, 3, 4])[::-1],
    lambda Size: Size([2, 3, 4])[-1],
    lambda Size: Size([2, 3, 4])[5],
    lambda Size: Size([2, 3]) + (1,),
    lambda Size: (1,) + Size([2, 3]),
    lambda Size: Size([2]) + Size([3]),
    lambda Size: Size([2]) + [3],
    lambda Size: Size([2]) + 3,
    lambda Size: Size([2]) + ("a",),
    lambda Size: Size([2]) + (1.5,),
    lambda Size: ("a",) + Size([2]),
    lambda Size: Size([2, 3]) * 2,
    lambda Size: 2 * Size([2, 3]),
    lambda Size: Size([2]) * 1.5,
    lambda Size: Size([2, 3]) == (2, 3),
    lambda Size: hash(Size([2, 3])) == hash((2, 3)),
    lambda Size: f"{Size([2])} {Size([2])!r}",
    lambda Size: pickle.loads(pickle.dumps(Size([2, 3]))),
    lambda Size: copy.deepcopy(Size([2, 3])),
    lambda Size: [type(each).__name__ for each in (Size([2])[:1], Size([2]) + (1,), Size([2]) * 2, tuple(Size([2])))],
]


@pytest.mark.parametrize("program", SIZE_PROGRAMS)
def test_size(program: Callable[[Any], Any]) -> None:
    assert outcome(lambda: program(sizes.Size)) == outcome(lambda: program(torch.Size))


def test_size_of_a_known_shape() -> None:
    assert repr(sizes.size_of((2, 3))) == "torch.Size([2, 3])"
