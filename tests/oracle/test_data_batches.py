"""How samples become batches, and datasets made of datasets."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import Log, agree

Pair = collections.namedtuple("Pair", "x y")

COLLATED: dict[str, Callable[[Any], Any]] = {
    "integers": lambda torch: [1, 2],
    "floats": lambda torch: [1.5, 2.5],
    "booleans": lambda torch: [True, False],
    "text": lambda torch: ["a", "b"],
    "bytes": lambda torch: [b"a", b"b"],
    "mixed numbers": lambda torch: [1, 2.5],
    "NumPy numbers": lambda torch: [np.float32(1), np.float32(2)],
    "NumPy booleans": lambda torch: [np.bool_(True)],
    "NumPy arrays": lambda torch: [np.ones(2), np.zeros(2)],
    "no dimensions": lambda torch: [np.array(1), np.array(2)],
    "tensors": lambda torch: [torch.ones(2), torch.zeros(2)],
    "tensors that want gradients": lambda torch: [torch.ones(2, requires_grad=True)] * 2,
    "an array and a tensor": lambda torch: [np.array([1]), torch.ones(1)],
    "tuples": lambda torch: [(1, 2.0), (3, 4.0)],
    "lists": lambda torch: [[1, 2], [3, 4]],
    "ranges": lambda torch: [range(2), range(2)],
    "named tuples": lambda torch: [Pair(1, 2), Pair(3, 4)],
    "dicts": lambda torch: [{"a": 1, "b": [2.0]}, {"a": 3, "b": [4.0]}],
    "ordered dicts": lambda torch: [collections.OrderedDict(a=1)],
    "nests": lambda torch: [{"a": (torch.ones(1), "x")}, {"a": (torch.zeros(1), "y")}],
    "nothing": lambda torch: [],
    "None": lambda torch: [None, 1],
    "objects": lambda torch: [object()],
    "complex numbers": lambda torch: [1j],
    "text in arrays": lambda torch: [np.array("a"), np.array("b")],
    "lists of other length": lambda torch: [[1], [1, 2]],
    "other keys": lambda torch: [{1: 2}, {3: 4}],
    "other shapes": lambda torch: [torch.ones(2), torch.ones(3)],
    "huge": lambda torch: [10**20],
}


@pytest.mark.parametrize("name", COLLATED)
def test_collate(name: str) -> None:
    agree(lambda torch: torch.utils.data.default_collate(COLLATED[name](torch)))


CONVERTED: dict[str, Any] = {
    "a number": 1,
    "text": "a",
    "an array": np.ones(2),
    "a NumPy number": np.float32(1),
    "a NumPy text": np.str_("a"),
    "an array of text": np.array("a"),
    "a dict": {"a": np.ones(1), "b": [np.zeros(2)]},
    "a tuple": (np.ones(1), 2),
    "a named tuple": Pair(np.ones(1), 2),
    "nothing": None,
    "complex": np.array([1 + 1j]),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_convert(name: str) -> None:
    agree(lambda torch: torch.utils.data.default_convert(CONVERTED[name]))


def test_a_map_of_collate_functions() -> None:
    def program(torch: Any) -> Any:
        from_map = torch.utils.data._utils.collate.default_collate_fn_map
        collate = torch.utils.data._utils.collate.collate
        functions = {**from_map, complex: lambda batch, *, collate_fn_map=None: len(batch)}
        return collate([{"z": 1j, "n": 1}, {"z": 2j, "n": 2}], collate_fn_map=functions)

    agree(program, raises=False)


DATASETS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda torch, data: [data.TensorDataset(torch.arange(4), torch.ones(4, 2))[1:3], len(_rows(torch))],
    "a subset": lambda torch, data: [data.Subset(_rows(torch), [3, 1])[0], data.Subset(_rows(torch), [3, 1])[[0, 1]]],
    "items of a subset": lambda torch, data: data.Subset(_rows(torch), [3, 1]).__getitems__([1, 0]),
    "joined": lambda torch, data: [data.ConcatDataset([[1, 2], [3]])[i] for i in (0, 1, 2, -1, -3)],
    "sizes of joined": lambda torch, data: data.ConcatDataset([[1, 2], [3], []]).cumulative_sizes,
    "added": lambda torch, data: list(_rows(torch) + _rows(torch))[-1],
    "stacked": lambda torch, data: [data.StackDataset([1, 2], "ab")[1], len(data.StackDataset([1, 2], "ab"))],
    "stacked by name": lambda torch, data: data.StackDataset(n=[1, 2], t="ab")[0],
    "items of a stack": lambda torch, data: data.StackDataset([1, 2], _rows(torch, 2)).__getitems__([1, 0]),
    "items of a named stack": lambda torch, data: data.StackDataset(n=[1, 2], t="ab").__getitems__([1, 0]),
    "types": lambda torch, data: [str(data.Dataset[int]), str(data.DataLoader[int]), str(data.Sampler[int])],
    "lengths": lambda torch, data: [
        len(data.DataLoader(range(10), 3)),
        len(data.DataLoader(range(10), 3, drop_last=True)),
        len(data.DataLoader(range(10), None)),
        len(data.BatchSampler(range(5), 2, True)),
        len(data.SequentialSampler(range(4))),
    ],
    "batches of dicts": lambda torch, data: list(data.DataLoader([{"x": i, "y": [i]} for i in range(3)], 2)),
    "samples as they are": lambda torch, data: list(data.DataLoader([np.ones(2), 5, "x"], None)),
    "own collation": lambda torch, data: list(data.DataLoader(range(5), 2, collate_fn=sum)),
    "several at once": lambda torch, data: list(data.DataLoader(AtOnce(), 2)),
    "attributes": lambda torch, data: _attributes(data.DataLoader([1, 2], 2, shuffle=True)),
}


class AtOnce:
    """A dataset that answers for whole batches."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        raise AssertionError("asked one by one")

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [index * 10 for index in indices]


