"""A backward pass for many gradients at once, as hooks and custom Functions see it: one gradient, as in a vmap."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.batched.array import BatchedArray
from undertow._src.arrays.batched.namespace import BatchedNamespace
from undertow.func._rules_random import random
from undertow.func._vmapping import LevelMode, MappedLevel, open_levels


class BackwardLevel(MappedLevel):
    """A vmap whose examples are the gradients of a batched backward pass.

    `is_legacy`: raise the errors of the older vmap, which PyTorch uses for `is_grads_batched`.
    """

    __slots__ = ("is_legacy", "mode", "xp")

    def __init__(self, xp: BatchedNamespace, is_legacy: bool) -> None:
        super().__init__(len(open_levels()) + 1, xp.size, "error")
        self.xp, self.is_legacy = xp, is_legacy
        self.mode = LevelMode(self, random)

    def end(self) -> None:
        """End the vmap at the end of the pass."""
        self.mode.__exit__(None, None, None)

    def carried(self, value: Any) -> BatchedArray:
        """Return the tensor of all gradients as the `BatchedArray` that the pass uses."""
        return BatchedArray(value if self.xp.RECORDED else value._array, self.xp)


def begin(xp: BatchedNamespace, is_legacy: bool) -> BackwardLevel:
    """Begin the vmap of a pass."""
    level = BackwardLevel(xp, is_legacy)
    level.mode.__enter__()
    return level
