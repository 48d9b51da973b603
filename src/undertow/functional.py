"""`torch.functional`: functions that PyTorch implements in Python, under its module name."""

from undertow._src.base.lazy import lazy_names

_OPS = {
    "broadcasting": "atleast_1d atleast_2d atleast_3d broadcast_shapes broadcast_tensors",
    "coordinates": "unravel_index",
    "einsum": "einsum",
    "join": "block_diag cartesian_prod meshgrid",
    "lu": "lu",
    "norms": "cdist norm",
    "products": "chain_matmul tensordot",
    "slicing": "split",
    "sort": "unique unique_consecutive",
    "spectrogram": "istft stft",
}
_HOMES = {name: f"undertow._src.ops.{file}" for file, names in _OPS.items() for name in names.split()}
_HOMES |= dict.fromkeys(["pca_lowrank", "svd_lowrank"], "undertow._lowrank")
_HOMES |= dict.fromkeys(
    "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic".split(),
    "undertow.overrides",
)
_HOMES |= {"Tensor": "undertow._tensor", "_meshgrid": "undertow._src.ops.join:meshgrid"}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
