"""Short-time Fourier transforms: a signal cut into windows, each of them transformed; and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn, warn_once
from undertow._src.engine.apply import apply
from undertow._src.ops.arrange import constant_pad_nd
from undertow._src.ops.broadcasting import squeeze, unsqueeze
from undertow._src.ops.complex import view_as_real
from undertow._src.ops.fft import fft_fft, fft_ifft, fft_irfft, fft_rfft
from undertow._src.ops.pad import pad
from undertow._src.ops.public import public
from undertow._src.ops.shape import transpose, view_to
from undertow._src.ops.slicing import as_strided, narrow
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor

# PyTorch does these in place, and numbers their nodes so.
_turned = twin(rules.transpose, "TransposeBackward1", view=True)
_squeezed = twin(rules.squeeze_dim, "SqueezeBackward4", view=True)


def _described(window: Tensor | None) -> str:
    if window is None:
        return "None"
    return f"torch.{DTYPE_OF[window._array.dtype].scalar_name}Tensor{{{list(window._array.shape)}}}"


def _centred(window: Any, win_length: int, n_fft: int, like: Any) -> Any:
    """Return the window (default: ones), zero-padded on both sides to n_fft samples; None if it would change nothing."""
    if window is None and win_length == n_fft:
        return None
    if window is None:
        window = wrap(np.ones(win_length, like._array.real.dtype))
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    return constant_pad_nd(window, (left, n_fft - win_length - left))


def _check_signal(
    input: Tensor, n_fft: int, hop_length: int, win_length: int, window: Tensor | None, normalized: bool, onesided: Any,
    return_complex: Any, align_to_window: Any,
) -> None:  # fmt: skip
    kind, shape = DTYPE_OF[input._array.dtype], input._array.shape
    name = (
        f"stft(torch.{kind.scalar_name}Tensor{list(shape)}, n_fft={n_fft}, hop_length={hop_length}, "
        f"win_length={win_length}, window={_described(window)}, normalized={int(normalized)}, "
        f"onesided={onesided if onesided is None else int(onesided)}, return_complex={int(return_complex)}, "
        f"align_to_window={align_to_window if align_to_window is None else int(align_to_window)})"
    )
    if not kind.is_inexact:
        raise RuntimeError(f"{name} : expected a tensor of floating point or complex values")
    if len(shape) not in (1, 2):
        raise RuntimeError(f"{name} : expected a 1D or 2D tensor")
    length = shape[-1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"{name} : expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop_length <= 0:
        raise RuntimeError(f"{name} : expected hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name} : expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is not None and window._array.shape != (win_length,):
        raise RuntimeError(
            f"{name} : expected a 1D window tensor of size equal to win_length={win_length}, not "
            f"{list(window._array.shape)}"
        )


@public
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """Return the spectrum of each window of a signal (batch, time), as (batch, frequency, window).

    Windows of n_fft samples start `hop_length` apart. With `center` the signal is padded so that the first and last windows
    are centred on its ends. For a real signal only non-negative frequencies are returned, unless `onesided` is False.
    """
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if center:
        sides, lead = n_fft // 2, 3 - input._array.ndim
        padded = pad(view_to(input, (*(1,) * lead, *input._array.shape)), (sides, sides), pad_mode)
        input = view_to(padded, padded._array.shape[lead:])
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied, and each frequency will leak into its "
            "neighbours. torch.hann_window(n_fft) is better; pass window=torch.ones(n_fft) if a rectangular one is "
            "intended."
        )
    is_complex = input._array.dtype.kind == "c" or (window is not None and window._array.dtype.kind == "c")
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs: pass return_complex=True."
            )
        return_complex = True
    _check_signal(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex:
        warn_once(
            "stft with return_complex=False is deprecated. Pass return_complex=True, and use torch.view_as_real on the "
            "result for pairs of real numbers."
        )
    single = input._array.ndim == 1
    rows = unsqueeze(input, 0) if single else input
    if align_to_window and win_length < n_fft:
        rows = constant_pad_nd(rows, _sides_of(win_length, n_fft))
    count = 1 + (rows._array.shape[1] - n_fft) // hop_length
    steps = [step // rows._array.itemsize for step in rows._array.strides]
    pieces = as_strided(rows, (rows._array.shape[0], count, n_fft), (steps[0], hop_length * steps[1], steps[1]))
    weights = _centred(window, win_length, n_fft, input)
    if weights is not None:
        pieces = pieces * weights
    norm = "ortho" if normalized else "backward"
    whole = is_complex or onesided is False
    spectrum = (fft_fft if whole else fft_rfft)(pieces, dim=-1, norm=norm)
    result = apply(_turned, spectrum, dim0=1, dim1=2)
    result = apply(_squeezed, result, dim=0, axes=(0,)) if single else result
    return result if return_complex else view_as_real(result)


def _sides_of(win_length: int, n_fft: int) -> tuple[int, int]:
    left = (n_fft - win_length) // 2
    return left, n_fft - win_length - left


@public
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """Return the signal whose `stft` comes closest: the windows' inverse transforms, weighted and added."""
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if input._array.dtype.kind != "c":
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft: call stft with "
            "return_complex=True."
        )
    if window is None:
        warn(
            "A window was not provided. A rectangular window will be applied, which restores the signal only if stft used "
            "one too. Pass `window=torch.ones(n_fft)` if that is intended."
        )
    name = _istft_name(input, n_fft, hop, win, window, center, normalized, onesided, length, return_complex)
    shape = input._array.shape
    one_side = _checked_side(name, input, n_fft, hop, win, window, onesided)
    if one_side and (return_complex or (window is not None and window._array.dtype.kind == "c")):
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    single = len(shape) == 2
    spectrum = transpose(unsqueeze(input, 0) if single else input, 1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        pieces = fft_ifft(spectrum, dim=-1, norm=norm)
    elif one_side:
        pieces = fft_irfft(spectrum, n_fft, dim=-1, norm=norm)
    else:
        kept = narrow(spectrum, -1, 0, n_fft // 2 + 1)
        pieces = fft_irfft(kept, n_fft, dim=-1, norm=norm)
    if window is None:
        window = wrap(np.ones(win, input._array.real.dtype))
    weights = window if win == n_fft else constant_pad_nd(window, _sides_of(win, n_fft))
    total = n_fft + hop * (shape[-1] - 1)
    signal = _overlapped(pieces * view_to(weights, (1, 1, n_fft)), total, n_fft, hop)
    squares = (weights * weights).expand(1, shape[-1], n_fft)
    share = _overlapped(squares, total, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = min(total, start + length) if length is not None else total - (n_fft // 2 if center else 0)
    signal, share = narrow(signal, 1, start, end - start), narrow(share, 1, start, end - start)
    if not (np.abs(share._array).min() > 1e-11):
        raise RuntimeError(f"{name} window overlap add min: 1")
    result = signal / share
    if length is not None and length > end - start:
        warn(
            "The length of signal is shorter than the length parameter. Zeros are appended to it. Check that center and "
            "hop_length are those given to stft."
        )
        result = constant_pad_nd(result, (0, length - (end - start)))
    return squeeze(result, 0) if single else result


def _checked_side(
    name: str, input: Tensor, n_fft: int, hop: int, win: int, window: Tensor | None, onesided: bool | None
) -> bool:
    """Refuse what is no spectrum, or windows that do not fit; return whether the spectrum is one-sided."""
    shape = input._array.shape
    if input._array.size == 0:
        raise RuntimeError(f"{name} : expected a non-empty tensor")
    if len(shape) not in (2, 3):
        raise RuntimeError(f"{name} : expected a tensor with 2 or 3 dimensions, but got {len(shape)}")
    one_side = shape[-2] != n_fft if onesided is None else onesided
    if shape[-2] != (n_fft // 2 + 1 if one_side else n_fft):
        size = "n_fft / 2 + 1 when onesided=True" if one_side else "n_fft when onesided=False"
        raise RuntimeError(
            f"{name} : expected the frequency dimension (3rd to the last) of the input tensor to match {size}, but got "
            f"{shape[-2]}"
        )
    if not 0 < hop <= win:
        raise RuntimeError(f"{name} : expected 0 < hop_length <= win_length")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{name} : expected 0 < win_length <= n_fft")
    if window is not None and window._array.shape != (win,):
        raise RuntimeError(f"{name} : Invalid window shape. window has to be 1D and length of `win_length`")
    return one_side


def _overlapped(pieces: Any, total: int, n_fft: int, hop: int) -> Tensor:
    """Add pieces where they overlap: the adjoint of cutting a signal into windows."""
    shape = (pieces._array.shape[0], total)
    return apply(rules.unfold_backward, pieces, shape=shape, dimension=1, size=n_fft, step=hop)


def _istft_name(
    input: Tensor, n_fft: int, hop: int, win: int, window: Any, center: bool, normalized: bool, onesided: Any,
    length: object, return_complex: bool,
) -> str:  # fmt: skip
    kind = DTYPE_OF[input._array.dtype].scalar_name
    side = "None" if onesided is None else int(onesided)
    return (
        f"istft(CPU{kind}Type{list(input._array.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={win}, "
        f"window={_described(window)}, center={int(center)}, normalized={int(normalized)}, onesided={side}, "
        f"length={length}, return_complex={int(return_complex)})"
    )
