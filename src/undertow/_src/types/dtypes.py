"""Element types: the `dtype` singletons, PyTorch's promotion rules, the default dtype, `finfo` and `iinfo`.

The module names `bool`, `int` and `float` are dtypes here, so Python's own types are written `builtins.int`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any, Self

import ml_dtypes  # 5 ms to import; lazy loading would cost a check on every use of bfloat16
import numpy as np

from undertow._src.base.torch_named import TorchNamed

# Categories, in the order in which promotion climbs.
BOOLEAN, INTEGRAL, FLOATING, COMPLEX = range(4)


class dtype(metaclass=TorchNamed):
    """One element type. There is one instance per type; compare with `is`.

    `numpy` is the NumPy dtype that stores it; `opmath` is the dtype in which arithmetic on it is carried out (float16
    and bfloat16 compute in float32); `scalar_name` and `c_name` are the names that PyTorch's errors use; `is_inexact`
    says whether it is floating or complex, and so can have gradients.
    """

    __module__ = "torch"
    __slots__ = (
        "__weakref__",
        "abbr",
        "c_name",
        "category",
        "is_complex",
        "is_floating_point",
        "is_inexact",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "opmath",
        "scalar_name",
    )

    name: str
    abbr: str
    scalar_name: str
    c_name: str
    numpy: np.dtype[Any]
    itemsize: builtins.int
    category: builtins.int
    is_signed: builtins.bool
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_inexact: builtins.bool
    opmath: dtype

    def __new__(cls) -> Self:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_name, (self.name,)  # so copies and unpickled values are this very object

    def __getattr__(self, name: str) -> Any:
        if name == "numpy":
            raise AttributeError(f"{self!r} has no NumPy equivalent")
        raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")

    def to_real(self) -> dtype:
        """Return the dtype of the real part."""
        return _REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex dtype whose parts can hold this floating-point dtype."""
        if self not in _COMPLEX_OF:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _COMPLEX_OF[self]


def _of_name(name: str) -> dtype:
    return globals()[name]


_C_NAMES = {
    "uint8": "unsigned char", "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int",
    "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def _make(
    name: str, abbr: str, scalar_name: str, category: builtins.int, storage: Any, signed: builtins.bool = True,
    opmath: dtype | None = None, itemsize: builtins.int = 4,
) -> dtype:  # fmt: skip
    self = object.__new__(dtype)
    self.name, self.abbr, self.scalar_name, self.category = name, abbr, scalar_name, category
    self.c_name = _C_NAMES.get(name, name)
    self.is_signed, self.is_floating_point, self.is_complex = signed, category == FLOATING, category == COMPLEX
    self.is_inexact = category >= FLOATING
    if storage is None:
        self.itemsize = itemsize  # NumPy cannot store it; complex32 exists so that promotion can return it
    else:
        self.numpy = np.dtype(storage)
        self.itemsize = self.numpy.itemsize
    self.opmath = opmath or self
    return self


