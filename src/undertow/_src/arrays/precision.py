"""The precision of float32 matrix products on devices with a faster, less exact mode: TF32 on GPUs."""

from __future__ import annotations


class Precision:
    """The current setting; `torch.set_float32_matmul_precision` writes it, products on devices read it."""

    float32_products = "highest"
