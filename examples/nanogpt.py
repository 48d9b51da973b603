"""A GPT on characters, of the size that people start with: six layers, six heads, 384 wide, 10.7 million parameters.

    python examples/nanogpt.py                          # on PyTorch
    undertow run examples/nanogpt.py                    # on undertow
    undertow why examples/nanogpt.py --engine torch     # watched: every gradient and hook accounted for

It has what such programs have: a causal mask or fused attention, tied embeddings, scaled initialisation, weight decay on
matrices only, gradient accumulation, clipping, a warm-up and cosine schedule, evaluation, checkpoints, sampling, and
hooks that keep an eye on activations and gradients.
"""

import argparse
import io
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    layers: int = 6
    heads: int = 6
    width: int = 384
    context: int = 64
    words: int = 65
    dropout: float = 0.1
    fused: bool = True


class Attention(nn.Module):
    """Every position looks at those before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        assert config.width % config.heads == 0
        self.heads, self.width, self.dropout = config.heads, config.width, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.projection = nn.Linear(config.width, config.width, bias=False)
        self.drop_weights = nn.Dropout(config.dropout)
        self.drop_result = nn.Dropout(config.dropout)
        self.fused = config.fused
        mask = torch.tril(torch.ones(config.context, config.context)).view(1, 1, config.context, config.context)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(self.width, dim=2)
        q = q.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        k = k.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        if self.fused:
            dropout = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            y = self.drop_weights(F.softmax(scores, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.drop_result(self.projection(y))


class Perceptron(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width, bias=False)
        self.gelu = nn.GELU()
        self.projection = nn.Linear(4 * config.width, config.width, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.projection(self.gelu(self.up(x))))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm_2 = nn.LayerNorm(config.width)
        self.perceptron = Perceptron(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.perceptron(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.words, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.words, bias=False)
        self.tokens.weight = self.head.weight
        self.apply(self._initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("projection.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(
        self, index: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        _, length = index.shape
        assert length <= self.config.context, f"{length} characters do not fit into {self.config.context}"
        x = self.drop(self.tokens(index) + self.places(torch.arange(length, device=index.device)))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def optimizer(self, decay: float, rate: float, betas: tuple[float, float]) -> torch.optim.Optimizer:
        """Matrices decay, vectors do not."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        groups = [
            {"params": [parameter for parameter in trained if parameter.dim() >= 2], "weight_decay": decay},
            {"params": [parameter for parameter in trained if parameter.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=rate, betas=betas)

    @torch.no_grad()
    def generate(self, index: torch.Tensor, count: int, temperature: float = 0.8, best: int = 20) -> torch.Tensor:
        for _ in range(count):
            logits, _ = self(index[:, -self.config.context :])
            logits = logits[:, -1, :] / temperature
            smallest = torch.topk(logits, min(best, logits.size(-1))).values[:, [-1]]
            logits[logits < smallest] = -float("inf")
            index = torch.cat((index, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return index


class Text:
    """Characters as numbers, cut into random pieces."""

    def __init__(self, text: str, context: int, batch: int) -> None:
        self.characters = sorted(set(text))
        number = {character: place for place, character in enumerate(self.characters)}
        data = torch.tensor([number[character] for character in text], dtype=torch.long)
        border = int(0.9 * len(data))
        self.parts = {"train": data[:border], "valid": data[border:]}
        self.context, self.batch = context, batch

    def draw(self, part: str) -> tuple[torch.Tensor, torch.Tensor]:
        data = self.parts[part]
        starts = torch.randint(len(data) - self.context, (self.batch,)).tolist()
        x = torch.stack([data[start : start + self.context] for start in starts])
        y = torch.stack([data[start + 1 : start + 1 + self.context] for start in starts])
        return x, y

    def read(self, numbers: list[int]) -> str:
        return "".join(self.characters[number] for number in numbers)


class Eye:
    """Hooks that note how large activations and gradients are."""

    def __init__(self, model: GPT) -> None:
        self.activations: dict[str, float] = {}
        self.gradients: dict[str, float] = {}
        self.handles = []
        for number, block in enumerate(model.blocks):
            self.handles.append(block.register_forward_hook(self.activation(f"block {number}")))
            weight = block.perceptron.up.weight
            self.handles.append(weight.register_post_accumulate_grad_hook(self.gradient(f"block {number}")))

    def activation(self, name: str):
        def hook(module: nn.Module, args: tuple, output: torch.Tensor) -> None:
            self.activations[name] = output.detach().abs().mean().item()

        return hook

    def gradient(self, name: str):
        def hook(parameter: torch.Tensor) -> None:
            self.gradients[name] = parameter.grad.norm().item()

        return hook

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def evaluate(model: GPT, text: Text, rounds: int) -> dict[str, float]:
    model.eval()
    result = {}
    for part in ("train", "valid"):
        losses = torch.zeros(rounds)
        for number in range(rounds):
            _, loss = model(*text.draw(part))
            losses[number] = loss.item()
        result[part] = losses.mean().item()
    model.train()
    return result


def rate_at(step: int, steps: int, highest: float, lowest: float, warm_up: int) -> float:
    if step < warm_up:
        return highest * (step + 1) / (warm_up + 1)
    share = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return lowest + 0.5 * (1.0 + math.cos(math.pi * share)) * (highest - lowest)


def train(model: GPT, text: Text, arguments: argparse.Namespace) -> bytes:
    """Trains, and returns the best checkpoint."""
    optimizer = model.optimizer(decay=0.1, rate=arguments.rate, betas=(0.9, 0.99))
    eye = Eye(model)
    best, checkpoint = math.inf, b""
    for step in range(arguments.steps):
        rate = rate_at(step, arguments.steps, arguments.rate, arguments.rate / 10, warm_up=2)
        for group in optimizer.param_groups:
            group["lr"] = rate
        if step % arguments.evaluate_every == 0:
            losses = evaluate(model, text, rounds=2)
            print(f"step {step:4}: train {losses['train']:.3f}, valid {losses['valid']:.3f}")
            if losses["valid"] < best:
                best, file = losses["valid"], io.BytesIO()
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "config": asdict(model.config),
                }
                torch.save(state, file)
                checkpoint = file.getvalue()
        start = time.perf_counter()
        total = 0.0
        for _ in range(arguments.accumulate):
            _, loss = model(*text.draw("train"))
            loss = loss / arguments.accumulate
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step:4}: loss {total:.3f}, norm {norm.item():.2f}, {(time.perf_counter() - start) * 1e3:.0f} ms")
    eye.close()
    print("activations", {name: round(value, 2) for name, value in eye.activations.items()})
    return checkpoint


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--evaluate-every", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--slow-attention", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(1337)
    source = Path(__file__).read_text()  # it learns to write itself
    characters = len(set(source))
    config = Config(
        layers=arguments.layers, width=arguments.width, words=characters, fused=not arguments.slow_attention
    )
    text = Text(source, config.context, arguments.batch)
    model = GPT(config)
    print(f"{model.count() / 1e6:.2f} million parameters, {characters} characters")
    checkpoint = train(model, text, arguments)
    state = torch.load(io.BytesIO(checkpoint), weights_only=True)
    best = GPT(Config(**state["config"]))
    best.load_state_dict(state["model"])
    best.eval()
    start = torch.zeros((1, 1), dtype=torch.long)
    print(repr(text.read(best.generate(start, 16)[0].tolist())))


if __name__ == "__main__":
    main()
