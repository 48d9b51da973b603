"""Helpers that optimizers written for PyTorch import from `torch.optim.optimizer`, besides the base class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow._src.base.modes import set_grad_enabled
from undertow._src.ops.complex import view_as_real
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.dtypes import float32, float64, get_default_dtype

__all__ = [
    "_capturable_doc", "_default_to_fused_or_foreach", "_device_dtype_check_for_fused", "_differentiable_doc",
    "_disable_dynamo_if_unsupported", "_foreach_doc", "_fused_doc", "_get_capturable_supported_devices",
    "_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices", "_get_scalar_dtype", "_get_value",
    "_group_tensors_by_device_and_dtype", "_maximize_doc", "_params_doc", "_stack_if_compiling", "_to_scalar",
    "_use_grad_for_differentiable", "_view_as_real",
]  # fmt: skip

# Devices for which PyTorch supports captured, foreach and fused steps; its errors name them.
CAPTURABLE = ("cuda", "xpu", "hpu", "privateuseone", "xla")
CAPTURABLE_FOREACH = CAPTURABLE[:-1]
_FOREACH = ("cuda", "xpu", "mtia", "privateuseone")
_FUSED = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone")

# Pieces of docstrings.
_params_doc = "params (iterable): tensors, named tensors, or dicts of parameter groups"
_foreach_doc = "foreach (bool, optional): accepted; the update is the same"
_fused_doc = "fused (bool, optional): accepted; the update is the same"
_capturable_doc = "capturable (bool, optional): whether a step may be captured on an accelerator"
_differentiable_doc = "differentiable (bool, optional): whether autograd goes through the step"
_maximize_doc = "maximize (bool, optional): go up the gradient instead of down"


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that is recorded only if the optimizer is differentiable."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    """Return a tensor's value as a number, and anything else as it is."""
    return x.item() if isinstance(x, TensorCore) else x


def _to_scalar(x: Any) -> Any:
    """Return a tensor of one element with no dims, and anything else as it is."""
    return x.squeeze() if isinstance(x, TensorCore) and x.dim() != 0 else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing: there is no dynamo here."""
    return lambda function: function


def _get_scalar_dtype(is_fused: bool | None = None) -> Dtype:
    """Return the dtype of step counts."""
    return float32 if is_fused or get_default_dtype() is not float64 else float64


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace complex tensors, in the lists, by views of their real and imaginary parts."""
    for place, param in enumerate(params):
        if param.is_complex():
            for listed in (params, *state_and_grads):
                listed[place] = view_as_real(listed[place])


def _default_to_fused_or_foreach(params: list[Any], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return (fused, foreach) to use if neither was specified."""
    if differentiable:
        return False, False
    fused = use_fused and all(param is None or param.is_floating_point() for param in params)
    return fused, False


def _device_dtype_check_for_fused(p: Any, cuda_unsupported: bool = False) -> None:
    devices = [device for device in _FUSED if not (cuda_unsupported and device == "cuda")]
    if not (p.device.type in devices and p.is_floating_point()):
        raise RuntimeError(
            f"`fused=True` requires all the params to be floating point Tensors of supported devices: {devices}, not "
            f"{p.dtype} and {p.device.type}"
        )


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return list(CAPTURABLE if supports_xla else CAPTURABLE_FOREACH)


def _get_foreach_kernels_supported_devices() -> list[str]:
    return list(_FOREACH)


def _get_fused_kernels_supported_devices() -> list[str]:
    return list(_FUSED)


def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Group lists of tensors by the first list: {(device, dtype): (the lists at these positions, the positions)}."""
    groups: dict[Any, Any] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist):
            part.append(whole[place])
        if with_indices:
            places.append(place)
    return groups
