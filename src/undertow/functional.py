"""`torch.functional`: functions that PyTorch writes in Python, by the module that it keeps them in."""

from undertow._src.base.lazy import lazy_names
from undertow.ops.einsum import einsum as einsum
from undertow.ops.join import block_diag as block_diag
from undertow.ops.join import cartesian_prod as cartesian_prod
from undertow.ops.join import meshgrid as meshgrid
from undertow.ops.norms import cdist as cdist
from undertow.ops.norms import norm as norm
from undertow.ops.parts import split as split
from undertow.ops.products import chain_matmul as chain_matmul
from undertow.ops.products import tensordot as tensordot
from undertow.ops.sort import unique as unique
from undertow.ops.sort import unique_consecutive as unique_consecutive
from undertow.ops.stretch import atleast_1d as atleast_1d
from undertow.ops.stretch import atleast_2d as atleast_2d
from undertow.ops.stretch import atleast_3d as atleast_3d
from undertow.ops.stretch import broadcast_shapes as broadcast_shapes
from undertow.ops.stretch import broadcast_tensors as broadcast_tensors

_LAZY = {"lu": "undertow.ops.lu", "unravel_index": "undertow.ops.coordinates"}
_LAZY |= dict.fromkeys(["istft", "stft"], "undertow.ops.spectrogram")
_LAZY |= dict.fromkeys(["pca_lowrank", "svd_lowrank"], "undertow.low_rank")
_LAZY |= dict.fromkeys(
    "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic".split(),
    "undertow.overrides",
)
_LAZY |= {"Tensor": "undertow._tensor", "_meshgrid": "undertow.ops.join:meshgrid"}
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