bool = _make("bool", "b8", "Bool", BOOLEAN, np.bool_, signed=False)
uint8 = _make("uint8", "u8", "Byte", INTEGRAL, np.uint8, signed=False)
uint16 = _make("uint16", "u16", "UInt16", INTEGRAL, np.uint16, signed=False)
uint32 = _make("uint32", "u32", "UInt32", INTEGRAL, np.uint32, signed=False)
uint64 = _make("uint64", "u64", "UInt64", INTEGRAL, np.uint64, signed=False)
int8 = _make("int8", "i8", "Char", INTEGRAL, np.int8)
int16 = short = _make("int16", "i16", "Short", INTEGRAL, np.int16)
int32 = int = _make("int32", "i32", "Int", INTEGRAL, np.int32)
int64 = long = _make("int64", "i64", "Long", INTEGRAL, np.int64)
float32 = float = _make("float32", "f32", "Float", FLOATING, np.float32)
float64 = double = _make("float64", "f64", "Double", FLOATING, np.float64)
float16 = half = _make("float16", "f16", "Half", FLOATING, np.float16, opmath=float32)
bfloat16 = _make("bfloat16", "bf16", "BFloat16", FLOATING, ml_dtypes.bfloat16, opmath=float32)
# Eight-bit floats hold weights: PyTorch converts and moves them, but computes with few of them.
float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz = FLOAT8 = tuple(
    _make(f"float8_{layout}", f"f8{layout}", f"Float8_{layout}", FLOATING, f"float8_{layout}", opmath=float32)
    for layout in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")
)
# Programs name these and query their width; no tensor here has one.
float8_e8m0fnu = _make("float8_e8m0fnu", "f8e8m0fnu", "Float8_e8m0fnu", FLOATING, None, signed=False, itemsize=1)
qint8 = _make("qint8", "qint8", "QInt8", INTEGRAL, None, itemsize=1)
quint8 = _make("quint8", "quint8", "QUInt8", INTEGRAL, None, signed=False, itemsize=1)
qint32 = _make("qint32", "qint32", "QInt32", INTEGRAL, None, itemsize=4)
quint4x2 = _make("quint4x2", "quint4x2", "QUInt4x2", INTEGRAL, None, signed=False, itemsize=1)
quint2x4 = _make("quint2x4", "quint2x4", "QUInt2x4", INTEGRAL, None, signed=False, itemsize=1)
bits8 = _make("bits8", "bits8", "Bits8", INTEGRAL, None, signed=False, itemsize=1)
bits16 = _make("bits16", "bits16", "Bits16", INTEGRAL, None, signed=False, itemsize=2)
bits1x8 = _make("bits1x8", "bits1x8", "Bits1x8", INTEGRAL, None, signed=False, itemsize=1)
bits2x4 = _make("bits2x4", "bits2x4", "Bits2x4", INTEGRAL, None, signed=False, itemsize=1)
bits4x2 = _make("bits4x2", "bits4x2", "Bits4x2", INTEGRAL, None, signed=False, itemsize=1)
bit = _make("bit", "bit", "Bit", INTEGRAL, None, signed=False, itemsize=1)
float4_e2m1fn_x2 = _make("float4_e2m1fn_x2", "f4e2m1fnx2", "Float4_e2m1fn_x2", FLOATING, None, itemsize=1)
int1, int2, int3, int4, int5, int6, int7 = (
    _make(f"int{width}", f"i{width}", f"Int{width}", INTEGRAL, None, itemsize=1) for width in range(1, 8)
)
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (
    _make(f"uint{width}", f"u{width}", f"UInt{width}", INTEGRAL, None, signed=False, itemsize=1)
    for width in range(1, 8)
)
complex64 = cfloat = _make("complex64", "c64", "ComplexFloat", COMPLEX, np.complex64)
complex128 = cdouble = _make("complex128", "c128", "ComplexDouble", COMPLEX, np.complex128)
complex32 = chalf = _make("complex32", "c32", "ComplexHalf", COMPLEX, None, opmath=complex64)

ALL = (
    bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex32, complex64, complex128,
)  # fmt: skip

_REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF = {
    float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128,
    complex32: complex32, complex64: complex64, complex128: complex128,
}  # fmt: skip
# PyTorch gives these storage and little else: they promote with floating-point dtypes only.
_LIMITED_UNSIGNED = frozenset((uint16, uint32, uint64))


# --- from NumPy and from Python types


class _FromNumpy(dict[np.dtype[Any], dtype]):
    """NumPy dtype -> dtype; a miss raises the error that `torch.from_numpy` raises."""

    def __missing__(self, key: np.dtype[Any]) -> dtype:
        if not key.isnative:
            raise ValueError(
                "given numpy array has byte order different from the native one. "
                "Convert it with array.byteswap() and a dtype of native order first."
            )
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{key.type.__name__}. The only supported types are: "
            "float64, float32, float16, bfloat16, complex64, complex128, int64, int32, int16, int8, "
            "uint64, uint32, uint16, uint8, and bool."
        )


DTYPE_OF = _FromNumpy({each.numpy: each for each in (*ALL, *FLOAT8) if each is not complex32})


