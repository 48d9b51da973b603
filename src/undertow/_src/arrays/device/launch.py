"""The launches of PyTorch's random kernels on a GPU: how many threads draw, and how far the generator's offset moves."""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 256  # threads per block
WORDS = 4  # numbers from one call of Philox


class Gpu(NamedTuple):
    """What a launch depends on: the multiprocessors of a GPU, and how many threads each can have resident."""

    processors: int
    threads: int


def threads_for(n: int, gpu: Gpu) -> int:
    """Return how many threads PyTorch launches for `n` elements."""
    return min(-(-n // BLOCK), gpu.processors * (gpu.threads // BLOCK)) * BLOCK


def advance_of(n: int, lanes: int, gpu: Gpu) -> int:
    """Return by how much the offset moves when `n` elements are drawn, of which a call of Philox gives `lanes`."""
    return -(-n // (threads_for(n, gpu) * lanes)) * WORDS
