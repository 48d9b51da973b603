"""All-reduce on two ranks, undertow against PyTorch with Gloo: `python -m benchmarks.distributed`.

Each engine has a pool of ranks that live for the whole run, and the engines take turns. A row is one size; its figures are
the medians over all rounds, and the ratio is undertow's over PyTorch's. The machine should be idle; on a busy one, the
ratio of the least times says more.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from datetime import timedelta
from typing import Any

from undertow._src.distributed.runtime import free_port

SIZES = {"1 KB": 1 << 10, "64 KB": 1 << 16, "1 MB": 1 << 20, "64 MB": 64 << 20}
ROUNDS, RANKS = 5, 2


def rank_main(engine: str) -> None:
    """Measure each size that is asked for on stdin, and answer with the seconds of one all-reduce."""
    import importlib
    import time

    torch: Any = importlib.import_module("torch" if engine == "torch" else "undertow")
    torch.set_num_threads(1)
    dist = torch.distributed
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    answers, sys.stdout = sys.stdout, sys.stderr
    tensors: dict[int, Any] = {}
    for line in sys.stdin:
        size = int(line)
        if size not in tensors:
            tensors[size] = torch.ones(size // 4)
            dist.all_reduce(tensors[size])
        value, seconds = tensors[size], []
        for _ in range(5 if size > 1 << 22 else 100):
            value.fill_(1.0)
            begin = time.perf_counter()
            dist.all_reduce(value)
            seconds.append(time.perf_counter() - begin)
        answers.write(f"{statistics.median(seconds)} {min(seconds)}\n")
        answers.flush()


class Engine:
    """The ranks of one engine."""

    def __init__(self, name: str) -> None:
        shared = {
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.distributed", name], env={**shared, "RANK": str(rank)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(RANKS)
        ]  # fmt: skip

    def measure(self, size: int) -> tuple[float, float]:
        """Return the median and the least seconds of an all-reduce, on the slower rank."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{size}\n")
            rank.stdin.flush()
        answers = [rank.stdout.readline().split() for rank in self.ranks if rank.stdout is not None]
        return max(float(answer[0]) for answer in answers), max(float(answer[1]) for answer in answers)


def main() -> None:
    engines = {name: Engine(name) for name in ("torch", "undertow")}
    print("| all-reduce | PyTorch | undertow | ratio | ratio of the least |\n|---|---|---|---|---|")
    for label, size in SIZES.items():
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for _ in range(ROUNDS):
            for name, engine in engines.items():
                taken[name].append(engine.measure(size))
        theirs, ours = (statistics.median(each for each, _ in taken[name]) * 1e3 for name in ("torch", "undertow"))
        least = min(each for _, each in taken["undertow"]) / min(each for _, each in taken["torch"])
        print(f"| {label} | {theirs:.2f} ms | {ours:.2f} ms | {ours / theirs:.2f} | {least:.2f} |", flush=True)
    for engine in engines.values():
        for rank in engine.ranks:
            rank.kill()
            rank.wait()


if __name__ == "__main__":
    rank_main(sys.argv[1]) if len(sys.argv) > 1 else main()