def _rows(torch: Any, count: int = 4) -> Any:
    return torch.utils.data.TensorDataset(torch.arange(count))


def _attributes(loader: Any) -> Any:
    names = ("batch_size", "drop_last", "num_workers", "pin_memory", "timeout", "prefetch_factor", "in_order")
    kinds = [type(getattr(loader, name)).__name__ for name in ("sampler", "batch_sampler", "dataset")]
    return [getattr(loader, name) for name in names], kinds, loader.collate_fn.__name__, loader.persistent_workers


@pytest.mark.parametrize("name", DATASETS)
def test_datasets(name: str) -> None:
    agree(lambda torch: DATASETS[name](torch, torch.utils.data), raises=False)


def test_chains() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Two(torch.utils.data.IterableDataset):
            def __iter__(self) -> Any:
                return iter([1, 2])

            def __len__(self) -> int:
                return 2

        chain = Two() + Two()
        log(type(chain).__name__, len(chain))
        return list(chain)

    agree(program, raises=False)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "uint8", "int64"])
def test_dtypes_pass_through_workers(dtype: str, workers: int) -> None:
    def program(torch: Any, log: Log) -> Any:
        rows = torch.utils.data.TensorDataset(torch.arange(6).reshape(3, 2).to(getattr(torch, dtype)))
        first, *_ = loaded = list(torch.utils.data.DataLoader(rows, 2, num_workers=workers))
        first[0][0] = 1  # batches may be written to
        return loaded

    agree(program, raises=False)


def test_import_paths() -> None:
    def program(torch: Any) -> Any:
        data = torch.utils.data
        assert data.dataloader.DataLoader is data.DataLoader
        assert data.dataset.Dataset is data.Dataset
        assert data.sampler.Sampler is data.Sampler
        assert data.distributed.DistributedSampler is data.DistributedSampler
        assert data.dataloader.default_collate is data.default_collate
        assert data._utils.collate.default_collate is data.default_collate
        assert data._utils.worker.get_worker_info is data.get_worker_info
        return sorted(name for name in dir(data) if name.endswith(("Sampler", "Dataset", "Loader")))

    agree(program, raises=False)


def test_classes_that_say_what_their_samples_are() -> None:
    def program(torch: Any) -> Any:
        data = torch.utils.data
        classes = [
            data.Dataset,
            data.Subset,
            data.ConcatDataset,
            data.StackDataset,
            data.IterableDataset,
            data.DataLoader,
        ]
        return [len(each[int].__args__) for each in classes]

    agree(program)
