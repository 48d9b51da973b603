"""Processes that run one function: `spawn` starts them and reports failures."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any


class ProcessException(Exception):
    """A started process failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised an exception; the message contains its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with a non-zero exit code."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too and reports it
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that run one function, each with its index."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes = processes
        self.error_queues = error_queues

    def pids(self) -> list[int]:
        """Return their process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; return True once all succeeded. If one fails, terminate the others and raise."""
        running = {process.sentinel: index for index, process in enumerate(self.processes) if process.is_alive()}
        if running:
            multiprocessing.connection.wait(list(running), timeout=timeout)
        failed = [index for index, process in enumerate(self.processes) if process.exitcode not in (None, 0)]
        if not failed:
            return all(process.exitcode == 0 for process in self.processes)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
        self._report(failed[0])
        return False

    def _report(self, index: int) -> None:
        process = self.processes[index]
        if not self.error_queues[index].empty():
            text = f"\n\n-- Process {index} terminated with the following error:\n{self.error_queues[index].get()}"
            raise ProcessRaisedException(text, index, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            text = f"process {index} terminated with signal {name}"
            raise ProcessExitedException(text, index, process.pid, process.exitcode, name)
        text = f"process {index} terminated with exit code {process.exitcode}"
        raise ProcessExitedException(text, index, process.pid, process.exitcode)


class SpawnContext(ProcessContext):
    """The processes of `spawn`."""


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(index, *args)` in `nprocs` processes; wait for them, or return a context to join."""
    context: Any = multiprocessing.get_context(start_method)
    error_queues = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [
        context.Process(target=_run, args=(fn, index, args, error_queues[index]), daemon=daemon)
        for index in range(nprocs)
    ]
    for process in processes:
        process.start()
    started = SpawnContext(processes, error_queues)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call `start_processes` with newly spawned processes."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
