"""`torch.functional`: functions that PyTorch writes in Python, by the module that it keeps them in."""

from undertow._src.base.lazy import lazy_names
from undertow._src.ops.broadcasting import atleast_1d as atleast_1d
from undertow._src.ops.broadcasting import atleast_2d as atleast_2d
from undertow._src.ops.broadcasting import atleast_3d as atleast_3d
from undertow._src.ops.broadcasting import broadcast_shapes as broadcast_shapes
from undertow._src.ops.broadcasting import broadcast_tensors as broadcast_tensors
from undertow._src.ops.einsum import einsum as einsum
from undertow._src.ops.join import block_diag as block_diag
from undertow._src.ops.join import cartesian_prod as cartesian_prod
from undertow._src.ops.join import meshgrid as meshgrid
from undertow._src.ops.norms import cdist as cdist
from undertow._src.ops.norms import norm as norm
from undertow._src.ops.products import chain_matmul as chain_matmul
from undertow._src.ops.products import tensordot as tensordot
from undertow._src.ops.slicing import split as split
from undertow._src.ops.sort import unique as unique
from undertow._src.ops.sort import unique_consecutive as unique_consecutive

_LAZY = {"lu": "undertow._src.ops.lu", "unravel_index": "undertow._src.ops.coordinates"}
_LAZY |= dict.fromkeys(["istft", "stft"], "undertow._src.ops.spectrogram")
_LAZY |= dict.fromkeys(["pca_lowrank", "svd_lowrank"], "undertow._lowrank")
_LAZY |= dict.fromkeys(
    "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic".split(),
    "undertow.overrides",
)
_LAZY |= {"Tensor": "undertow._tensor", "_meshgrid": "undertow._src.ops.join:meshgrid"}
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
