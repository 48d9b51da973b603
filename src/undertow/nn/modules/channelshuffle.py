"""ChannelShuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow.nn import functional as F
from undertow.nn.modules.module import Module

if TYPE_CHECKING:
    from undertow._tensor import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleaves the channels of as many groups."""

    __constants__ = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
