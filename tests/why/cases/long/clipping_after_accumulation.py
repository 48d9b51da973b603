import torch
from torch import nn
import torch.nn.functional as F


def clip(limit):
    def hook(param):
        norm = param.grad.norm()
        if norm > limit:
            param.grad.mul_(limit / norm)
        return param.grad
    return hook


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h, _ = self.attn(x, x, x, need_weights=False)
        return self.out(h.mean(1))


torch.manual_seed(0)
model = Attention(6)
for p in model.parameters():
    p.register_post_accumulate_grad_hook(clip(0.5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(2):
    x = torch.randn(4, 5, 6)
    loss = F.mse_loss(model(x), x.sum((1, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
