"""Settings of CUDA, and the kernels that attention may use, on the CPU too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from undertow._src.arrays.precision import Precision
from undertow._src.base.sites import warn
from undertow._src.ops.attention import kernels as attention_kernels


class _Products:
    """The precision of matrix products on a GPU."""

    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True
    fp32_precision = "none"

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 may be rounded to TF32, like `torch.set_float32_matmul_precision("high")`."""
        return Precision.float32_products != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        Precision.float32_products = "high" if allowed else "highest"


matmul = _Products()


def is_built() -> bool:
    """Whether PyTorch was built with CUDA."""
    return False


def is_flash_attention_available() -> bool:
    return False


class SDPAParams(NamedTuple):
    """The arguments of attention, to test which kernels support them."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether a fused CUDA kernel supports these arguments: never."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def _asked(kernel: str) -> Callable[[], bool]:
    return lambda: attention_kernels[kernel]


def _switch(kernel: str) -> Callable[[bool], None]:
    def enable(enabled: bool) -> None:
        """Whether attention may use this kernel."""
        attention_kernels[kernel] = enabled

    return enable


flash_sdp_enabled, enable_flash_sdp = _asked("flash"), _switch("flash")
math_sdp_enabled, enable_math_sdp = _asked("math"), _switch("math")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _asked("mem_efficient"), _switch("mem_efficient")
cudnn_sdp_enabled, enable_cudnn_sdp = _asked("cudnn"), _switch("cudnn")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[str, Any]]:
    """Set which kernels attention may use inside the block; `torch.nn.attention.sdpa_kernel` is the newer form."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated; write `torch.nn.attention.sdpa_kernel()` with a list of "
        "SDPBackend instead.",
        FutureWarning,
    )
    before = dict(attention_kernels)
    attention_kernels.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        attention_kernels.update(before)
