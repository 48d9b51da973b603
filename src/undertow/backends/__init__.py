"""Switches of the libraries that PyTorch computes with. None of them is here; programs set them all the same."""

from __future__ import annotations

from types import SimpleNamespace


def _absent() -> bool:
    return False


cudnn = SimpleNamespace(
    enabled=True, benchmark=False, deterministic=False, allow_tf32=True, is_available=_absent, version=lambda: None
)
cuda = SimpleNamespace(
    matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True), is_built=_absent
)
mps = SimpleNamespace(is_available=_absent, is_built=_absent)
mkl = SimpleNamespace(is_available=_absent)
mkldnn = SimpleNamespace(is_available=_absent, enabled=True)
openmp = SimpleNamespace(is_available=_absent)
