"""The worker process: it receives indices, makes batches and sends them, until it is stopped.

Each worker has its own two pipes and no lock is shared, so a worker that dies cannot block the others. A batch is
pickled in the worker, so a sample that cannot be pickled is an error like any other; a thread sends it while the next
one is made.
"""

from __future__ import annotations

import os
import pickle
import queue
import random as python_random
import signal
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from undertow import random
from undertow._src.compat.process_settings import set_num_threads
from undertow.utils.data._utils.fetch import create_fetcher

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between checks that the other side is alive
_worker_info: WorkerInfo | None = None


class WorkerInfo:
    """A worker process's `id`, `num_workers`, `seed`, and its copy of the `dataset`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.__dict__.items())})"


def get_worker_info() -> WorkerInfo | None:
    """Return the information about this worker process; None in the main process."""
    return _worker_info


# --- messages


class Task:
    """A request to make batch `number` of iteration `epoch` from these indices. A new epoch starts a new iteration."""

    __slots__ = ("epoch", "index", "number")

    def __init__(self, epoch: int, number: int, index: Any) -> None:
        self.epoch, self.number, self.index = epoch, number, index


class End:
    """A worker's message that its stream has ended."""


class Failure:
    """A worker's message that it raised: the exception's class and its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.name = self.kind.__name__
        self.where = where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raise the same class with the worker's traceback as its message."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            raise self.kind(_PlainText(message))  # a KeyError shows the repr of its message
        try:
            error = self.kind(message)
        except Exception:  # its class takes different arguments
            raise RuntimeError(message) from None
        raise error


class _PlainText(str):
    """Text whose repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def packed(value: Any) -> list[Any]:
    """Return a pickle and the large buffers it refers to, which need no copy."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return [content, *[buffer.raw() for buffer in buffers]]


def send(connection: Connection, parts: list[Any]) -> None:
    """Send the result of `packed`."""
    connection.send_bytes(pickle.dumps([memoryview(part).nbytes for part in parts]))
    for part in parts:
        if memoryview(part).nbytes:
            connection.send_bytes(part)


def receive(connection: Connection) -> list[Any]:
    """Receive the result of `packed`, into writable memory."""
    parts = []
    for size in pickle.loads(connection.recv_bytes()):
        part = bytearray(size)
        if size:
            connection.recv_bytes_into(part)
        parts.append(part)
    return parts


def unpacked(parts: list[Any]) -> Any:
    """Return the value that was packed."""
    return pickle.loads(parts[0], buffers=parts[1:])


# --- the process


class Plan:
    """What a worker needs to make batches."""

    def __init__(self, **fields: Any) -> None:
        self.is_iterable: bool = fields["is_iterable"]
        self.dataset: Any = fields["dataset"]
        self.auto_collation: bool = fields["auto_collation"]
        self.collate_fn: Any = fields["collate_fn"]
        self.drop_last: bool = fields["drop_last"]
        self.init_fn: Any = fields["init_fn"]
        self.base_seed: int = fields["base_seed"]
        self.num_workers: int = fields["num_workers"]

    def fetcher(self) -> Any:
        """Start a new iteration over the dataset."""
        return create_fetcher(self.is_iterable, self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


def run_worker(plan: Plan, number: int, tasks: Connection, results: Connection, inherited: list[Connection]) -> None:
    """Run a worker process. `inherited` are the ends of other workers' pipes that a fork copied."""
    global _worker_info
    for connection in inherited:
        connection.close()
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the main process, which then stops the workers
    outbox: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
    sender = threading.Thread(target=_send_all, args=(outbox, results), daemon=True)
    sender.start()
    where = f"in DataLoader worker process {number}"
    failed: Failure | None = None
    try:
        seed = plan.base_seed + number
        _seed_all(plan.base_seed, number)
        set_num_threads(1)  # the workers are the parallelism
        _worker_info = WorkerInfo(
            id=number, num_workers=plan.num_workers, seed=seed, dataset=plan.dataset, rng=None,
            worker_method="multiprocessing",
        )  # fmt: skip
        if plan.init_fn is not None:
            plan.init_fn(number)
    except Exception as error:
        failed = Failure(error, where)
    fetcher, epoch, ended = None, -1, False
    while (task := _next_task(tasks, parent)) is not None:
        if task.epoch != epoch:
            fetcher, epoch, ended = None, task.epoch, False
        if ended:
            continue  # the main process learns from the first End that nothing follows
        answer: Any
        try:
            if failed is not None:
                answer, failed = failed, None
            else:
                if fetcher is None:
                    fetcher = plan.fetcher()
                answer = fetcher.fetch(task.index)
        except Exception as error:
            ended = plan.is_iterable and isinstance(error, StopIteration)
            answer = End() if ended else Failure(error, where)
        outbox.put(_packed_answer(task, answer, where))
        del answer  # not kept alive while waiting for the next task
    outbox.put(None)
    if os.getppid() == parent:
        sender.join(MP_STATUS_CHECK_INTERVAL)


def _seed_all(base_seed: int, number: int) -> None:
    """Seed all generators, differently in each worker, with the same numbers as PyTorch."""
    seed = base_seed + number
    python_random.seed(seed)
    random.manual_seed(seed)
    np.random.seed(_generate_state(base_seed, number))


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return four words to seed NumPy's generator with."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def _next_task(tasks: Connection, parent: int) -> Task | None:
    """Return the next task; None if there is no more work or the main process is gone."""
    try:
        while not tasks.poll(MP_STATUS_CHECK_INTERVAL):
            if os.getppid() != parent:
                return None
        return tasks.recv()
    except (EOFError, OSError):
        return None


def _packed_answer(task: Task, answer: Any, where: str) -> list[Any]:
    try:
        return packed((task.epoch, task.number, answer))
    except Exception as error:
        if isinstance(answer, Failure):  # its class cannot be found in the main process
            answer.kind = RuntimeError
            return packed((task.epoch, task.number, answer))
        return packed((task.epoch, task.number, Failure(error, where)))


def _send_all(outbox: queue.SimpleQueue[list[Any] | None], results: Connection) -> None:
    try:
        while (parts := outbox.get()) is not None:
            send(results, parts)
    except OSError:
        pass  # the main process no longer waits for this worker
    finally:
        results.close()
