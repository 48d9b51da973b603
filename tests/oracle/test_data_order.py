"""The order of samples: shuffles, splits and draws are torch's for the same seed, and take as much from the generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import Log, agree, agree_error

Run = Callable[[Any, Any], Any]


def numbers(torch: Any, count: int = 10) -> Any:
    return torch.utils.data.TensorDataset(torch.arange(count))


def batches(loader: Any) -> list[Any]:
    return [batch[0].tolist() for batch in loader]


def _generator(torch: Any, seed: int = 5) -> Any:
    return torch.Generator().manual_seed(seed)


ORDERS: dict[str, Run] = {
    "in sequence": lambda torch, data: batches(data.DataLoader(numbers(torch), 3)),
    "shuffled": lambda torch, data: batches(data.DataLoader(numbers(torch), 3, shuffle=True)),
    "shuffled, last dropped": lambda torch, data: batches(data.DataLoader(numbers(torch), 3, True, drop_last=True)),
    "shuffled singly": lambda torch, data: batches(data.DataLoader(numbers(torch), None, shuffle=True)),
    "two epochs": lambda torch, data: [batches(loader) for loader in [data.DataLoader(numbers(torch), 4, True)] * 2],
    "from a generator": lambda torch, data: [
        batches(loader) for loader in [data.DataLoader(numbers(torch), 4, True, generator=_generator(torch))] * 2
    ],
    "many": lambda torch, data: batches(data.DataLoader(numbers(torch, 1000), 256, True)),
    "an iterator alone": lambda torch, data: len(iter(data.DataLoader(numbers(torch), 3, shuffle=True))),
    "random": lambda torch, data: list(data.RandomSampler(numbers(torch))),
    "random, more than there are": lambda torch, data: list(data.RandomSampler(numbers(torch), num_samples=25)),
    "random, fewer": lambda torch, data: list(data.RandomSampler(numbers(torch), num_samples=4)),
    "with replacement": lambda torch, data: list(data.RandomSampler(numbers(torch), replacement=True, num_samples=70)),
    "with replacement, a generator": lambda torch, data: list(
        data.RandomSampler(numbers(torch), True, 5, generator=_generator(torch))
    ),
    "a subset": lambda torch, data: list(data.SubsetRandomSampler([3, 5, 8, 9, 100])),
    "weighted": lambda torch, data: list(data.WeightedRandomSampler([0.1, 0.2, 0.7], 9)),
    "weighted, each once": lambda torch, data: list(data.WeightedRandomSampler([0.1, 0.2, 0.7], 2, replacement=False)),
    "split": lambda torch, data: [part.indices for part in data.random_split(numbers(torch), [3, 3, 4])],
    "split by fractions": lambda torch, data: [
        part.indices for part in data.random_split(range(10), [0.33, 0.33, 0.34], generator=_generator(torch))
    ],
    "distributed": lambda torch, data: [list(data.DistributedSampler(numbers(torch), 3, rank)) for rank in range(3)],
    "distributed, dropped": lambda torch, data: [
        list(data.DistributedSampler(numbers(torch), 3, rank, shuffle=False, drop_last=True)) for rank in range(3)
    ],
    "distributed, few": lambda torch, data: list(data.DistributedSampler(range(2), 7, 6)),
    "a sampler given": lambda torch, data: batches(
        data.DataLoader(numbers(torch), 2, sampler=data.SubsetRandomSampler(range(5)))
    ),
    "batches given": lambda torch, data: batches(
        data.DataLoader(numbers(torch), batch_sampler=[[1, 2], [0], [9, 8, 7]])
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_order(name: str) -> None:
    def program(torch: Any) -> Any:
        torch.manual_seed(123)
        order = ORDERS[name](torch, torch.utils.data)
        return order, torch.randint(0, 2**31, (3,)).tolist()  # what follows shows how much was drawn

    agree(program, raises=False)


def test_a_second_epoch_of_a_distributed_sampler_differs() -> None:
    def program(torch: Any, log: Log) -> Any:
        sampler = torch.utils.data.DistributedSampler(range(20), 2, 0, seed=3)
        log(list(sampler), len(sampler))
        sampler.set_epoch(1)
        return list(sampler)

    agree(program, raises=False)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_keep_the_order(workers: int, persistent: bool) -> None:
    def program(torch: Any, log: Log) -> Any:
        loader = torch.utils.data.DataLoader(
            numbers(torch, 23), 3, shuffle=True, num_workers=workers, persistent_workers=persistent, prefetch_factor=3
        )
        log(batches(loader))
        first = next(iter(loader))[0].tolist()  # an iteration that is left early
        log(first)
        log(batches(loader))
        return torch.rand(2)

    agree(program, raises=False)


class Seeds:
    """Samples that tell what a worker draws."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        import random

        info = self.torch.utils.data.get_worker_info()
        drawn = (random.random(), np.random.rand(), self.torch.rand(2).tolist(), self.torch.initial_seed())
        return index, info.id, info.num_workers, info.seed, drawn, self.torch.get_num_threads()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_draw_the_same_numbers(workers: int) -> None:
    def program(torch: Any, log: Log) -> Any:
        log(torch.utils.data.get_worker_info())
        loader = torch.utils.data.DataLoader(Seeds(torch), 1, num_workers=workers, collate_fn=lambda batch: batch[0])
        return list(loader)

    agree(program, raises=False)