def from_numpy(numpy_dtype: np.dtype[Any]) -> dtype:
    """Return the dtype of arrays with this NumPy dtype. Hot paths use `DTYPE_OF[array.dtype]` directly."""
    return DTYPE_OF[numpy_dtype]


_OF_PYTHON_TYPE = {builtins.bool: bool, builtins.int: int64, builtins.float: float64, complex: complex128}


def as_dtype(value: Any, function: str, argument: str, position: builtins.int | None = None) -> dtype:
    """Return `value` as a dtype; the Python types bool, int, float and complex stand for their widest dtype."""
    if type(value) is dtype:
        return value
    if isinstance(value, type) and value in _OF_PYTHON_TYPE:
        return _OF_PYTHON_TYPE[value]
    where = "" if position is None else f" (position {position})"
    raise TypeError(f"{function}(): argument '{argument}'{where} must be torch.dtype, not {type(value).__name__}")


class _OfScalar(dict[type, dtype]):
    """Type of a Python number -> the dtype it has in promotion, which follows the default dtype."""

    def __missing__(self, key: type) -> dtype:
        for python_type in (builtins.bool, builtins.int, builtins.float, complex):  # np.float64 is a float
            if issubclass(key, python_type):
                return self[python_type]
        if issubclass(key, np.generic):
            category = DTYPE_OF[np.dtype(key)].category
            return self[(builtins.bool, builtins.int, builtins.float, complex)[category]]
        raise TypeError(f"a Python number is expected, not {key.__name__}")


# `SCALAR_DTYPE[type(2.0)]` is float32 until set_default_dtype changes it.
SCALAR_DTYPE = _OfScalar({builtins.bool: bool, builtins.int: int64, builtins.float: float32, complex: complex64})


def get_default_dtype() -> dtype:
    """Return the dtype that Python floats get, float32 unless set otherwise."""
    return SCALAR_DTYPE[builtins.float]


def set_default_dtype(d: dtype) -> None:
    """Make a floating-point dtype the default, for every thread."""
    if type(d) is not dtype:
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    SCALAR_DTYPE[builtins.float] = d
    SCALAR_DTYPE[complex] = d.to_complex()


# --- promotion


_PROMOTED: dict[tuple[dtype, dtype], dtype] = {}
_COMBINED: dict[tuple[dtype | None, dtype | None, dtype | None], dtype] = {}


def promote(a: dtype, b: dtype) -> dtype:
    """Return the smallest dtype of at least both categories and sizes: `promote_types` without argument checks."""
    if a is b:
        return a
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = _promote(a, b)
    return found


def _promote(a: dtype, b: dtype) -> dtype:
    low, high = (a, b) if a.category <= b.category else (b, a)
    if a in FLOAT8 or b in FLOAT8:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.scalar_name} and {b.scalar_name}"
        )
    if low in _LIMITED_UNSIGNED or high in _LIMITED_UNSIGNED:
        if not high.is_floating_point:
            raise RuntimeError(
                "Promotion for uint16, uint32, uint64 types is not supported, "
                f"attempted to promote {a.scalar_name} and {b.scalar_name}"
            )
        return high
    if high.is_complex:
        return promote(low.to_real(), high.to_real()).to_complex() if low.category >= FLOATING else high
    if low.category < high.category:
        return high
    if low.itemsize != high.itemsize:
        return low if low.itemsize > high.itemsize else high
    # The remaining pairs have equal sizes: float16 with bfloat16, uint8 with int8.
    return float32 if high.is_floating_point else int16


def combine(dimensioned: dtype | None, zero_dim: dtype | None = None, scalar: dtype | None = None) -> dtype:
    """Return the result dtype of operands of three ranks: tensors with dimensions, 0-dim tensors, Python numbers.

    A lower rank counts only when its category is higher: float16 stays float16 next to a 0-dim float64, and int64 next
    to 2.0 becomes the default dtype.
    """
    key = (dimensioned, zero_dim, scalar)
    found = _COMBINED.get(key)
    if found is None:
        lower = _outrank(zero_dim, scalar)
        result = _outrank(dimensioned, lower)
        if result is None:
            raise RuntimeError("result_type: no operands were given")
        found = _COMBINED[key] = result
    return found


