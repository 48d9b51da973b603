"""`torch._C._nn`: compiled functions of `torch.nn`, at home elsewhere here, and the one that reads what `to` is given."""

from __future__ import annotations

from typing import Any

from undertow._src.base.lazy import lazy_names
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.methods.convert import _parse_to as _read
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import SCALAR_DTYPE, dtype, float64

__all__ = ["_parse_to"]

_homes = dict.fromkeys(
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d avg_pool3d elu elu_ gelu "
    "glu hardsigmoid hardswish hardtanh hardtanh_ leaky_relu leaky_relu_ linear max_pool2d_with_indices "
    "max_pool3d_with_indices mish one_hot pad relu6 scaled_dot_product_attention silu softplus softshrink".split(),
    "undertow.nn.functional",
)
_homes |= dict.fromkeys(
    "binary_cross_entropy cross_entropy_loss huber_loss l1_loss mse_loss nll_loss nll_loss2d nll_loss_nd smooth_l1_loss "
    "soft_margin_loss".split(),
    "undertow.nn._compiled",
)
_homes |= dict.fromkeys(
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d col2im fractional_max_pool2d fractional_max_pool3d gelu_ hardsigmoid_ hardswish_ im2col "
    "mish_ reflection_pad1d reflection_pad2d reflection_pad3d relu6_ replication_pad1d replication_pad2d "
    "replication_pad3d silu_ upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_trilinear3d".split(),
    "undertow.nn._compiled_layers",
)
_homes |= dict.fromkeys(["multi_margin_loss", "multilabel_margin_loss"], "undertow.nn._compiled")
_homes["log_sigmoid"] = "undertow.nn.functional:logsigmoid"
_homes["pad_sequence"] = "undertow.nn.utils.rnn"
_homes["flatten_dense_tensors"] = "undertow._utils:_flatten_dense_tensors"
_homes["unflatten_dense_tensors"] = "undertow._utils:_unflatten_dense_tensors"
__getattr__, __dir__ = lazy_names(__name__, _homes)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Device | None, dtype | None, bool, Any]:
    """Return the device, dtype, non_blocking and memory_format that a call of `to` with these arguments means."""
    if len(args) == 1 and type(args[0]) in (bool, int, float):  # numbers count as tensors here
        kind = float64 if type(args[0]) is float else SCALAR_DTYPE[type(args[0])]
        return Device("cpu"), kind, False, None
    given = _read(args, kwargs)
    device, other = given.get("device"), given.get("other")
    if isinstance(other, TensorCore):
        device = other.device
    elif device is not None and not isinstance(device, Device):
        device = Device(device)
    return device, given.get("dtype"), bool(given.get("non_blocking", False)), given.get("memory_format")
