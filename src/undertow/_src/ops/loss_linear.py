"""Cross entropy of a linear layer's outputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from undertow._src.engine.arguments import check_tensor
from undertow._src.ops.loss_class import cross_entropy
from undertow._src.ops.matmul import linear
from undertow._src.ops.public import public

if TYPE_CHECKING:
    from undertow._tensor import Tensor


@public
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: object = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(linear(input, linear_weight, linear_bias), target), for weights (classes, *outputs, inputs).

    `options` say how PyTorch splits the work up to save memory; here it is done in one piece, to the same values.
    """
    for place, (name, given) in enumerate((("input", input), ("linear_weight", linear_weight), ("target", target))):
        check_tensor(given, "linear_cross_entropy", name, place + 1)
    shape, rows = linear_weight._array.shape, input._array.ndim
    if rows not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {rows}")
    if len(shape) < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {len(shape)}")
    if input._array.shape[-1] != shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input._array.shape[-1]} and {shape[-1]}, respectively"
        )
    if len(shape) == 2:
        outputs = linear(input, linear_weight, linear_bias)
    else:
        flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
        flat = linear(input, linear_weight.reshape(math.prod(shape[:-1]), shape[-1]), flat_bias)
        outputs = flat.reshape(*flat.shape[:-1], *shape[:-1])
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(outputs, target, weight, None, ignored, None, reduction, label_smoothing)
