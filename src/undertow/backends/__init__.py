"""Settings of PyTorch's computing libraries. None of these is used here, but programs may set them."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import lazy_names

_PARTS = (
    "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum",
    "quantized",
)  # fmt: skip
__all__ = [*_PARTS, "fp32_precision"]
__getattr__, __dir__ = lazy_names(__name__, {part: f"undertow.backends.{part}" for part in _PARTS})

fp32_precision = "none"

if TYPE_CHECKING:
    from undertow.backends import cuda as cuda
    from undertow.backends import cudnn as cudnn
    from undertow.backends import mkldnn as mkldnn
