import torch
from torch import nn
import torch.nn.functional as F


class MoCo(nn.Module):
    def __init__(self, width=6, size=24, momentum=0.95, temperature=0.2):
        super().__init__()
        self.momentum, self.temperature, self.size = momentum, temperature, size
        self.query = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, width))
        self.key = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, width))
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.data.copy_(q.data)
            k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(width, size), dim=0))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def _move_key(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.data = k.data * self.momentum + q.data * (1.0 - self.momentum)

    @torch.no_grad()
    def _enqueue(self, keys):
        at = int(self.pointer)
        self.queue[:, at:at + keys.size(0)] = keys.T
        self.pointer.fill_((at + keys.size(0)) % self.size)

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            self._move_key()
            k = F.normalize(self.key(b), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ self.queue.clone().detach()
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        self._enqueue(k)
        return logits, torch.zeros(logits.size(0), dtype=torch.long)


clips = 0


def clip_hook(grad):
    global clips
    clips += 1
    norm = grad.norm()
    return grad * (1.0 / norm) if norm > 1.0 else grad


def main(steps=3):
    moco = MoCo()
    for p in moco.query.parameters():
        p.register_hook(clip_hook)
    optimizer = torch.optim.SGD(moco.query.parameters(), lr=0.1, weight_decay=1e-4)
    for step in range(steps):
        images = torch.randn(4, 8)
        logits, labels = moco(images + 0.1 * torch.randn(4, 8), images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        top = (logits.argmax(dim=1) == labels).float().mean()
        print(step, f"loss {loss.item():.3f} top1 {top:.2f}")
    return moco


torch.manual_seed(0)
moco = main()
