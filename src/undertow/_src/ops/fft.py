"""Public discrete Fourier transforms, in one dim and in several; `undertow.fft` gives them their short names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, is_int, must_be, wrap_dim, wrap_real_dim
from undertow._src.engine.outputs import into
from undertow._src.ops.arrange import constant_pad_nd, roll
from undertow._src.ops.complex import conj, conj_physical
from undertow._src.ops.public import public
from undertow._src.ops.slicing import narrow
from undertow._src.rules import fft as rules
from undertow._src.types.dtypes import DTYPE_OF, bfloat16, float16, get_default_dtype

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

_FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_INVERSE = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _normalization(norm: str | None, forward: bool) -> int:
    modes = _FORWARD if forward else _INVERSE
    if norm not in modes:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return modes[norm]


def _as_float(input: Tensor) -> Tensor:
    """Integers become the default float; the halves are refused, as on PyTorch's CPU."""
    kind = DTYPE_OF[input._array.dtype]
    if kind in (float16, bfloat16):
        raise RuntimeError(f"Unsupported dtype {kind.scalar_name}")
    return input if kind.is_inexact else input.to(get_default_dtype())


def _as_complex(input: Tensor) -> Tensor:
    kind = DTYPE_OF[input._array.dtype]
    return input if kind.is_complex else input.to(kind.to_complex())


def _check_real(input: Tensor, name: str, words: str = "real") -> None:
    kind = DTYPE_OF[input._array.dtype]
    if kind.is_complex:
        raise RuntimeError(f"{name} expects a {words} input tensor, but got {kind.scalar_name}")


def _resized(input: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Return the input cut, or padded with zeros, to a size along each of the dims."""
    shape = input._array.shape
    frame = [0] * (2 * len(shape))
    for dim, size in zip(dims, sizes):
        if size < shape[dim]:
            input = narrow(input, dim, 0, size)
        else:
            frame[2 * (len(shape) - dim) - 1] = size - shape[dim]
    return constant_pad_nd(input, frame) if any(frame) else input


# --- along one dim


def _one_dim(name: str, input: Tensor, n: object, dim: object) -> tuple[int, int | None]:
    check_tensor(input, name)
    if n is not None:
        n = as_int(n, name, "n", 2)
    dim = as_int(dim, name, "dim")
    shape = input._array.shape
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return int(wrap_dim(dim, len(shape))), n


def _check_count(count: int) -> None:
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")


def _finished(name: str, out: Tensor | None, input: Tensor, compute: Callable[[], Any]) -> Tensor:
    return compute() if out is None else into(out, compute, (input,), name)


def _complex_transform(
    name: str, input: Tensor, n: object, dim: object, norm: str | None, out: Tensor | None, forward: bool
) -> Tensor:
    """fft and ifft. A real input has half as much to compute: the other half mirrors it."""
    axis, count = _one_dim(name, input, n, dim)
    count = input._array.shape[axis] if count is None else count
    _check_count(count)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_float(input), [axis], [count])
        if DTYPE_OF[given._array.dtype].is_complex:
            return apply(rules.fft_c2c, given, dim=(axis,), normalization=mode, forward=forward)
        result = apply(rules.fft_r2c, given, dim=(axis,), normalization=mode, onesided=False)
        return result if forward else conj(result)

    return _finished(name, out, input, compute)


@public
def fft_fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Σ x[j] e^(−2πi jk/n) for every k."""
    return _complex_transform("fft_fft", input, n, dim, norm, out, True)


@public
def fft_ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of fft: the sums with the opposite sign, divided by n."""
    return _complex_transform("fft_ifft", input, n, dim, norm, out, False)


def _half_transform(
    name: str, input: Tensor, n: object, dim: object, norm: str | None, out: Any, forward: bool
) -> Tensor:
    """rfft and ihfft: real numbers to half of a mirrored spectrum."""
    axis, count = _one_dim(name, input, n, dim)
    _check_real(input, name.removeprefix("fft_"))
    count = input._array.shape[axis] if count is None else count
    _check_count(count)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_float(input), [axis], [count])
        result = apply(rules.fft_r2c, given, dim=(axis,), normalization=mode, onesided=True)
        return result if forward else conj(result)

    return _finished(name, out, input, compute)


@public
def fft_rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return the first half of fft of real numbers; the other half mirrors it."""
    return _half_transform("fft_rfft", input, n, dim, norm, out, True)


@public
def fft_ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return the first half of ifft of real numbers."""
    return _half_transform("fft_ihfft", input, n, dim, norm, out, False)


def _real_transform(
    name: str, input: Tensor, n: object, dim: object, norm: str | None, out: Any, forward: bool
) -> Tensor:
    """irfft and hfft: half of a mirrored spectrum to real numbers."""
    axis, count = _one_dim(name, input, n, dim)
    last = 2 * (input._array.shape[axis] - 1) if count is None else count
    _check_count(last)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_complex(_as_float(input)), [axis], [last // 2 + 1])
        return apply(rules.fft_c2r, conj(given) if forward else given, dim=(axis,), normalization=mode, last=last)

    return _finished(name, out, input, compute)


@public
def fft_irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return the real numbers whose rfft the input is."""
    return _real_transform("fft_irfft", input, n, dim, norm, out, False)


@public
def fft_hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """fft of a mirrored signal, of which the input is the first half."""
    return _real_transform("fft_hfft", input, n, dim, norm, out, True)


# --- along several dims


def _listed(value: object, name: str, argument: str, position: int | None) -> list[int]:
    if is_int(value):
        return [as_int(value, name, argument)]
    if not isinstance(value, (tuple, list)):
        raise must_be("tuple of ints", value, name, argument, position)
    return [as_int(item, name, argument) for item in value]


def _several_dims(name: str, input: Tensor, s: object, dim: object) -> tuple[list[int], list[int]]:
    """Return the dims, and the size that each is to have."""
    check_tensor(input, name)
    shape = input._array.shape
    sizes = None if s is None else _listed(s, name, "s", 2)
    if dim is not None:
        dims = [int(wrap_real_dim(each, len(shape))) for each in _listed(dim, name, "dim", 3)]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif sizes is not None:
        if len(sizes) > len(shape):
            raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {len(shape)} dimensions.")
        dims = list(range(len(shape) - len(sizes), len(shape)))
    else:
        dims = list(range(len(shape)))
    wanted = [shape[axis] for axis in dims]
    if sizes is not None:
        wanted = [now if size == -1 else size for size, now in zip(sizes, wanted)]
    for count in wanted:
        _check_count(count)
    return dims, wanted


def _complex_transforms(
    name: str, input: Tensor, s: Sequence[int] | None, dim: int | Sequence[int] | None, norm: str | None, out: Any,
    forward: bool,
) -> Tensor:  # fmt: skip
    dims, sizes = _several_dims(name, input, s, dim)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_complex(_as_float(input)), dims, sizes)
        return apply(rules.fft_c2c, given, dim=tuple(dims), normalization=mode, forward=forward)

    return _finished(name, out, input, compute)


