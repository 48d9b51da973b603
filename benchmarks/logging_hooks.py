"""What hooks that log cost in a compiled step: the same GPT with and without them, taking turns in one process.

    python -m benchmarks.logging_hooks            # the small model, on the CPU
    python -m benchmarks.logging_hooks --large    # GPT-2 124M, on a GPU

Each row is the time of a step with hooks over that of the step without, the least of several rounds. What the hooks log is
compared with eager mode in the same run (the small model only), and activations among a program's results are counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import undertow as torch
from undertow import nn
from undertow.nn import functional as F

Step = Callable[[], Any]


class Sizes:
    def __init__(self, large: bool) -> None:
        self.layers, self.width, self.heads = (12, 768, 12) if large else (4, 128, 4)
        self.length, self.words, self.batch = (1024, 50304, 8) if large else (64, 256, 8)


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, self.heads = sizes.width, sizes.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.attend(self.before(x)).split(width, 2)
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2) for each in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.between(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(sizes.words, sizes.width), nn.Embedding(sizes.length, sizes.width)
        self.blocks = nn.ModuleList([Block(sizes) for _ in range(sizes.layers)])
        self.last, self.head = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, sizes.words, bias=False)

    def forward(self, given: Any, wanted: Any) -> Any:
        x = self.words(given) + self.places(torch.arange(given.shape[1], device=given.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), wanted.view(-1))


def hang(kind: str, model: Any, log: list[Any]) -> None:
    """Register the hooks of a row."""
    if "clamp" in kind:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient.clamp(-1, 1))
    for block in model.blocks:
        if "forward" in kind:
            block.register_forward_hook(lambda module, args, out: log.append(out.detach().float().pow(2).mean()))
        if "backward" in kind:
            block.register_full_backward_hook(lambda module, into, out: log.append(out[0].float().norm()))
        if "item" in kind:
            block.register_full_backward_hook(lambda module, into, out: log.append(out[0].float().norm().item()))


def built(kind: str, sizes: Sizes, device: str) -> tuple[Step, list[Any]]:
    """Return a step with hooks, and what they fill."""
    torch.manual_seed(0)
    model, log = Model(sizes).to(device), list[Any]()
    hang(kind, model, log)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    given, wanted = (torch.randint(0, sizes.words, (sizes.batch, sizes.length)).to(device) for _ in range(2))

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device != "cpu"):
            loss = model(given, wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, log


def seconds(step: Step, calls: int) -> float:
    """Return the time of one call, when the results of several have arrived."""
    began = time.perf_counter()
    for _ in range(calls):
        loss = step()
    float(loss)
    return (time.perf_counter() - began) / calls


def activations(step: Any, sizes: Sizes) -> int:
    """Return how many activations a step's programs give to hooks."""
    programs = [each for programs in step.programs.values() for each in programs if not each.runs_as_written]
    shown = [array for each in programs for call in each.callbacks.host_calls for array in call.view.captured]
    return sum(array.size >= sizes.batch * sizes.length for array in shown)


def main() -> None:
    """Measure all rows, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sizes, device = Sizes(options.large), "cuda" if torch.cuda.is_available() else "cpu"
    kinds = ("none", "clamp", "forward", "backward", "item", "clamp forward backward")
    steps: dict[str, Any] = {}
    for kind in kinds:
        step, log = built(kind, sizes, device)
        steps[kind] = compiled = torch.compile(step)
        for _ in range(3):
            compiled()
        if not options.large:
            eager, expected = built(kind, sizes, device)
            for _ in range(3):
                eager()
            pairs = zip(map(float, log), map(float, expected), strict=True)
            assert all(abs(a - b) <= 1e-3 * max(1.0, abs(b)) for a, b in pairs), kind
    best = dict.fromkeys(kinds, float("inf"))
    for _ in range(options.rounds):
        for kind, step in steps.items():
            best[kind] = min(best[kind], seconds(step, 10))
    for kind in kinds:
        print(
            f"{kind:24} {best[kind] * 1e3:8.3f} ms   {best[kind] / best['none']:.3f} of the step without hooks   "
            f"{activations(steps[kind], sizes)} activations given to hooks"
        )


if __name__ == "__main__":
    main()