def _stream(torch: Any) -> Any:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            info = torch.utils.data.get_worker_info()
            number = 0 if info is None else info.id
            return iter([number * 10 + step for step in range((4, 5, 1)[number])])

        def __len__(self) -> int:
            return 4

    return Stream()


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [(2, False), (2, True), (None, False), (3, False)], ids=str)
def test_streams(workers: int, options: tuple[Any, bool]) -> None:
    def program(torch: Any, log: Log) -> Any:
        size, drop = options
        loader = torch.utils.data.DataLoader(_stream(torch), size, num_workers=workers, drop_last=drop)
        log(len(loader))
        log([batch.tolist() if size else batch for batch in loader])
        return [batch.tolist() if size else batch for batch in loader]

    agree(program, raises=False, warns=True, words=4)


def test_persistent_streams() -> None:
    def program(torch: Any, log: Log) -> Any:
        loader = torch.utils.data.DataLoader(_stream(torch), 2, num_workers=2, persistent_workers=True)
        log([batch.tolist() for batch in loader])
        log(next(iter(loader)).tolist())
        return [batch.tolist() for batch in loader]

    agree(program, raises=False)


REFUSED: dict[str, Run] = {
    "negative workers": lambda torch, data: data.DataLoader([1], num_workers=-1),
    "a negative timeout": lambda torch, data: data.DataLoader([1], timeout=-1),
    "prefetch without workers": lambda torch, data: data.DataLoader([1], prefetch_factor=2),
    "negative prefetch": lambda torch, data: data.DataLoader([1], num_workers=1, prefetch_factor=-1),
    "persistent without workers": lambda torch, data: data.DataLoader([1], persistent_workers=True),
    "a shuffled stream": lambda torch, data: data.DataLoader(_stream(torch), shuffle=True),
    "a sampled stream": lambda torch, data: data.DataLoader(_stream(torch), sampler=[1]),
    "a batch-sampled stream": lambda torch, data: data.DataLoader(_stream(torch), batch_sampler=[[1]]),
    "sampler and shuffle": lambda torch, data: data.DataLoader([1], sampler=[0], shuffle=True),
    "two batch sizes": lambda torch, data: data.DataLoader([1], batch_sampler=[[0]], batch_size=2),
    "batches and shuffle": lambda torch, data: data.DataLoader([1], batch_sampler=[[0]], shuffle=True),
    "batches and drop_last": lambda torch, data: data.DataLoader([1], batch_sampler=[[0]], drop_last=True),
    "drop_last without batches": lambda torch, data: data.DataLoader([1], batch_size=None, drop_last=True),
    "no batch": lambda torch, data: data.DataLoader([1], batch_size=0),
    "part of a batch": lambda torch, data: data.DataLoader([1], batch_size=1.5),
    "nothing to shuffle": lambda torch, data: data.DataLoader([], shuffle=True),
    "a later batch size": lambda torch, data: setattr(data.DataLoader([1]), "batch_size", 2),
    "a later dataset": lambda torch, data: setattr(data.DataLoader([1]), "dataset", []),
    "a later sampler": lambda torch, data: setattr(data.DataLoader([1]), "sampler", []),
    "a context without workers": lambda torch, data: data.DataLoader([1], multiprocessing_context="fork"),
    "an unknown context": lambda torch, data: data.DataLoader([1], num_workers=1, multiprocessing_context="bogus"),
    "no context": lambda torch, data: data.DataLoader([1], num_workers=1, multiprocessing_context=3),
    "a stream without length": lambda torch, data: len(data.DataLoader(_endless(torch))),
    "replacement": lambda torch, data: data.RandomSampler([1], replacement=3),
    "no samples": lambda torch, data: data.RandomSampler([1], num_samples=0),
    "half a sample": lambda torch, data: data.RandomSampler([1], num_samples=1.5),
    "no weighted samples": lambda torch, data: data.WeightedRandomSampler([1.0], 0),
    "weighted replacement": lambda torch, data: data.WeightedRandomSampler([1.0], 1, replacement=3),
    "a matrix of weights": lambda torch, data: data.WeightedRandomSampler([[1.0]], 1),
    "negative weights": lambda torch, data: list(data.WeightedRandomSampler([1.0, -1.0], 1)),
    "batches of nothing": lambda torch, data: data.BatchSampler([1], 0, False),
    "drop_last of another type": lambda torch, data: data.BatchSampler([1], 1, 3),
    "a rank too high": lambda torch, data: data.DistributedSampler([1], 3, 5),
    "no processes": lambda torch, data: data.DistributedSampler([1]),
    "a sampler that yields nothing": lambda torch, data: iter(data.Sampler()),
    "a split too long": lambda torch, data: data.random_split([1, 2], [1, 3]),
    "a negative fraction": lambda torch, data: data.random_split([1, 2], [-0.5, 1.5]),
    "rows of other length": lambda torch, data: data.TensorDataset(torch.ones(2), torch.ones(3)),
    "no datasets to join": lambda torch, data: data.ConcatDataset([]),
    "joined streams": lambda torch, data: data.ConcatDataset([_stream(torch)]),
    "before the first": lambda torch, data: data.ConcatDataset([[1]])[-2],
    "after the last": lambda torch, data: data.ConcatDataset([[1]])[1],
    "stacks of other length": lambda torch, data: data.StackDataset([1], [1, 2]),
    "an empty stack": lambda torch, data: data.StackDataset(),
    "a mixed stack": lambda torch, data: data.StackDataset([1], a=[1]),
    "chained lists": lambda torch, data: list(data.ChainDataset([[1]])),
    "a dataset without items": lambda torch, data: data.Dataset()[0],
    "a dataset without length": lambda torch, data: len(data.Dataset()),
    "a stream without samples": lambda torch, data: data.IterableDataset(),
}


def _endless(torch: Any) -> Any:
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(10**9))

    return Endless()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    agree_error(lambda torch: REFUSED[name](torch, torch.utils.data), words=12)


WARNED: dict[str, Run] = {
    "pinned": lambda torch, data: batches(data.DataLoader(numbers(torch), 4, pin_memory=True)),
    "many workers": lambda torch, data: data.DataLoader([1], num_workers=200).num_workers,
    "an empty part": lambda torch, data: [len(part) for part in data.random_split([1, 2], [0.5, 0.5, 0.0])],
}


@pytest.mark.parametrize("name", WARNED)
def test_warned(name: str) -> None:
    agree(lambda torch: WARNED[name](torch, torch.utils.data), warns=True, raises=False, words=10)
