"""Samplers: the order in which the samples of a dataset are visited."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from undertow._src.random.generators import Generator, stream_of
from undertow._src.tensor.from_data import as_tensor
from undertow._src.types.dtypes import float64

T_co = TypeVar("T_co", covariant=True)

_DRAWN_AT_ONCE = 32  # the number of indices that PyTorch draws at a time with replacement


class Sampler(Generic[T_co]):
    """Base of all samplers. Subclasses write `__iter__`, which yields indices, and often `__len__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All samples in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Samples at random: every one once, unless `replacement` lets them repeat."""

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.data_source, self.generator = data_source, generator
        self.replacement, self._num_samples = replacement, num_samples
        _check_flag("replacement", replacement, TypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """Return the number of samples; the dataset's length may change between epochs."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        length = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(random_seed(None))
        stream = generator.stream
        if self.replacement:
            whole, rest = divmod(self.num_samples, _DRAWN_AT_ONCE)
            for count in itertools.chain(itertools.repeat(_DRAWN_AT_ONCE, whole), (rest,)):
                yield from stream.integers(count, 0, length).tolist()
        else:
            whole, rest = divmod(self.num_samples, length)
            for _ in range(whole):
                yield from stream.permutation(length).tolist()
            yield from stream.permutation(length).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


def random_seed(generator: Generator | None) -> int:
    """Return a seed drawn as PyTorch draws it: one integer of 63 bits."""
    return int(stream_of(generator).integers(1)[0])


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value is True or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_flag(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


class SubsetRandomSampler(Sampler[int]):
    """Yields the given indices in random order, each once."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for position in stream_of(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with these probabilities, which need not sum to one."""

    weights: Any

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        _check_count("num_samples", num_samples)
        _check_flag("replacement", replacement)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {(*self.weights.shape,)}")

    def __iter__(self) -> Iterator[int]:
        drawn = stream_of(self.generator).multinomial(self.weights._array, self.num_samples, self.replacement)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_flag("drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        total = len(self.sampler)  # type: ignore[arg-type]
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)
