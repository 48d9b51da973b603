"""Weights in another memory format. Strides never change a value, so these only accept the request."""

from __future__ import annotations

from typing import Any, TypeVar

M = TypeVar("M")

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The module itself: undertow's convolutions choose the layout they work in."""
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The module itself: undertow's convolutions choose the layout they work in."""
    return module
