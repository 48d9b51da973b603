"""From indices to a batch."""

from __future__ import annotations

import itertools
from typing import Any


class MapFetcher:
    """Asks a dataset for the samples at some indices."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        """The batch at these indices, or the sample at this one."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(index))
        return self.collate_fn([self.dataset[i] for i in index])


class IterableFetcher:
    """Takes the next samples of a stream."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.stream = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """As many samples as there are indices; StopIteration at the end of the stream."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.stream))
        samples = list(itertools.islice(self.stream, len(index)))
        self.ended = len(samples) < len(index)
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(samples)


def create_fetcher(is_iterable: bool, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
    """The fetcher that a dataset needs."""
    kind = IterableFetcher if is_iterable else MapFetcher
    return kind(dataset, auto_collation, collate_fn, drop_last)