def _last_of(dims: list[int], name: str) -> int:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return dims[-1]


def _half_transforms(
    name: str, input: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None, out: Any,
    forward: bool,
) -> Tensor:  # fmt: skip
    check_tensor(input, name)
    short = name.removeprefix("fft_")
    _check_real(input, short, "real-valued")
    dims, sizes = _several_dims(name, input, s, dim)
    last = _last_of(dims, short)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_float(input), dims, sizes)
        if forward:
            return apply(rules.fft_r2c, given, dim=tuple(dims), normalization=mode, onesided=True)
        result = apply(rules.fft_r2c, given, dim=(last,), normalization=mode, onesided=True)
        if len(dims) == 1:
            return conj(result)
        rest = tuple(dims[:-1])
        return apply(rules.fft_c2c, conj_physical(result), dim=rest, normalization=mode, forward=False)

    return _finished(name, out, input, compute)


def _real_transforms(
    name: str, input: Tensor, s: object, dim: Sequence[int] | None, norm: str | None, out: Any, forward: bool
) -> Tensor:
    dims, sizes = _several_dims(name, input, s, dim)
    axis = _last_of(dims, name.removeprefix("fft_"))
    given_last = None if s is None else _listed(s, name, "s", 2)[-1]
    last = 2 * (input._array.shape[axis] - 1) if given_last in (None, -1) else sizes[-1]
    _check_count(last)
    mode = _normalization(norm, forward)

    def compute() -> Tensor:
        given = _resized(_as_complex(_as_float(input)), dims, [*sizes[:-1], last // 2 + 1])
        if not forward:
            return apply(rules.fft_c2r, given, dim=tuple(dims), normalization=mode, last=last)
        if len(dims) > 1:
            given = apply(rules.fft_c2c, given, dim=tuple(dims[:-1]), normalization=mode, forward=True)
        return apply(rules.fft_c2r, conj(given), dim=(axis,), normalization=mode, last=last)

    return _finished(name, out, input, compute)


def _family(kind: Callable[..., Any], forward: bool, name: str, doc: str) -> tuple[Any, Any]:
    """Return the transform over all dims, and the one over the last two."""

    def over_all(
        input: Tensor, s: _size | None = None, dim: int | _size | None = None, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return kind(f"fft_{name}n", input, s, dim, norm, out, forward)

    def over_two(
        input: Tensor, s: _size | None = None, dim: int | _size = (-2, -1), norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return kind(f"fft_{name}n", input, s, dim, norm, out, forward)

    for function, suffix, where in ((over_all, "n", "several dims"), (over_two, "2", "two dims")):
        function.__name__ = function.__qualname__ = f"fft_{name}{suffix}"
        function.__doc__ = f"{doc}, along {where}."
    return public(over_all), public(over_two)


fft_fftn, fft_fft2 = _family(_complex_transforms, True, "fft", "fft")
fft_ifftn, fft_ifft2 = _family(_complex_transforms, False, "ifft", "ifft")
fft_rfftn, fft_rfft2 = _family(_half_transforms, True, "rfft", "rfft")
fft_ihfftn, fft_ihfft2 = _family(_half_transforms, False, "ihfft", "ihfft")
fft_irfftn, fft_irfft2 = _family(_real_transforms, False, "irfft", "irfft")
fft_hfftn, fft_hfft2 = _family(_real_transforms, True, "hfft", "hfft")


# --- the order of frequencies


def _shifted(name: str, input: Tensor, dim: object, forward: bool) -> Tensor:
    check_tensor(input, name)
    shape = input._array.shape
    given = range(len(shape)) if dim is None else _listed(dim, name, "dim", 2)
    dims = [int(wrap_real_dim(each, len(shape))) for each in given]
    return roll(input, [shape[axis] // 2 if forward else (shape[axis] + 1) // 2 for axis in dims], dims)


@public
def fft_fftshift(input: Tensor, dim: int | _size | None = None) -> Tensor:
    """Return the zero frequency moved to the middle."""
    return _shifted("fft_fftshift", input, dim, True)


@public
def fft_ifftshift(input: Tensor, dim: int | _size | None = None) -> Tensor:
    """Return the zero frequency moved from the middle to the front."""
    return _shifted("fft_ifftshift", input, dim, False)
