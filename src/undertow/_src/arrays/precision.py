"""How exactly float32 matrices are multiplied where a device has a faster, rougher way: GPUs have one (TF32)."""

from __future__ import annotations


class Precision:
    """What was asked for last; `torch.set_float32_matmul_precision` writes it, products on devices read it."""

    float32_products = "highest"
