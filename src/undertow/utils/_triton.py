"""`torch.utils._triton`: whether Triton can be used, which undertow never does."""

from __future__ import annotations


def has_triton() -> bool:
    """Whether kernels of Triton's can run here."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api = has_triton
has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton
has_datacenter_blackwell_tma_device = _device_supports_tma = has_triton


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return the version of Triton, or what is given for none."""
    return fallback
