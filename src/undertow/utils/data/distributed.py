"""The sampler that gives every process of a distributed run its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from undertow._src.distributed.state import default_group
from undertow._src.random.generators import Generator
from undertow.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, beginning with the `rank`-th, of the same shuffle in every process.

    Call `set_epoch` before each epoch, or all epochs have the same order.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None:
            num_replicas = default_group().size()
        if rank is None:
            rank = default_group().rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch = 0
        self.drop_last, self.shuffle, self.seed = drop_last, shuffle, seed
        length = len(dataset)
        self.num_samples = length // num_replicas if drop_last else math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        length = len(self.dataset)
        if self.shuffle:
            indices = Generator().manual_seed(self.seed + self.epoch).stream.permutation(length).tolist()
        else:
            indices = list(range(length))
        # If the indices cannot be divided evenly, some are repeated or the last ones dropped.
        missing = self.total_size - length
        if missing > 0:
            indices += (indices * math.ceil(missing / max(length, 1)))[:missing]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration use a different order, the same in all processes."""
        self.epoch = epoch
