"""Jobs of one clique, which a thread runs in order, and the handles that a program waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.recorder import Call
from undertow.futures import Future


class Work:
    """A collective that has been started."""

    def __init__(self, call: Call | None, run: Callable[[], Any], timeout: float, peers: Sequence[int]) -> None:
        self.call, self.run, self.peers = call, run, peers
        self.timeout = timeout
        self.computes = False  # whether it is a compiled step that all ranks have begun
        self.was_excused = False  # whether its deadline was moved, because a rank compiles or computes
        self.deadline = time.monotonic() + timeout
        self._result: Any = None
        self._error: BaseException | None = None
        self._finished = False
        self._future: Future[Any] | None = None
        self.lane: Lane | None = None
        self._claim = threading.Lock()
        self._open = threading.Lock()
        self._open.acquire()

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """Set the result or the error, unless one is set."""
        with self._claim:
            if self._finished:
                return
            self._result, self._error, self._finished = result, error, True
            future = self._future
        self._open.release()
        if future is not None:
            self._settle(future)

    def _settle(self, future: Future[Any]) -> None:
        if isinstance(self._error, Exception):
            future.set_exception(self._error)
        else:
            future.set_result(self._result)

    def is_overdue(self) -> bool:
        """Whether its deadline has passed."""
        return time.monotonic() > self.deadline

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the collective is done; raise its error if it failed."""
        seconds = -1.0 if timeout is None else timeout.total_seconds()
        if not self._finished and self.lane is not None:
            self.lane.run_until(self)
        if not self._finished:
            if not self._open.acquire(timeout=seconds if seconds > 0 else -1):
                raise DistBackendError(f"{self.call or 'the operation'} did not end within {seconds:g} s")
            self._open.release()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        return self._finished

    def is_success(self) -> bool:
        return self._finished and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        self.wait()
        return self._result

    def get_future(self) -> Future[Any]:
        """Return a future for the tensors that the collective writes."""
        with self._claim:
            if self._future is not None:
                return self._future
            future = self._future = Future()
            if not self._finished:
                return future
        self._settle(future)
        return future

    def source_rank(self) -> int:
        """Return the rank that a received message came from."""
        if len(self.peers) != 1:
            raise RuntimeError("source_rank() is only defined for a message from one rank.")
        return self.peers[0]

    def block_current_stream(self) -> None:
        self.wait()


class Done(Work):
    """A collective that is already done."""

    def __init__(self, result: Any = None) -> None:
        super().__init__(None, lambda: None, 0.0, ())
        self.finish(result)


class Lane:
    """A clique's thread. After a failure it runs no jobs: a rank that left one collective early can't be in the next."""

    def __init__(self, name: str, explain: Callable[[Work, BaseException], BaseException]) -> None:
        self.name = name
        self.current: Work | None = None
        self.broken: BaseException | None = None
        self.dependents: list[Work] = []  # works of other lanes that wait for jobs here
        self._explain = explain
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.groups: list[str] = []  # by name
        self._starting = threading.Lock()

    @property
    def thread(self) -> int | None:
        """The identifier of its thread."""
        return None if self._thread is None else self._thread.ident

    def submit(self, work: Work) -> Work:
        """Run a job after those before it."""
        trace = tracer.here()
        if trace is not None:
            op = "a message" if work.call is None else f"{work.call.op} at {work.call.site}"
            trace.collectives.refuse(
                f"{op}: messages, barriers and collectives of objects can't be part of a compiled step"
            )
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._loop, name=f"undertow {self.name}", daemon=True)
                    self._thread.start()
        work.lane = self
        self._queue.put(work)
        return work

    def run_until(self, work: Work) -> None:
        """Run the jobs up to this one in the calling thread, if it is this lane's own: a callback waits for the job."""
        while threading.current_thread() is self._thread and not work.is_completed():
            self._do(self._queue.get())

    def _loop(self) -> None:
        np.seterr(all="ignore")  # of this thread: as in PyTorch, sums overflow in silence
        while True:
            self._do(self._queue.get())

    def _do(self, work: Work) -> None:
        if self.broken is not None:
            work.finish(error=self.broken)
            return
        work.deadline = time.monotonic() + work.timeout
        outer, self.current = self.current, work  # a program's callback may wait for another job
        try:
            result = work.run()
        except Refused as refused:
            self.current = outer
            work.finish(error=refused.error)
        except BaseException as error:
            self.fail(self._explain(work, error))
            self.current = outer
        else:
            self.current = outer  # before callbacks, which may wait for the next job
            work.finish(result)

    def fail(self, error: BaseException) -> None:
        """Break the lane: the current job and all waiting jobs end with this error."""
        if self.broken is None:
            self.broken = error
        current = self.current
        if current is not None:
            current.finish(error=self.broken)
        while not self._queue.empty():
            self._queue.get_nowait().finish(error=self.broken)
        for work in self.dependents:
            work.finish(error=self.broken)
        self.dependents.clear()


class Refused(Exception):
    """All ranks found the same error before anything was computed, so the lane can be used further."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error
