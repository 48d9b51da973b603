"""Whole training steps, compiled: undertow.compile beside torch, torch.compile and JAX written by hand.

    python -m benchmarks.compile_rows [--only REGEX] [--engines A,B,…] [--rounds N] [--seconds S] [--json FILE]

Each engine runs in a process of its own, and they take turns, as in `benchmarks.run`. A ratio is the median over rounds of
undertow.compile's time over the other's in the same round; below 1 undertow is ahead. The first step of each engine,
which is where it compiles, is reported by itself.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.rows import ROWS, Row
from benchmarks.run import Process, write_json

ENGINES = ("torch", "torch.compile", "undertow", "undertow.compile", "jax")
OURS, EAGER, BY_HAND = "undertow.compile", "torch", "jax"
BY_HAND_AIM = 1.15


class Result(NamedTuple):
    """One line of the table: microseconds a step and seconds of the first one, by engine; what failed, and why."""

    name: str
    microseconds: dict[str, float]
    first_seconds: dict[str, float]
    failed: dict[str, str]
    ratio: float | None
    aim: float | None
    by_hand_ratio: float | None


def measured(processes: dict[str, Process], row: Row, rounds: int, seconds: float) -> Result:
    """Build the row on every engine, then let them take turns; an engine that fails leaves the others running."""
    first: dict[str, float] = {}
    failed: dict[str, str] = {}
    for engine, process in processes.items():
        try:
            first[engine] = process.ask("build", row.name)
        except RuntimeError as error:
            failed[engine] = str(error)
    turns = [{engine: processes[engine].ask("time", seconds) for engine in first} for _ in range(rounds)]

    def ratio(other: str) -> float | None:
        known = OURS in first and other in first
        return statistics.median(turn[OURS] / turn[other] for turn in turns) if known else None

    microseconds = {engine: 1e6 * statistics.median(turn[engine] for turn in turns) for engine in first}
    return Result(row.name, microseconds, first, failed, ratio(EAGER), row.compiled_aim, ratio(BY_HAND))


def line(result: Result, engines: list[str]) -> str:
    times = "".join(f"{result.microseconds.get(engine, float('nan')):>17,.1f}" for engine in engines)
    aim = "" if result.aim is None else f"{result.aim:.3g}"
    return f"{result.name:<26}{times}{shown(result.ratio)}{aim:>6}{shown(result.by_hand_ratio)}{missed(result)}"


def shown(ratio: float | None) -> str:
    return f"{'–' if ratio is None else format(ratio, '.2f'):>9}"


def missed(result: Result) -> str:
    pairs = [("torch", result.ratio, result.aim), ("JAX", result.by_hand_ratio, BY_HAND_AIM)]
    names = [name for name, ratio, aim in pairs if ratio is not None and aim is not None and ratio > aim]
    return f"  missed: {', '.join(names)}" if names else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"some of {', '.join(ENGINES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each engine gets (default 7)")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a turn (default 0.25)")
    parser.add_argument("--json", metavar="FILE", help="also write the results there; - is standard output")
    options = parser.parse_args()
    engines = options.engines.split(",")
    if unknown := set(engines) - set(ENGINES):
        parser.error(f"no such engine: {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")

    results: list[dict[str, Any]] = []
    failures = 0
    print(f"{'µs a step':<26}{''.join(f'{engine:>17}' for engine in engines)}{'/torch':>9}{'aim':>6}{'/jax':>9}")
    with ExitStack() as stack:
        processes = {engine: stack.enter_context(Process(engine)) for engine in engines}
        for row in ROWS:
            if not row.by_hand or not re.search(options.only, row.name):
                continue
            result = measured(processes, row, options.rounds, options.seconds)
            results.append(result._asdict())
            failures += len(result.failed)
            print(line(result, engines), flush=True)
            for engine, reason in result.failed.items():
                print(f"    {engine} FAILED: {reason}", flush=True)
    write_json(results, options.json)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