def _outrank(high: dtype | None, low: dtype | None) -> dtype | None:
    if high is None or low is None:
        return high or low
    if low.category <= high.category:
        return high
    if low.is_complex:
        return high.to_complex() if high.is_floating_point else low
    return promote(high, low)


def result_type(
    dimensioned: Iterable[dtype] = (), zero_dim: Iterable[dtype] = (), scalars: Iterable[dtype] = ()
) -> dtype:
    """Return `combine` for any number of operands of each rank; a number's dtype is `SCALAR_DTYPE[type(number)]`."""
    return combine(_promote_all(dimensioned), _promote_all(zero_dim), _promote_all(scalars))


def _promote_all(several: Iterable[dtype]) -> dtype | None:
    result = None
    for each in several:
        result = each if result is None else promote(result, each)
    return result


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest dtype of at least the category and size of both."""
    return promote(as_dtype(type1, "promote_types", "type1", 1), as_dtype(type2, "promote_types", "type2", 2))


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether an in-place result of dtype `from_` may be stored as `to`: the category must not be lower."""
    source, target = as_dtype(from_, "can_cast", "from_", 1), as_dtype(to, "can_cast", "to", 2)
    return source.category <= target.category


# --- limits


_MISSING: Any = object()
# Bits of mantissa, largest exponent, decimal digits that survive.
_FLOAT_LAYOUT = {float16: (10, 15, 3), bfloat16: (7, 127, 2), float32: (23, 127, 6), float64: (52, 1023, 15)}


class _Limits:
    """What finfo and iinfo share: read-only, equal when their dtype is, not hashable."""

    __slots__ = ("bits", "dtype", "max", "min")
    __hash__ = None  # type: ignore[assignment]
    bits: builtins.int
    dtype: str

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.{type(self).__name__}' objects is not writable")

    def _fill(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> builtins.bool:
        return type(self) is type(other) and isinstance(other, _Limits) and self.dtype == other.dtype

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


# Bits of the mantissa (as PyTorch counts them for eps), the largest number, the smallest normal number.
_FLOAT8_LIMITS = {
    float8_e4m3fn: (3, 448.0, 2.0**-6),
    float8_e5m2: (2, 57344.0, 2.0**-14),
    float8_e4m3fnuz: (3, 240.0, 2.0**-7),
    float8_e5m2fnuz: (3, 57344.0, 2.0**-15),
    float8_e8m0fnu: (0, 2.0**127, 2.0**-127),
}


class finfo(_Limits):
    """Limits of a floating-point dtype; for a complex dtype, those of its parts."""

    __module__ = "undertow"
    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    resolution: builtins.float
    smallest_normal: builtins.float
    tiny: builtins.float

    def __init__(self, type: dtype = _MISSING) -> None:
        given = get_default_dtype() if type is _MISSING else as_dtype(type, "finfo", "type", 1)
        if given.category < FLOATING:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        real = given.to_real()
        if real in _FLOAT8_LIMITS:
            mantissa, largest, smallest, digits = *_FLOAT8_LIMITS[real], 0
        else:
            mantissa, exponent, digits = _FLOAT_LAYOUT[real]
            largest = (2.0 - 2.0**-mantissa) * 2.0**exponent
            smallest = 2.0 ** (1 - exponent)
        self._fill(
            bits=8 * real.itemsize,
            dtype=real.name,
            eps=2.0**-mantissa,
            max=largest,
            min=-largest if real.is_signed else smallest,
            resolution=builtins.float(f"1e-{digits}"),
            smallest_normal=smallest,
            tiny=smallest,
        )

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Limits of an integer dtype."""

    __module__ = "undertow"
    __slots__ = ()
    max: builtins.int
    min: builtins.int

    def __init__(self, type: dtype) -> None:
        given = as_dtype(type, "iinfo", "type", 1)
        if given is bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if given.category != INTEGRAL:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        bits = 8 * given.itemsize
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if given.is_signed else (0, (1 << bits) - 1)
        self._fill(bits=bits, dtype=given.name, max=high, min=low)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
