"""DataLoader: a dataset as an iterable of batches, made in this process or in workers."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from undertow._src.base.sites import warn
from undertow._src.random.generators import Generator
from undertow.utils.data._utils.collate import default_collate, default_convert
from undertow.utils.data._utils.fetch import create_fetcher
from undertow.utils.data._utils.worker import get_worker_info as get_worker_info
from undertow.utils.data._utils.workers import Workers
from undertow.utils.data.dataset import Dataset as Dataset
from undertow.utils.data.dataset import IterableDataset
from undertow.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, random_seed

T_co = TypeVar("T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """An endless sampler for streams, which have no indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class _Indexed(Protocol[T_co]):
    """Anything that can be indexed, such as a list."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    batch_size        samples per batch; None yields the samples themselves
    shuffle           visit the samples at random, as PyTorch would for the same seed
    sampler           yields the indices in the order to use; `batch_sampler` yields lists of indices
    num_workers       how many processes make batches; 0 makes them in this one
    collate_fn        makes a batch of a list of samples; `default_collate` unless given
    drop_last         leave out a last batch that is not full
    timeout           seconds to wait for a worker; 0: no limit
    worker_init_fn    called with the worker's number in each new process
    generator         the random generator for shuffling and for the workers' seeds
    prefetch_factor   batches that each worker makes ahead, 2 unless given
    persistent_workers  keep the processes for the next iteration
    in_order          yield batches in order, even if a later one is ready first

    >>> data = torch.utils.data.TensorDataset(torch.arange(5))
    >>> [batch[0].tolist() for batch in DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    dataset: Any
    sampler: Any
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None = None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co] | _Indexed[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.in_order = in_order
        is_iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_iterable else _DatasetKind.Map
        if is_iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            if is_iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = (
                    RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)
                )
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler = batch_size, drop_last, sampler
        self.batch_sampler, self.generator = batch_sampler, generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        _warn_of_many_workers(num_workers)

    @property
    def multiprocessing_context(self) -> Any:
        """Return the multiprocessing context that starts the workers."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            context = _context(context)
        self.__multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or not self.num_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        kind = _MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter
        return kind(self)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # The dataset's reported length, to warn if it yields more.
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


# --- checks, in PyTorch's order and with its messages


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to have workers, "
            "or leave it out."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_sampling(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _context(given: Any) -> Any:
    if isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            f"multiprocessing_context option should be a valid context object or a string specifying one, not {given}"
        )
    return given


def _warn_of_many_workers(num_workers: int) -> None:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    if num_workers > cores:
        warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"processes here is {cores}, one for each core: more wait for each other. Lower num_workers."
        )


# --- iterators


class _BaseDataLoaderIter:
    """One iteration over a loader's batches."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        # Not the loader itself, which may hold this iterator: the workers must end with the last reference.
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._num_workers = loader.num_workers
        self._index_sampler = loader._index_sampler
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = random_seed(loader.generator)
        self._num_yielded = 0
        if loader.pin_memory:
            warn("'pin_memory' argument is set as true but no accelerator is found; memory is not pinned.")

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: DataLoader[Any]) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        told = self._IterableDataset_len_called
        if self._dataset_kind == _DatasetKind.Iterable and told is not None and self._num_yielded > told:
            hint = ""
            if self._num_workers:
                hint = "Every worker iterates over the whole dataset unless it looks at get_worker_info(). "
            warn(
                f"Length of IterableDataset {self._dataset} was reported to be {told}(by len(dataloader)), "
                f"but {self._num_yielded} samples came. {hint}"
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Makes each batch when it is requested."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if loader.timeout:
            raise AssertionError(f"{type(self).__name__} requires timeout == 0. Only worker processes can be late.")
        is_iterable = loader._dataset_kind == _DatasetKind.Iterable
        self._fetcher = create_fetcher(
            is_iterable, loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Gets batches from worker processes, which make a few in advance."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._workers_team = Workers(loader, self._base_seed)
        self._workers_team.begin(self._sampler_iter)

    @property
    def _workers(self) -> list[Any]:
        return self._workers_team.processes

    def _reset(self, loader: DataLoader[Any]) -> None:
        super()._reset(loader)
        self._workers_team.begin(self._sampler_iter)

    def _next_data(self) -> Any:
        return self._workers_team.next_batch()

    def _shutdown_workers(self) -> None:
        self._workers_team.stop()

    def __del__(self) -> None:
        team = getattr(self, "_workers_team", None)
        if team is not None:
            team.stop()
