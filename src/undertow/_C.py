"""The few names of PyTorch's compiled core that ordinary code reaches for."""

from __future__ import annotations

from undertow._core import TensorCore as TensorBase
from undertow._tensor import _TensorMeta as _TensorMeta
from undertow.devices import device as device
from undertow.dtypes import dtype as dtype
from undertow.errors import _LinAlgError as _LinAlgError
from undertow.generators import Generator as Generator
from undertow.layouts import layout as layout
from undertow.layouts import memory_format as memory_format
from undertow.modes import is_grad_enabled as is_grad_enabled
from undertow.overrides import DisableTorchFunction as DisableTorchFunction
from undertow.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from undertow.overrides import disabled as _disabled_torch_function_impl
from undertow.overrides import has_torch_function as _has_torch_function
from undertow.overrides import has_torch_function_unary as _has_torch_function_unary
from undertow.overrides import has_torch_function_variadic as _has_torch_function_variadic
from undertow.sizes import Size as Size


def _log_api_usage_once(event: str) -> None:
    """Counts the use of a feature: nobody counts."""


__all__ = [
    "_log_api_usage_once",
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size", "TensorBase", "_TensorMeta",
    "_disabled_torch_function_impl", "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic",
    "device", "dtype", "is_grad_enabled", "layout", "memory_format",
]  # fmt: skip
