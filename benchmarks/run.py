"""undertow and torch side by side, as ratios.

    python -m benchmarks.run [--only REGEX] [--rounds N] [--seconds S] [--json FILE]

Each library runs in a process of its own, and they take turns: a neighbour's noise hits both, and neither's spinning
threads slow the other. A ratio is the median over rounds of undertow/torch within one round; below 1 undertow is ahead.
This process imports neither library, so that it stays out of the way of time and memory.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import MEMORY, ROWS, Row

ROOT = Path(__file__).parent.parent
SIZES = (1_000, 10_000, 100_000, 1_000_000)
IMPORT_AIM = 1 / 8
GROWTH_AIM = 1.5


class Result(NamedTuple):
    """One line of the table."""

    name: str
    unit: str
    torch: float
    undertow: float
    ratio: float
    aim: float | None


class Process:
    """A worker for one engine; `with` ends it."""

    def __init__(self, engine: str) -> None:
        command = [sys.executable, "-m", "benchmarks.worker", engine]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process died"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]


def ask_fresh(library: str, *question: Any) -> Any:
    with Process(library) as process:
        return process.ask(*question)


def summary(name: str, unit: str, scale: float, pairs: list[tuple[float, float]], aim: float | None = None) -> Result:
    """Medians of what both took, and the median of the ratios."""
    theirs, ours = (statistics.median(values) * scale for values in zip(*pairs, strict=True))
    return Result(name, unit, theirs, ours, statistics.median(our / their for their, our in pairs), aim)


def steps(torch: Process, undertow: Process, row: Row, rounds: int, seconds: float) -> Result:
    for process in (torch, undertow):
        process.ask("build", row.name)
    pairs = [(torch.ask("time", seconds), undertow.ask("time", seconds)) for _ in range(rounds)]
    return summary(row.name, "µs", 1e6, pairs, row.aim)


def growth(torch: Process, undertow: Process, name: str, size: int, rounds: int) -> Result:
    pairs = [(torch.ask("growth", size), undertow.ask("growth", size)) for _ in range(rounds)]
    return summary(name, "ns", 1e9, pairs)


def growth_factor(small: Result, large: Result) -> Result:
    """Cost per node in the largest graph over that in the smallest. The aim is for undertow's own factor."""
    theirs, ours = large.torch / small.torch, large.undertow / small.undertow
    return Result("growth: the largest over the smallest", "×", theirs, ours, ours, GROWTH_AIM)


def fresh(name: str, unit: str, scale: float, question: list[Any], rounds: int, aim: float | None = None) -> Result:
    pairs = [(ask_fresh("torch", *question), ask_fresh("undertow", *question)) for _ in range(rounds)]
    return summary(name, unit, scale, pairs, aim)


def line(result: Result) -> str:
    aim = "" if result.aim is None else f"{result.aim:6.3g}"
    missed = "  missed" if result.aim is not None and result.ratio > result.aim else ""
    return (
        f"{result.name:<42} {result.torch:>10,.1f} {result.undertow:>10,.1f} {result.unit:<4}"
        f"{result.ratio:>7.2f} {aim:>6}{missed}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each library gets (default 7)")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a turn (default 0.25)")
    parser.add_argument("--json", metavar="FILE", help="also write the results there; - is standard output")
    options = parser.parse_args()
    few = max(1, options.rounds // 2)

    results: list[Result] = []
    failed = 0

    def wanted(name: str) -> bool:
        return re.search(options.only, name) is not None

    def show(name: str, measure: Callable[[], Result]) -> None:
        """Measure one row and print its line; a row that fails does not stop the others."""
        nonlocal failed
        if not wanted(name):
            return
        try:
            result = measure()
        except RuntimeError as error:
            failed += 1
            print(f"{name:<42} FAILED: {error}", flush=True)
        else:
            results.append(result)
            print(line(result), flush=True)

    print(f"{'':<42} {'torch':>10} {'undertow':>10} {'':<4}{'ratio':>7} {'aim':>6}")
    with Process("torch") as torch, Process("undertow") as undertow:
        for row in ROWS:
            show(row.name, lambda: steps(torch, undertow, row, options.rounds, options.seconds))
    # Graphs of a million nodes in processes of their own: what they leave behind slows nothing else.
    with Process("torch") as torch, Process("undertow") as undertow:
        for size in SIZES:
            name = f"growth: backward, one of {size:,} nodes"
            show(name, lambda: growth(torch, undertow, name, size, few))
        if len(grown := [result for result in results if result.name.startswith("growth")]) == len(SIZES):
            show("growth: the largest over the smallest", lambda: growth_factor(grown[0], grown[-1]))
    show("import time", lambda: fresh("import time", "ms", 1e3, ["import"], options.rounds, IMPORT_AIM))
    for case in MEMORY:
        name = f"peak memory, {case}"
        show(name, lambda: fresh(name, "MiB", 1, ["memory", case], few))

    write_json([result._asdict() for result in results], options.json)
    sys.exit(1 if failed else 0)


def write_json(results: list[dict[str, Any]], file: str | None) -> None:
    """Where the user asked for them: a file, - for standard output, or not at all."""
    text = json.dumps(results, indent=1)
    if file == "-":
        print(text)
    elif file:
        Path(file).write_text(text + "\n")


if __name__ == "__main__":
    main()
