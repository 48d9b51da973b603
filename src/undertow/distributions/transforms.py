"""Invertible maps with their log |dy/dx|, for `TransformedDistribution` and constrained parameters."""

from __future__ import annotations

from undertow.distributions._transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _InverseTransform,  # noqa: F401
    identity_transform,
)
from undertow.distributions._transforms_elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from undertow.distributions._transforms_elementwise import clipped_sigmoid as _clipped_sigmoid  # noqa: F401
from undertow.distributions._transforms_vector import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
    "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip

for _name in (*__all__, "_InverseTransform"):  # PyTorch's module, which pickled files name
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
