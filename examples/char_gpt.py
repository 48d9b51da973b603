"""A small GPT learns to write, character by character, from a short text, and then writes some.

python examples/char_gpt.py             on PyTorch
undertow run examples/char_gpt.py       on undertow, with the same numbers
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
from loss_curve import LossCurve, options
from torch.nn import functional as F


@dataclass
class Config:
    """The shape of the network."""

    characters: int
    context: int = 64
    layers: int = 3
    heads: int = 4
    width: int = 64
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    """Every place looks at itself and at what came before it."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.projection = nn.Linear(config.width, config.width)
        self.residual_dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        batch, time, width = x.size()
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, time, width)
        return self.residual_dropout(self.projection(y))


class Block(nn.Module):
    """Attention and a perceptron, each beside a path that skips it."""

    def __init__(self, config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters in, a guess at the next character out. The first and the last layer share their weights."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "tokens": nn.Embedding(config.characters, config.width),
                "places": nn.Embedding(config.context, config.width),
                "dropout": nn.Dropout(config.dropout),
                "blocks": nn.ModuleList([Block(config) for _ in range(config.layers)]),
                "norm": nn.LayerNorm(config.width),
            }
        )
        self.head = nn.Linear(config.width, config.characters, bias=False)
        self.head.weight = self.transformer.tokens.weight
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("projection.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))

    def initialise(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens, targets=None):
        places = torch.arange(tokens.size(1), dtype=torch.long, device=tokens.device)
        x = self.transformer.dropout(self.transformer.tokens(tokens) + self.transformer.places(places))
        for block in self.transformer.blocks:
            x = block(x)
        logits = self.head(self.transformer.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    def optimizer(self, lr, weight_decay=0.1):
        """AdamW that lets only matrices decay."""
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        groups = [
            {"params": [parameter for parameter in parameters if parameter.dim() >= 2], "weight_decay": weight_decay},
            {"params": [parameter for parameter in parameters if parameter.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))

    @torch.no_grad()
    def write(self, tokens, length, temperature=0.8, best=10):
        """The tokens, and `length` more that the model draws from its guesses."""
        for _ in range(length):
            logits, _ = self(tokens[:, -self.config.context :])
            logits = logits[:, -1, :] / temperature
            values, _ = torch.topk(logits, min(best, logits.size(-1)))
            logits[logits < values[:, [-1]]] = -float("inf")
            tokens = torch.cat((tokens, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return tokens


def main():
    text_file = Path(__file__).parent / "data" / "tide.txt"
    args = options(__doc__, text=str(text_file), steps=300, batch=12, lr=3e-3, write=200, seed=1337)
    torch.manual_seed(args.seed)

    text = Path(args.text).read_text()
    alphabet = sorted(set(text))
    number = {character: index for index, character in enumerate(alphabet)}
    data = torch.tensor([number[character] for character in text], dtype=torch.long)

    model = GPT(Config(characters=len(alphabet)))
    context = model.config.context
    print(f"{len(text)} characters, {len(alphabet)} different; {sum(p.numel() for p in model.parameters())} parameters")
    optimizer = model.optimizer(args.lr)
    warm_up = min(20, args.steps)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=warm_up),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps, eta_min=args.lr / 10),
        ],
        milestones=[warm_up],
    )

    curve = LossCurve(args.steps)
    for _ in range(args.steps):
        starts = torch.randint(len(data) - context, (args.batch,))
        tokens = torch.stack([data[start : start + context] for start in starts])
        targets = torch.stack([data[start + 1 : start + 1 + context] for start in starts])
        _, loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        curve(loss.item())
    curve.save(args.losses)

    if args.write:
        model.eval()
        start = torch.tensor([[number["T"]]])
        print("".join(alphabet[index] for index in model.write(start, args.write)[0].tolist()))


if __name__ == "__main__":
    main()
