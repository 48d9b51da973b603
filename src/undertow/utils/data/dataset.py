"""Datasets: something with an index (`Dataset`) or something to iterate over (`IterableDataset`), and combinations."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar
from typing import Iterable as TypingIterable  # noqa: UP035  its metaclass lets IterableDataset[int] be written

from undertow._src.base.sites import warn
from undertow._src.random.generators import Generator, stream_of

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A map from keys to samples. Subclasses write `__getitem__`, and usually `__len__`.

    `__getitems__(keys)`, if a subclass has it, fetches a whole batch at once.
    """

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], TypingIterable[T_co]):
    """A stream of samples. Subclasses write `__iter__`.

    Every worker process iterates over its own copy: divide the work by `get_worker_info()`.
    """

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[Any]):
    """Rows of tensors: sample i is a tuple of the i-th row of each.

    >>> list(TensorDataset(torch.arange(3), torch.arange(3) * 10))[1]
    (tensor(1), tensor(10))
    """

    def __init__(self, *tensors: Any) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[T_co]):
    """Several datasets side by side: sample i is a tuple (or a dict, by keyword) of theirs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "are given at once."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = kwargs or args
        members = list(kwargs.values()) or list(args)
        self._length = len(members[0])
        if any(len(member) != self._length for member in members):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: member[index] for name, member in self.datasets.items()}
        return tuple([member[index] for member in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return a batch; members with `__getitems__` are called once."""
        if isinstance(self.datasets, dict):
            columns = [_items(member, indices) for member in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*[_items(member, indices) for member in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _items(member: Any, indices: list[Any]) -> list[Any]:
    if not callable(getattr(member, "__getitems__", None)):
        return [member[index] for index in indices]
    items = member.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
    return items


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the cumulative lengths of the datasets."""
        return list(accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][index - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Return `cumulative_sizes` (a deprecated spelling)."""
        warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            self._check(dataset)
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            self._check(dataset)
            total += len(dataset)
        return total

    @staticmethod
    def _check(dataset: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[T_co]):
    """The samples of a dataset at these indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return a batch, with one call if the dataset has `__getitems__`."""
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__([self.indices[index] for index in indices])
        return [self.dataset[self.indices[index]] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset]:
    """Split a dataset at random into parts of these lengths, or of these fractions of its length."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = stream_of(generator).permutation(int(sum(lengths))).tolist()
    ends = list(accumulate(int(length) for length in lengths))
    return [Subset(dataset, indices[end - int(length) : end]) for end, length in zip(ends, lengths, strict=True)]


def _lengths_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    """Return the lengths rounded down, with the remainder distributed over the parts in turn."""
    lengths = []
    for position, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {position} is not between 0 and 1")
        lengths.append(math.floor(total * fraction))
    for extra in range(total - sum(lengths)):
        lengths[extra % len(lengths)] += 1
    for position, length in enumerate(lengths):
        if length == 0:
            warn(f"Length of split at index {position} is 0. This might result in an empty dataset.")
    return lengths
