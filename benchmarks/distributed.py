"""Ranks of undertow against ranks of PyTorch with Gloo, one thread each: `python -m benchmarks.distributed`.

Rows: all-reduce by size; a DistributedDataParallel step, eager and compiled, of an MLP and of a small GPT; and scaling: how
much of one process's speed each of two ranks keeps. Each engine has a pool of ranks that live for the whole run, and the
engines take turns. A row's figures are medians over the rounds, and the ratio is undertow's over PyTorch's eager mode. The
machine should be idle; on a busy one, the ratio of the least times says more. It takes about three minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from undertow._src.distributed.runtime import free_port

SIZES = {"1 KB": 1 << 10, "64 KB": 1 << 16, "1 MB": 1 << 20, "64 MB": 64 << 20}
MODELS = {"MLP 784-512-512-10": "mlp", "small GPT": "gpt"}
ROUNDS, RANKS = 5, 2
LIMIT = 1.0  # seconds in which a rank repeats a step in one round


# --- a rank


def rank_main(engine: str) -> None:
    """Measure what each line of stdin asks for, and answer with the median and the least seconds."""
    import importlib

    torch: Any = importlib.import_module("torch" if engine == "torch" else "undertow")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
    answers, sys.stdout = sys.stdout, sys.stderr
    steps: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        request = line.strip()
        kind, name = request.split()
        if request not in steps:
            steps[request] = all_reduce(torch, int(name)) if kind == "all_reduce" else training(torch, kind, name)
            for _ in range(3):
                steps[request]()
        seconds = timed(torch, steps[request])
        answers.write(f"{statistics.median(seconds)} {min(seconds)}\n")
        answers.flush()


def timed(torch: Any, step: Callable[[], Any]) -> list[float]:
    """Return the seconds of some repetitions; all ranks agree how many."""
    torch.distributed.barrier()
    begin = time.perf_counter()
    step()
    count = torch.tensor([min(200.0, max(3.0, LIMIT / (time.perf_counter() - begin)))])
    torch.distributed.broadcast(count, 0)
    seconds = []
    for _ in range(int(count.item())):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return seconds


def all_reduce(torch: Any, size: int) -> Callable[[], Any]:
    """Return an all-reduce of that many bytes."""
    value = torch.ones(size // 4)

    def step() -> None:
        torch.distributed.all_reduce(value, torch.distributed.ReduceOp.MAX)

    return step


def training(torch: Any, kind: str, name: str) -> Callable[[], Any]:
    """Return a step of DDP, or of the plain model (`kind` ends with `alone`). It returns the loss as a number."""
    module, loss_of, optimizer = mlp(torch) if name == "mlp" else gpt(torch)
    if not kind.endswith("alone"):
        module = torch.nn.parallel.DistributedDataParallel(module)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(module)
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if kind.startswith("compiled") else step
    return lambda: run().item()


def mlp(torch: Any) -> tuple[Any, Callable[[Any], Any], Any]:
    """Return a perceptron, a function of the module that returns a loss, and an optimizer."""
    torch.manual_seed(0)
    nn, sizes = torch.nn, (784, 512, 512, 10)
    module = nn.Sequential(*[layer for one, two in pairwise(sizes) for layer in (nn.Linear(one, two), nn.ReLU())][:-1])
    x, target = torch.randn(128, 784), torch.randint(0, 10, (128,))
    return (
        module,
        lambda called: nn.functional.cross_entropy(called(x), target),
        torch.optim.Adam(module.parameters(), lr=1e-3),
    )


def gpt(torch: Any, layers: int = 4, width: int = 128, heads: int = 4, context: int = 128, words: int = 512) -> Any:
    """Return a GPT for 8 sequences, a function of the module that returns a loss, and an optimizer."""
    torch.manual_seed(0)
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2) for part in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
            x = x + self.projection(y)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)], nn.LayerNorm(width))
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.blocks(self.words(tokens) + self.places.weight))

    module = GPT()
    tokens, targets = torch.randint(0, words, (8, context)), torch.randint(0, words, (8, context))
    return (
        module,
        lambda called: F.cross_entropy(called(tokens).view(-1, words), targets.view(-1)),
        torch.optim.AdamW(module.parameters(), lr=3e-4),
    )


# --- the table


class Engine:
    """The ranks of one engine."""

    def __init__(self, name: str, ranks: int = RANKS) -> None:
        shared = {
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.distributed", name], env={**shared, "RANK": str(rank)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(ranks)
        ]  # fmt: skip

    def measure(self, request: str) -> tuple[float, float]:
        """Return the median and the least seconds of what is asked for, on the slower rank."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{request}\n")
            rank.stdin.flush()
        answers = [rank.stdout.readline().split() for rank in self.ranks if rank.stdout is not None]
        return max(float(answer[0]) for answer in answers), max(float(answer[1]) for answer in answers)

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


def row(label: str, requests: dict[Engine, str]) -> list[float]:
    """Measure two engines in turns, print a row, and return the medians."""
    taken: list[list[tuple[float, float]]] = [[] for _ in requests]
    for _ in range(ROUNDS):
        for (engine, request), found in zip(requests.items(), taken, strict=True):
            found.append(engine.measure(request))
    medians = [statistics.median(each for each, _ in found) for found in taken]
    least = [min(each for _, each in found) for found in taken]
    theirs, ours = (each * 1e3 for each in medians)
    print(
        f"| {label} | {theirs:.2f} ms | {ours:.2f} ms | {ours / theirs:.2f} | {least[1] / least[0]:.2f} |", flush=True
    )
    return medians


def main() -> None:
    theirs, ours = Engine("torch"), Engine("undertow")
    print("| | PyTorch | undertow | ratio | ratio of the least |\n|---|---|---|---|---|")
    for label, size in SIZES.items():
        row(f"all-reduce, {label}", {theirs: f"all_reduce {size}", ours: f"all_reduce {size}"})
    for label, name in MODELS.items():
        row(f"DDP step, eager, {label}", {theirs: f"eager {name}", ours: f"eager {name}"})
        row(f"DDP step, compiled, {label}", {theirs: f"eager {name}", ours: f"compiled {name}"})
    one, two = Engine("undertow", 1), ours
    print(
        "\n| scaling of undertow | one process | two ranks | share of its speed that a rank keeps |\n|---|---|---|---|"
    )
    for kind in ("eager", "compiled"):
        taken = {
            engine: [engine.measure(f"{asked} gpt")[0] for _ in range(ROUNDS)]
            for engine, asked in ((one, f"{kind}-alone"), (two, kind))
        }
        alone, both = (statistics.median(each) * 1e3 for each in taken.values())
        print(f"| small GPT, {kind} | {alone:.1f} ms | {both:.1f} ms | {alone / both:.2f} |", flush=True)
    for engine in (theirs, ours, one):
        engine.close()


if __name__ == "__main__":
    rank_main(sys.argv[1]) if len(sys.argv) > 1 else main()
