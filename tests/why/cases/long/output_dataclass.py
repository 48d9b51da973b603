from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Encoded:
    hidden: torch.Tensor
    pooled: torch.Tensor


class Encoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.mix = nn.Linear(width, width)

    def forward(self, ids):
        hidden = torch.tanh(self.mix(self.emb(ids)))
        if ids.dim() == 1:
            hidden = hidden.unsqueeze(0)
        return Encoded(hidden=hidden, pooled=hidden.mean(dim=1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(20, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids):
        return self.head(self.encoder(ids).pooled)


flows = {}


def watch(name):
    def hook(module, grad_input, grad_output):
        flows[name] = grad_output[0].norm().item()
    return hook


torch.manual_seed(0)
model = Model()
model.encoder.register_full_backward_hook(watch("encoder"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    ids, y = torch.randint(0, 20, (5, 4)), torch.randint(0, 2, (5,))
    loss = F.cross_entropy(model(ids), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flows)
