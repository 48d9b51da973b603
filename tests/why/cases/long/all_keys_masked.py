import math

import torch
from torch import nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, keep):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.size(-1))
        scores = scores.masked_fill(~keep.unsqueeze(1), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return weights @ self.v(x)


class Tagger(nn.Module):
    def __init__(self, vocab=12, width=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, width, padding_idx=0)
        self.attn = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 2)

    def forward(self, ids):
        keep = ids != 0
        h = self.emb(ids)
        h = self.norm(h + self.attn(h, keep))
        return self.out(h.mean(dim=1))


torch.manual_seed(0)
ids = torch.tensor([[3, 5, 2, 0], [4, 1, 0, 0], [0, 0, 0, 0]])
labels = torch.tensor([0, 1, 1])
tagger = Tagger()
optimizer = torch.optim.AdamW(tagger.parameters(), lr=1e-2)
for epoch in range(2):
    logits = tagger(ids)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
