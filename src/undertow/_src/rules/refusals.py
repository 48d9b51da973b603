"""Errors of ops for dtypes that they do not support."""

from __future__ import annotations

from undertow._src.arrays.numpy.elementwise import NO_NEGATIVE_BOOLS
from undertow._src.types.dtypes import dtype

# Where PyTorch has a special text; otherwise: "abs_cpu" not implemented for 'Bool'.
_WORDS: dict[tuple[str, str], tuple[type[Exception], str]] = {
    ("neg", "b"): (RuntimeError, NO_NEGATIVE_BOOLS),
    ("sub", "b"): (
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not supported. `a ^ b` is true where they differ.",
    ),
    ("rsub", "b"): (
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not supported. `a ^ b` is true where they differ.",
    ),
    ("relu", "b"): (RuntimeError, "Boolean inputs not supported for relu"),
    ("hardtanh", "b"): (RuntimeError, "Bool inputs not supported for hardtanh"),
    ("hardtanh", "c"): (NotImplementedError, "clamp is not supported for complex types"),
    ("relu", "c"): (NotImplementedError, "clamp is not supported for complex types"),
    ("sign", "c"): (
        NotImplementedError,
        "Unlike NumPy, torch.sign is not intended to support complex numbers; torch.sgn is.",
    ),
    ("signbit", "c"): (NotImplementedError, "signbit is not implemented for complex tensors."),
    ("clamp", "c"): (NotImplementedError, "clamp is not supported for complex types"),
    ("clamp_min", "c"): (NotImplementedError, "clamp is not supported for complex types"),
    ("clamp_max", "c"): (NotImplementedError, "clamp is not supported for complex types"),
    **{(name, "c"): (RuntimeError, f"{name} does not support complex inputs.") for name in ("isposinf", "isneginf")},
    ("heaviside", "c"): (RuntimeError, "heaviside is not yet implemented for complex tensors."),
    **{("frexp", kind): (RuntimeError, "torch.frexp() only supports floating-point dtypes") for kind in "bic"},
    **{(name, "c"): (NotImplementedError, f"{name} is not supported for complex inputs")
       for name in ("floor", "ceil", "trunc")},
    **{(name, "c"): (RuntimeError, f"{name} is not supported for complex tensors.") for name in ("deg2rad", "rad2deg")},
    **{(name, "c"): (RuntimeError, f"{name} not implemented for complex tensors.")
       for name in ("maximum", "minimum", "fmax", "fmin")},
    **{("addcdiv", kind): (
        RuntimeError,
        "Integer division with addcdiv is no longer supported, because addcdiv is a true "
        "division. Cast the inputs to a floating point dtype first.",
       ) for kind in "bi"},
}  # fmt: skip

# Kernels with a name of their own.
_KERNELS = {
    "celu": "elu_cpu", "gelu": "GeluKernelImpl", "softshrink": "softshrink_check", "avg_pool2d": "avg_pool2d",
    "avg_pool3d": "avg_pool3d_out_frame", "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d", "adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "adaptive_max_pool2d": "adaptive_max_pool2d",
}  # fmt: skip


def refusal(name: str, given: dtype) -> Exception:
    """Return the error of an op for a dtype that it does not accept."""
    error, words = _WORDS.get((name, "bifc"[given.category]), (NotImplementedError, ""))
    kernel = _KERNELS.get(name, f"{name}_cpu")
    return error(words or f"\"{kernel}\" not implemented for '{given.scalar_name}'")
