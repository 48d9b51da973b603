"""From indices to a batch."""

from __future__ import annotations

import itertools
from typing import Any


class _BaseDatasetFetcher:
    """The base of the objects that fetch batches for a DataLoader and its workers."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch at these indices, or the sample at this one. To be overridden."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Fetches the samples at given indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch at these indices, or the sample at this one."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes the next samples of a stream."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return as many samples as there are indices; raise StopIteration at the end of the stream."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        count = len(possibly_batched_index)
        samples = list(itertools.islice(self.dataset_iter, count))
        self.ended = len(samples) < count
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(samples)


def create_fetcher(is_iterable: bool, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
    """Return the fetcher that a dataset needs."""
    kind = _IterableDatasetFetcher if is_iterable else _MapDatasetFetcher
    return kind(dataset, auto_collation, collate_fn, drop_last)
