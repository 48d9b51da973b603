"""Training steps on one GPU: undertow.compile beside torch, torch.compile and JAX written by hand.

    python -m benchmarks.gpu_rows [--only REGEX] [--engines A,B,…] [--rounds N] [--seconds S] [--json FILE]

Needs torch and JAX with CUDA. Each engine runs in a process of its own, and they take turns; the last step of a turn is
waited for, so the work itself is timed and not its launch. The first losses are printed beside the times: torch and
undertow start from the same weights, so theirs agree.
"""

from __future__ import annotations

import argparse
import os
import re
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from benchmarks.compile_rows import Result, measured
from benchmarks.gpu_models import MODELS
from benchmarks.rows import Row, Step, classes, normal
from benchmarks.run import Process, write_json

ENGINES = ("torch", "torch.compile", "undertow.compile", "jax")
CLIP = 0.1


def clipped_mlp(torch: ModuleType, sizes: tuple[int, ...] = (784, 512, 512, 10), batch: int = 128) -> Step:
    """An MLP whose gradients are clipped by a tensor hook on every parameter."""
    nn = torch.nn
    first, second, third = (nn.Linear(sizes[at], sizes[at + 1]) for at in range(3))
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third).to("cuda")
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-CLIP, CLIP))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, target = normal(torch, 0, batch, sizes[0]).to("cuda"), classes(torch, 1, sizes[-1], batch).to("cuda")

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt2(
    torch: ModuleType, layers: int = 12, width: int = 768, heads: int = 12, context: int = 1024, words: int = 50304,
    batch: int = 8, device: str = "cuda",
) -> Step:  # fmt: skip
    """GPT-2 with 124 million parameters in float32, computed in bfloat16 through autocast; words padded to 64s."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (part.view(batch, context, heads, width // heads).transpose(1, 2) for part in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, context, width)
            x = x + self.projection(y)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            nn.init.normal_(self.head.weight, std=0.02)
            self.words.weight = self.head.weight

        def forward(self, tokens: Any, places: Any) -> Any:
            return self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))

    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens, targets = (classes(torch, seed, words, batch, context).to(device) for seed in (0, 1))
    places = torch.arange(context).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            logits = model(tokens, places)
            loss = F.cross_entropy(logits.view(-1, words), targets.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def model_row(model: str, hooks: str) -> Row:
    """Return the row of a model with hooks of one kind."""
    return Row(f"{model}, hooks: {hooks}", lambda torch: MODELS[model](torch, hooks)[0])


ROWS: tuple[Row, ...] = (
    Row("MLP 784-512-512-10, Adam, 6 clipping hooks", clipped_mlp, by_hand=True),
    Row("GPT-2 124M, bfloat16, AdamW", gpt2, by_hand=True),
    *[model_row(model, hooks) for model in MODELS for hooks in ("none", "all")],
)
AIMS = {ROWS[0].name: 0.25, ROWS[1].name: 21.0}  # milliseconds a step, of undertow.compile on an H200


def report(result: Result, losses: dict[str, list[float]]) -> str:
    """One row of the table, a line for each engine."""
    aim = AIMS.get(result.name)
    lines = [result.name if aim is None else f"{result.name} (aim: {aim} ms)"]
    for engine, microseconds in result.microseconds.items():
        shown = " ".join(f"{loss:.4f}" for loss in losses[engine])
        first = result.first_seconds[engine]
        lines.append(f"    {engine:<18}{microseconds / 1e3:>9.3f} ms   first step {first:>6.1f} s   losses {shown}")
    lines += [f"    {engine:<18} FAILED: {reason}" for engine, reason in result.failed.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"some of {', '.join(ENGINES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each engine gets (default 7)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn (default 0.5)")
    parser.add_argument("--json", metavar="FILE", help="also write the results there; - is standard output")
    options = parser.parse_args()

    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.3")  # there are two processes of JAX, and torch's
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        processes = {engine: stack.enter_context(Process(engine)) for engine in options.engines.split(",")}
        for row in ROWS:
            if re.search(options.only, row.name):
                result = measured(processes, row, options.rounds, options.seconds)
                losses = {engine: processes[engine].ask("losses") for engine in result.microseconds}
                results.append(result._asdict() | {"losses": losses})
                print(report(result, losses), flush=True)
                write_json(results, options.json)  # after each row: a machine that is lent may be gone after the next


if __name__ == "__main__":
    main()
