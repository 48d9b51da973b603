"""Weights of convolutions laid out in another memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from undertow.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    from undertow.nn.modules.module import Module

M = TypeVar("M", bound="Module")

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, memory_format: Any, kinds: Any) -> Any:
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lays out the weights of a module's two-dimensional convolutions in a format, and returns the module."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lays out the weights of a module's three-dimensional convolutions in a format, and returns the module."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
