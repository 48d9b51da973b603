"""`torch.utils.benchmark`: measure how long a statement takes, with the spread of the runs."""

from __future__ import annotations

import math
import statistics
import sys
import textwrap
import timeit
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Compare", "Measurement", "Timer"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


def select_unit(t: float) -> tuple[str, float]:
    """Return a readable unit for a time, and its length in seconds."""
    for name, length in reversed(_UNITS):
        if t >= length:
            return name, length
    return _UNITS[0]


class Measurement:
    """Times of one statement: several runs of `number_per_run` executions each."""

    def __init__(
        self, number_per_run: int, raw_times: list[float], task_spec: Any = None, metadata: dict[str, Any] | None = None
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.task_spec, self.metadata = task_spec, metadata

    @property
    def times(self) -> list[float]:
        """Return the seconds per execution, one number per run, in order."""
        return sorted(t / self.number_per_run for t in self.raw_times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Return the interquartile range of the runs."""
        times = self.times
        if len(times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        spec = self.task_spec
        return "" if spec is None else spec.title

    def __getattr__(self, name: str) -> Any:
        if name in ("stmt", "setup", "label", "sub_label", "description", "num_threads"):
            return getattr(self.task_spec, name)
        raise AttributeError(name)

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        runs, count = len(self.raw_times), self.number_per_run
        several = f"{runs} measurements, {count} runs per measurement" if runs > 1 else f"1 measurement, {count} runs"
        lines = [f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>", self.title]
        if self.task_spec is not None and self.task_spec.description:
            lines.append(self.task_spec.description)
        if runs > 1:
            lines += [f"  Median: {self.median / length:.2f} {unit}", f"  IQR:    {self.iqr / length:.2f} {unit}"]
        else:
            lines += [f"  {self.median / length:.2f} {unit}"]
        threads = 1 if self.task_spec is None else self.task_spec.num_threads
        return "\n".join([*lines, f"  {several} , {threads} thread{'s' if threads != 1 else ''}"])


class _Task:
    """What is measured, for the titles of results."""

    def __init__(self, stmt: str, setup: str, label: Any, sub_label: Any, description: Any, num_threads: int) -> None:
        self.stmt, self.setup, self.label, self.sub_label = stmt, setup, label, sub_label
        self.description, self.num_threads = description, num_threads

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else "\n".join(["stmt:", textwrap.indent(self.stmt, "  ")])


class Timer:
    """Times a statement, like `timeit.Timer`, after one warm-up run.

    Timer("x @ x", globals={"x": torch.ones(64, 64)}).blocked_autorange()
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if language not in ("python", 0) and getattr(language, "name", "PYTHON") != "PYTHON":
            raise NotImplementedError("undertow can only time Python code")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._globals = {"torch": sys.modules["undertow"], **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)
        self._task = _Task(stmt, setup, label, sub_label, description, num_threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Measure one run of `number` executions."""
        self._timer.timeit(max(int(number // 100), 2))
        return Measurement(number, [self._timer.timeit(number)], self._task)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure runs long enough for the clock, for at least min_run_time seconds in total."""
        number = self._block_size(min_run_time)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Measure runs until the middle half lies within `threshold` of the median."""
        number = self._block_size(min_run_time)
        times: list[float] = []
        found = Measurement(number, times, self._task)
        while sum(times) < max_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            if sum(times) >= min_run_time and len(times) >= 3 and found.iqr / found.median < threshold:
                break
        return found

    def _block_size(self, min_run_time: float) -> int:
        """Return the number of executions per run, so that reading the clock is negligible."""
        number = 1
        while True:
            took = self._timer.timeit(number)
            if took >= min_run_time / 1000 and took >= 1e-4:
                return number
            number *= 10


class Compare:
    """A table of measurements: a row per sub_label, a column per description."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Do nothing: numbers are printed with one decimal anyway."""

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing: the table is printed without colors."""

    def print(self) -> None:
        print(self)

    def __str__(self) -> str:
        tables = []
        for label in dict.fromkeys(result.label for result in self._results):
            tables.append(self._table(label, [result for result in self._results if result.label == label]))
        return "\n".join(tables)

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        rows = list(dict.fromkeys((result.num_threads, result.sub_label or result.stmt) for result in results))
        columns = list(dict.fromkeys(result.description or "" for result in results))
        medians = {
            (result.num_threads, result.sub_label or result.stmt, result.description or ""): result.median
            for result in results
        }
        unit, length = select_unit(min(medians.values(), default=math.inf))
        left = max([len(name) + 6 for _, name in rows], default=0)
        texts = {key: f"{value / length:.1f}" for key, value in medians.items()}
        widths = [max(len(column), *[len(texts.get((*row, column), "")) for row in rows]) for column in columns]
        line = lambda name, parts: (
            f"{name:{left}}  |  " + "  |  ".join(part.center(width) for part, width in zip(parts, widths, strict=True))
        )
        whole = len(line("", columns))
        lines = ["[" + f" {label or ''} ".center(whole - 2, "-") + "]", line("", columns)]
        threads = None
        for count, name in rows:
            if count != threads:
                threads = count
                lines.append(f"{count} threads: ".ljust(whole, "-"))
            lines.append(line("      " + name, [texts.get((count, name, column), "") for column in columns]))
        names = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}
        return "\n".join([*lines, "", f"Times are in {names[unit]} ({unit})."])
