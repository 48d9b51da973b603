"""`torch.fft`: discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.engine.arguments import as_int
from undertow._src.engine.outputs import into
from undertow._src.ops.fft import fft_fft as fft
from undertow._src.ops.fft import fft_fft2 as fft2
from undertow._src.ops.fft import fft_fftn as fftn
from undertow._src.ops.fft import fft_fftshift as fftshift
from undertow._src.ops.fft import fft_hfft as hfft
from undertow._src.ops.fft import fft_hfft2 as hfft2
from undertow._src.ops.fft import fft_hfftn as hfftn
from undertow._src.ops.fft import fft_ifft as ifft
from undertow._src.ops.fft import fft_ifft2 as ifft2
from undertow._src.ops.fft import fft_ifftn as ifftn
from undertow._src.ops.fft import fft_ifftshift as ifftshift
from undertow._src.ops.fft import fft_ihfft as ihfft
from undertow._src.ops.fft import fft_ihfft2 as ihfft2
from undertow._src.ops.fft import fft_ihfftn as ihfftn
from undertow._src.ops.fft import fft_irfft as irfft
from undertow._src.ops.fft import fft_irfft2 as irfft2
from undertow._src.ops.fft import fft_irfftn as irfftn
from undertow._src.ops.fft import fft_rfft as rfft
from undertow._src.ops.fft import fft_rfft2 as rfft2
from undertow._src.ops.fft import fft_rfftn as rfftn
from undertow._src.tensor.factory_arguments import check_options, made, parse_kind

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _frequencies(
    name: str, places: Any, n: int, d: float, dtype: Any, device: Any, layout: Any, requires_grad: bool
) -> Any:
    kind = parse_kind(dtype, name)
    check_options(name, device, layout, False)
    values = places.astype(kind.numpy) * kind.numpy.type(1.0 / (n * d) if n else 0.0)
    return made(values.astype(kind.numpy), name, requires_grad, device)


def fftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Return the frequency of each element of fft's result, for samples at a distance of `d`."""
    n = as_int(n, "fft_fftfreq", "n", 1)
    places = np.concatenate((np.arange((n + 1) // 2), np.arange(-(n // 2), 0)))
    result = _frequencies("fft_fftfreq", places, n, d, dtype, device, layout, requires_grad)
    return result if out is None else into(out, result.detach, (), "fft_fftfreq")


def rfftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Return the frequency of each element of rfft's result, for samples at a distance of `d`."""
    n = as_int(n, "fft_rfftfreq", "n", 1)
    result = _frequencies("fft_rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device, layout, requires_grad)
    return result if out is None else into(out, result.detach, (), "fft_rfftfreq")
