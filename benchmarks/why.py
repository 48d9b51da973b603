"""What watching costs: the rows with and without `why`, on both engines, as ratios.

    python -m benchmarks.why [--only REGEX] [--rounds N] [--seconds S]

Each engine runs in a process of its own, on one thread. Watched and unwatched steps take turns there, and a ratio is the
median over rounds. Time is the processor's, which a busy machine leaves as it is. Watching is what `undertow why
script.py` does: every operation, module call, hook and gradient is recorded. Sampled is
`--sample 2`, after those two steps; a row without an optimizer is watched as before.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, Row, classes, gpt

ROOT = Path(__file__).parent.parent
WATCHED = (
    "chain of 1000 ops, forward + backward", "MLP 16-32-4", "MLP 784-128-10", "8-layer MLP with 64 hooks", "small CNN",
    "LSTM", "small GPT, AdamW",
)  # fmt: skip
TINY = Row("tiny GPT, AdamW", lambda torch: gpt(torch, layers=4, width=64, context=64, words=65))
BY_HAND = Row("GPT by hand, AdamW", lambda torch: gpt_by_hand(torch))
SAMPLED = 2  # steps that `--sample` watches in full


def gpt_by_hand(torch: Any, layers: int = 4, width: int = 64, heads: int = 4, context: int = 32) -> Callable[[], Any]:
    """A GPT as people write it: attention in single operations, dropout, tied weights, clipped gradients, 12 sequences."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)
            self.qkv, self.projection = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            )
            self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.size()
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = [part.view(batch, time, heads, width // heads).transpose(1, 2) for part in parts]
            scores = (q @ k.transpose(-2, -1)) * (width // heads) ** -0.5
            scores = scores.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf"))
            y = (self.drop(F.softmax(scores, dim=-1)) @ v).transpose(1, 2).contiguous().view(batch, time, width)
            x = x + self.drop(self.projection(y))
            return x + self.mlp(self.norm2(x))

    tokens, places = nn.Embedding(65, width), nn.Embedding(context, width)
    blocks, norm, head = (
        nn.ModuleList([Block() for _ in range(layers)]),
        nn.LayerNorm(width),
        nn.Linear(width, 65, bias=False),
    )
    head.weight = tokens.weight
    model = nn.ModuleList([tokens, places, blocks, norm, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x, y = classes(torch, 0, 65, 12, context), classes(torch, 1, 65, 12, context)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        h = tokens(x) + places(torch.arange(context))
        for block in blocks:
            h = block(h)
        loss = F.cross_entropy(head(norm(h)).view(-1, 65), y.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def seconds_per_step(step: Callable[[], Any], seconds: float) -> float:
    start = time.process_time()
    steps = 0
    while not steps or time.process_time() - start < seconds:
        step()
        steps += 1
    return (time.process_time() - start) / steps


def measure(engine: str, only: str, rounds: int, seconds: float) -> dict[str, tuple[float, float, float]]:
    """Row -> (seconds of a step unwatched, the ratios of a watched and of a sampled one to it)."""
    torch = importlib.import_module(engine)
    watcher = importlib.import_module("undertow.why.watch.watcher").Watcher
    results = {}
    for row in (*[row for row in ROWS if row.name in WATCHED], TINY, BY_HAND):
        if not re.search(only, row.name):
            continue
        torch.manual_seed(0)
        bare, ratios, sampled = [], [], []
        for _ in range(rounds):
            step = row.build(torch)
            step()
            bare.append(seconds_per_step(step, seconds))
            with watcher(torch, limit=10**9) as watching:
                step = row.build(torch)  # hooks are registered where they are seen
                step()
                ratios.append(seconds_per_step(step, seconds) / bare[-1])
            assert not watching.trace.problems, watching.trace.problems[0]
            with watcher(torch, limit=10**9, sample=SAMPLED) as watching:
                step = row.build(torch)
                for _ in range(SAMPLED + 1):
                    step()
                sampled.append(seconds_per_step(step, seconds) / bare[-1])
            del watching, step
            gc.collect()
        results[row.name] = statistics.median(bare), statistics.median(ratios), statistics.median(sampled)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(measure(arguments.engine, arguments.only, arguments.rounds, arguments.seconds)))
        return
    found = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for engine in ("undertow", "torch"):
        command = [
            sys.executable, "-m", "benchmarks.why", "--engine", engine, "--only", arguments.only,
            "--rounds", str(arguments.rounds), "--seconds", str(arguments.seconds),
        ]  # fmt: skip
        ran = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        found[engine] = json.loads(ran.stdout)
    print(
        f"{'row':40} {'undertow ms':>12} {'watched':>8} {'sampled':>8} {'torch ms':>10} {'watched':>8} {'sampled':>8}"
    )
    for name, times in found["undertow"].items():
        cells = [
            f"{bare * 1e3:11.3f} {ratio:7.2f}x {less:7.2f}x" for bare, ratio, less in (times, found["torch"][name])
        ]
        print(f"{name:40}", *cells)


if __name__ == "__main__":
    main()
