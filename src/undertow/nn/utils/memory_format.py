"""Converting the weights of convolutions to a memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from undertow.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    from undertow._src.types.layouts import memory_format as MemoryFormat
    from undertow.nn.modules.module import Module

M = TypeVar("M", bound="Module")

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, memory_format: MemoryFormat, kinds: Any) -> Any:
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: MemoryFormat) -> M:
    """Convert the weights of a module's 2D convolutions to a memory format, and return the module."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: MemoryFormat) -> M:
    """Convert the weights of a module's 3D convolutions to a memory format, and return the module."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
