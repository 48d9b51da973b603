"""One library in a process of its own: answers a line of JSON on stdin with a line of JSON on stdout.

    python -m benchmarks.worker undertow

["build", row] → null     ["time", seconds] → seconds per step     ["growth", size] → seconds per node of backward
["import"] → seconds      ["memory", name] → peak memory in MiB    (these two in a fresh process each)
"""

from __future__ import annotations

import gc
import importlib
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


class Worker:
    """Holds the library and the step that was built last."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.step: Callable[[], Any] = lambda: None

    # Both are imported on demand: the time of the first import is itself a row.
    def rows(self) -> Any:
        return importlib.import_module("benchmarks.rows")

    def torch(self) -> Any:
        return importlib.import_module(self.library)

    def import_(self) -> float:
        start = time.perf_counter()
        self.torch()
        return time.perf_counter() - start

    def memory(self, name: str) -> float:
        self.rows().MEMORY[name](self.torch())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)

    def build(self, name: str) -> None:
        self.step = lambda: None
        gc.collect()
        torch = self.torch()
        torch.manual_seed(0)
        (row,) = (row for row in self.rows().ROWS if row.name == name)
        self.step = row.build(torch)
        for _ in range(3):
            self.step()

    def time(self, seconds: float) -> float:
        """The mean over as many steps as fit into `seconds`."""
        start = time.perf_counter()
        self.step()
        once = max(time.perf_counter() - start, 1e-6)
        steps = max(1, int(seconds / once))
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - start) / steps

    def growth(self, size: int) -> float:
        """Backward alone: the graph is made and thrown away off the clock; small graphs are run many times."""
        make = self.rows().nodes(self.torch(), size)
        seconds = []
        for _ in range(max(1, 20_000 // size)):
            backward = make()
            start = time.perf_counter()
            backward()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds) / size


def main(library: str) -> None:
    worker = Worker(library)
    verbs: dict[str, Callable[..., Any]] = {
        "build": worker.build,
        "time": worker.time,
        "growth": worker.growth,
        "import": worker.import_,
        "memory": worker.memory,
    }
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        try:
            answer: dict[str, Any] = {"answer": verbs[verb](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
