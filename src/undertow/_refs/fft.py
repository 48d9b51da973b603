"""`torch._refs.fft`"""

from undertow._refs.mirrors import mirror

_NAMES = """
    fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
    rfft2 rfftn
"""
__getattr__, __all__ = mirror(__name__, "undertow.fft", _NAMES)
