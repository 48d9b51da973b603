"""Tools for parameters and gradients: clipping, conversion, parametrizations, pruning, packed sequences."""

import sys
from types import ModuleType

from undertow._src.base.lazy import lazy_names

_NAMES = {
    "clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    "convert_parameters": "parameters_to_vector vector_to_parameters",
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "spectral_norm": "remove_spectral_norm spectral_norm",
    "weight_norm": "remove_weight_norm weight_norm",
}
_FILES = (
    "_named_member_accessor clip_grad convert_parameters fusion init memory_format parametrizations parametrize prune rnn "
    "stateless"
).split()
_HOMES = {name: f"undertow.nn.utils.{file}:{name}" for file, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES | {file: f"undertow.nn.utils.{file}" for file in _FILES})


class _FunctionsFirst(ModuleType):
    """Keeps `spectral_norm` and `weight_norm` functions: importing the files of those names must not replace them."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("spectral_norm", "weight_norm") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FunctionsFirst
