"""One engine in a process of its own: answers a line of JSON on stdin with a line of JSON on stdout.

    python -m benchmarks.worker undertow

The engines are torch, undertow, either with `.compile` behind its name, and jax (the rows written by hand for it).

["build", row] → seconds of the first step (compilation is in it)     ["losses"] → those of the steps taken by build
["time", seconds] → seconds per step                                  ["growth", size] → seconds per node of backward
["import"] → seconds      ["memory", name] → peak memory in MiB       (these two in a fresh process each)
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
    """Holds the engine and the step that was built last."""

    def __init__(self, engine: str) -> None:
        self.library, _, self.compiled = engine.partition(".")
        self.step: Callable[[], Any] = lambda: None
        self.first_losses: list[float | None] = []

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

    def build(self, name: str) -> float:
        self.step = lambda: None
        gc.collect()
        self.step = self.written_for_jax(name) if self.library == "jax" else self.written_for_torch(name)
        start = time.perf_counter()
        self.first_losses = [self.loss()]
        first = time.perf_counter() - start
        self.first_losses += [self.loss(), self.loss()]
        return first

    def loss(self) -> float | None:
        """One step; a compiled one may still be under way when it returns, so its loss is waited for."""
        loss = self.step()
        return None if loss is None else float(loss.item())

    def losses(self) -> list[float | None]:
        return self.first_losses

    def written_for_jax(self, name: str) -> Callable[[], Any]:
        step: Callable[[], Any] = importlib.import_module("benchmarks.jax_rows").ROWS[name]()
        return step

    def written_for_torch(self, name: str) -> Callable[[], Any]:
        torch = self.torch()
        torch.manual_seed(0)
        rows = (*self.rows().ROWS, *importlib.import_module("benchmarks.gpu_rows").ROWS)
        (row,) = (row for row in rows if row.name == name)
        step: Callable[[], Any] = row.build(torch)
        return torch.compile(step) if self.compiled else step

    def seconds(self, steps: int) -> float:
        """For so many steps, the last of them waited for."""
        start = time.perf_counter()
        for _ in range(steps - 1):
            self.step()
        self.loss()
        return time.perf_counter() - start

    def time(self, seconds: float) -> float:
        """The mean over as many steps as fit into `seconds`."""
        steps = max(1, int(seconds / max(self.seconds(1), 1e-6)))
        return self.seconds(steps) / steps

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


def main(engine: str) -> None:
    worker = Worker(engine)
    verbs: dict[str, Callable[..., Any]] = {
        "build": worker.build,
        "losses": worker.losses,
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
