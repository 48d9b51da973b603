"""The main process's side of worker processes: assigning tasks, ordering batches, detecting dead workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from undertow.utils.data._utils.worker import (
    MP_STATUS_CHECK_INTERVAL,
    End,
    Failure,
    Plan,
    Task,
    receive,
    run_worker,
    unpacked,
)


class Workers:
    """The worker processes of one iterator.

    Batches are numbered; number n goes to the next worker in turn. In an iteration `pending` maps numbers to workers,
    and `arrived` holds batches that came early.
    """

    def __init__(self, loader: Any, base_seed: int) -> None:
        self.owner = os.getpid()
        self.timeout = loader.timeout
        self.in_order = loader.in_order
        self.keep_alive = loader.persistent_workers
        self.ahead = loader.prefetch_factor * loader.num_workers
        self.processes: list[Any] = []
        self.tasks: list[Connection] = []
        self.results: list[Connection] = []
        self.epoch = -1
        plan = Plan(
            is_iterable=loader._dataset_kind == 1,
            dataset=loader.dataset,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            init_fn=loader.worker_init_fn,
            base_seed=base_seed,
            num_workers=loader.num_workers,
        )
        context = loader.multiprocessing_context or multiprocessing.get_context()
        try:
            for number in range(loader.num_workers):
                self._start(context, plan, number)
        except BaseException:
            self.stop()
            raise

    def _start(self, context: Any, plan: Plan, number: int) -> None:
        task_reader, task_writer = context.Pipe(duplex=False)
        result_reader, result_writer = context.Pipe(duplex=False)
        # A forked process has copies of all open files; while they are open, a closed pipe goes unnoticed.
        forked = context.get_start_method() == "fork"
        inherited = [*self.tasks, *self.results, task_writer, result_reader] if forked else []
        process = context.Process(
            target=run_worker, args=(plan, number, task_reader, result_writer, inherited), daemon=True
        )
        with warnings.catch_warnings():  # JAX, if it is loaded, warns of every fork; workers do not use it
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            process.start()
        task_reader.close()
        result_writer.close()
        self.processes.append(process)
        self.tasks.append(task_writer)
        self.results.append(result_reader)

    # --- an iteration

    def begin(self, indices: Iterator[Any]) -> None:
        """Start an iteration: every worker gets its first tasks."""
        self.epoch += 1
        self.indices = indices
        self.sent = 0
        self.next = 0
        self.turn = 0
        self.pending: dict[int, int] = {}
        self.arrived: dict[int, Any] = {}
        self.working = [True] * len(self.processes)
        for _ in range(self.ahead):
            self._give_task()

    def next_batch(self) -> Any:
        """Return the next batch; raise StopIteration after the last one."""
        while True:
            while self.next < self.sent and self.next not in self.pending:
                self.next += 1  # returned out of order, or from a worker that had nothing left
            number = self._deliverable()
            if number is not None:
                answer = self.arrived.pop(number)
                self.pending.pop(number)
                self._give_task()
                if isinstance(answer, Failure):
                    answer.reraise()
                return answer
            if self.next == self.sent:
                if not self.keep_alive:
                    self.stop()
                raise StopIteration
            self._take_answer()

    def _deliverable(self) -> int | None:
        if self.next in self.arrived:
            return self.next
        return None if self.in_order else next(iter(self.arrived), None)

    def _give_task(self) -> None:
        """Send the next indices to the next worker that is still active."""
        if not any(self.working):
            return
        try:
            index = next(self.indices)
        except StopIteration:
            return
        while not self.working[self.turn]:
            self.turn = (self.turn + 1) % len(self.working)
        worker = self.turn
        self.turn = (self.turn + 1) % len(self.working)
        self.pending[self.sent] = worker
        with contextlib.suppress(OSError):  # a dead worker is noticed when its batch is waited for
            self.tasks[worker].send(Task(self.epoch, self.sent, index))
        self.sent += 1

    def _take_answer(self) -> None:
        """Wait for a message from any worker and store it."""
        worker = self._wait()
        try:
            epoch, number, answer = unpacked(receive(self.results[worker]))
        except (EOFError, OSError):
            self._mourn([worker])
        if epoch != self.epoch:
            return  # from an iteration that ended early
        if isinstance(answer, End):
            self.working[worker] = False
            self.pending = {n: owner for n, owner in self.pending.items() if owner != worker or n in self.arrived}
            self._give_task()
        else:
            self.arrived[number] = answer

    def _wait(self) -> int:
        """Return the number of a worker that has sent a message."""
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while True:
            patience = MP_STATUS_CHECK_INTERVAL
            if deadline is not None:
                patience = min(patience, max(0.0, deadline - time.monotonic()))
            ready = wait(self.results, patience)
            if ready:
                return self.results.index(ready[0])  # type: ignore[arg-type]
            dead = [number for number, process in enumerate(self.processes) if not process.is_alive()]
            if dead:
                self._mourn(dead)
            if deadline is not None and time.monotonic() >= deadline:
                self.stop()
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")

    def _mourn(self, dead: list[int]) -> None:
        for number in dead:
            self.processes[number].join(1.0)
        numbers = ", ".join(str(self.processes[number].pid) for number in dead)
        codes = ", ".join(str(self.processes[number].exitcode) for number in dead)
        self.stop()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {numbers}) exited unexpectedly. Its exit code was {codes} (negative: killed by "
            "that signal, -9 often because memory ran out). With num_workers=0 the error shows where it happens."
        )

    # --- the end

    def stop(self) -> None:
        """Stop the processes; kill those that do not stop in time."""
        if os.getpid() != self.owner:  # a fork's copy of the iterator
            return
        for connection in self.tasks:
            with contextlib.suppress(OSError):
                if _has_room(connection):
                    connection.send(None)
        for connection in (*self.tasks, *self.results):
            with contextlib.suppress(OSError):  # already closed, by the garbage collector
                connection.close()
        deadline = time.monotonic() + MP_STATUS_CHECK_INTERVAL
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.tasks.clear()
        self.results.clear()


def _has_room(connection: Connection) -> bool:
    """Whether a few bytes can be sent without blocking; not if a busy worker has a full pipe."""
    if os.name != "posix":
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLOUT)
    return bool(poll.poll(0))
