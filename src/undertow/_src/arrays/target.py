"""The kind of device for which a program is being traced: what is fastest differs, and a trace does not show its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from undertow._src.arrays.device.memory import Target
from undertow._src.arrays.precision import Precision


def options_for(platform: str, has_loop: bool = False) -> dict[str, bool]:
    """Return XLA's options for a program.

    On a CPU it rounds to bfloat16 after each operation, as eager mode does; on other devices it need not, as their own
    libraries don't. On a GPU cuBLAS multiplies matrices: XLA takes seconds to choose among kernels of its own, which are
    faster only in loops, where they save launches.
    """
    if platform == "cpu":
        return {"xla_allow_excess_precision": False}
    return {"xla_gpu_enable_triton_gemm": False} if platform == "gpu" and not has_loop else {}


@contextmanager
def traced_for(platform: str, precision: str | None = None) -> Iterator[None]:
    """Trace for this platform inside the block, and with this precision of products, if not the current one."""
    before, Target.platform = Target.platform, platform
    usual, Precision.float32_products = Precision.float32_products, precision or Precision.float32_products
    try:
        yield
    finally:
        Target.platform, Precision.float32_products = before, usual
