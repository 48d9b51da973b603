"""Worker processes that fail, die, hang or are interrupted: a clear error, and no process is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from undertow.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from undertow.utils.data._utils import worker as worker_side

SOURCE = Path(torch.__file__).parent.parent


class Failing(Dataset[Any]):
    """Four samples, the third of which does something bad."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.act() if index == 2 else index


def raising(error: BaseException) -> Any:
    def act() -> None:
        raise error

    return act


class Awkward(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ValueError("bad sample"), ValueError, "Caught ValueError in DataLoader worker process 0."),
        (KeyError("missing"), KeyError, "Caught KeyError in DataLoader worker process 0."),
        (Awkward(1, 2), RuntimeError, "Caught Awkward in DataLoader worker process 0."),
        (IndexError("beyond"), IndexError, "Caught IndexError in DataLoader worker process 0."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_exception_brings_its_traceback(error: Exception, kind: type[Exception], words: str) -> None:
    loader = DataLoader(Failing(raising(error)), num_workers=1)
    seen = []
    with pytest.raises(kind) as caught:
        for batch in loader:
            seen.append(batch.item())
    assert seen == [0, 1]
    assert str(caught.value).startswith(words)
    assert "Original Traceback (most recent call last):" in str(caught.value)
    assert "test_data_workers.py" in str(caught.value) and "raise error" in str(caught.value)


def test_after_an_exception_the_rest_can_be_had() -> None:
    batches = iter(DataLoader(Failing(raising(ValueError("bad"))), num_workers=2))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(ValueError, match="bad"):
        next(batches)
    assert next(batches).item() == 3
    with pytest.raises(StopIteration):
        next(batches)


def test_a_worker_that_cannot_begin() -> None:
    def init(number: int) -> None:
        if number == 1:
            raise ValueError("no good")

    batches = iter(DataLoader([0, 1, 2], num_workers=2, worker_init_fn=init))
    assert next(batches).item() == 0
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 1"):
        next(batches)


def test_a_sample_that_cannot_be_pickled() -> None:
    loader = DataLoader(Failing(lambda: lambda: 1), num_workers=1, collate_fn=list)
    with pytest.raises(AttributeError, match="local object"):
        list(loader)


def test_an_iterator_that_is_garbage_in_a_cycle_stops_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    batches: Any = iter(DataLoader(Failing(int), num_workers=1))
    processes = batches._workers
    batches._workers_team.of = batches
    del batches
    gc.collect()
    assert [process.is_alive() for process in processes] == [False]
    assert lost == []


@pytest.mark.parametrize("death", ["exit", "kill"])
def test_a_dead_worker_is_named(death: str) -> None:
    act = (lambda: os._exit(7)) if death == "exit" else (lambda: os.kill(os.getpid(), signal.SIGKILL))
    iterator: Any = iter(DataLoader(Failing(act), num_workers=2))
    pids = [process.pid for process in iterator._workers]
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(iterator)
    assert time.monotonic() - start < 4
    assert str(pids[0]) in str(caught.value)
    assert ("7" if death == "exit" else "-9") in str(caught.value)
    assert not any(alive(pid) for pid in pids)


def test_a_timeout() -> None:
    loader = DataLoader(Failing(lambda: time.sleep(60)), num_workers=1, timeout=0.5)
    iterator: Any = iter(loader)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.5 seconds"):
        list(iterator)
    assert not any(alive(process.pid) for process in iterator._workers)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do not stop are killed after half a second, so that these tests are quick."""
    from undertow.utils.data._utils import workers

    monkeypatch.setattr(workers, "MP_STATUS_CHECK_INTERVAL", 0.5)
    monkeypatch.setattr(worker_side, "MP_STATUS_CHECK_INTERVAL", 0.5)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def gone(pids: list[int], within: float) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_an_iterator_left_early_ends_its_workers() -> None:
    iterator: Any = iter(DataLoader(range(1000), num_workers=2))
    pids = [process.pid for process in iterator._workers]
    next(iterator)
    del iterator
    assert gone(pids, within=2)


def test_a_finished_iterator_has_no_workers() -> None:
    iterator: Any = iter(DataLoader(range(5), num_workers=2))
    list(iterator)
    assert not any(alive(process.pid) for process in iterator._workers)


def test_persistent_workers_are_the_same_processes() -> None:
    loader = DataLoader(range(5), num_workers=2, persistent_workers=True, collate_fn=lambda batch: os.getpid())
    first, second = set(loader), set(loader)
    assert first == second and len(first) == 2
    del loader
    assert gone(list(first), within=2)


def test_large_batches() -> None:
    loader = DataLoader([torch.full((500_000,), float(i)) for i in range(6)], 2, num_workers=2, prefetch_factor=3)
    means = [batch.mean(1).tolist() for batch in loader]
    assert means == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_many_indices_at_once() -> None:
    loader = DataLoader(range(200_000), 100_000, num_workers=1, collate_fn=len, prefetch_factor=4)
    assert list(loader) == [100_000, 100_000]


def test_out_of_order() -> None:
    class Slow(Dataset[int]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            if index == 0:
                time.sleep(0.5)
            return index

    loader = DataLoader(Slow(), num_workers=2, in_order=False)
    order = [batch.item() for batch in loader]
    assert sorted(order) == [0, 1, 2, 3, 4, 5]
    assert order[0] != 0


class Numbers(IterableDataset[int]):
    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        return iter(range(info.id, 6, info.num_workers))


def doubled(batch: list[int]) -> list[int]:
    return [2 * sample for sample in batch]


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_start_methods(method: str) -> None:
    loader = DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context=method, collate_fn=doubled)
    assert list(loader) == [[0, 2], [4, 6], [8, 10]]


def test_the_worker_tells_who_it_is() -> None:
    described = next(iter(DataLoader([1], num_workers=1, collate_fn=lambda batch: repr(get_worker_info()))))
    assert described.startswith("WorkerInfo(id=0, num_workers=1, seed=")
    with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
        worker_side.WorkerInfo(id=0).id = 1


PROGRAM = """
    import sys, time
    sys.path.insert(0, {source!r})
    import undertow as torch
    from undertow.utils.data import DataLoader
    from undertow.utils.data._utils import worker, workers
    worker.MP_STATUS_CHECK_INTERVAL = workers.MP_STATUS_CHECK_INTERVAL = 0.5

    class Slow(torch.utils.data.Dataset):
        def __len__(self): return 1000
        def __getitem__(self, index):
            time.sleep(0.05)
            return index

    iterator = iter(DataLoader(Slow(), num_workers=2))
    next(iterator)
    print(*[process.pid for process in iterator._workers], flush=True)
    for batch in iterator:
        pass
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_program(stop: signal.Signals) -> None:
    code = textwrap.dedent(PROGRAM.format(source=str(SOURCE)))
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None and program.stderr is not None
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 2
    if stop == signal.SIGINT:
        os.killpg(program.pid, stop)  # as a terminal sends Ctrl-C, to the workers too
    else:
        program.send_signal(stop)
    errors = program.communicate(timeout=10)[1]
    assert gone(pids, within=4)
    if stop == signal.SIGINT:
        assert program.returncode == -signal.SIGINT
        assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
