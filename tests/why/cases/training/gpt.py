"""A small character transformer: tied embeddings, micro-batches, warm-up schedule, weight decay groups, generation."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F

TEXT = "the tide goes out and the tide comes in, and what it takes it brings again. " * 4
VOCABULARY = sorted(set(TEXT))
CODE = {c: i for i, c in enumerate(VOCABULARY)}


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).bool())

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = [part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v)]
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, context)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, width=16, heads=2, layers=2, context=16):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, context) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialise)

    def _initialise(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, index, targets=None):
        positions = torch.arange(index.shape[1])
        x = self.tokens(index) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    @torch.no_grad()
    def generate(self, index, count):
        self.eval()
        for _ in range(count):
            logits, _ = self(index[:, -self.context :])
            choice = torch.multinomial(logits[:, -1].softmax(-1), 1)
            index = torch.cat([index, choice], dim=1)
        self.train()
        return index


def optimizer_for(model, rate, decay):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate)


def batch(data, context, size):
    starts = torch.randint(len(data) - context - 1, (size,)).tolist()
    x = torch.stack([data[s : s + context] for s in starts])
    y = torch.stack([data[s + 1 : s + 1 + context] for s in starts])
    return x, y


def train(model, data, steps=4, micro=2):
    optimizer = optimizer_for(model, 3e-3, 0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 3))
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(micro):
            x, y = batch(data, model.context, 4)
            logits, loss = model(x, y)
            (loss / micro).backward()
            total += loss.item() / micro
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(total)
    return losses


torch.manual_seed(1)
data = torch.tensor([CODE[c] for c in TEXT])
model = GPT(len(VOCABULARY))
losses = train(model, data)
print([round(value, 3) for value in losses])
start = torch.zeros((1, 1), dtype=torch.long)
print(repr("".join(VOCABULARY[i] for i in model.generate(start, 6)[0].tolist())))
