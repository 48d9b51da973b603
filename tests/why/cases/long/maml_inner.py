import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(1, 12), nn.Linear(12, 1)

    def functional(self, x, params):
        h = torch.tanh(F.linear(x, params["l1.weight"], params["l1.bias"]))
        return F.linear(h, params["l2.weight"], params["l2.bias"])

    def forward(self, x):
        return self.functional(x, dict(self.named_parameters()))


def sine_task(generator):
    amplitude = torch.rand(1, generator=generator) * 2 + 0.5
    phase = torch.rand(1, generator=generator) * 3

    def sample(count):
        x = torch.rand(count, 1, generator=generator) * 6 - 3
        return x, amplitude * torch.sin(x + phase)

    return sample


def adapt(net, sample, steps=2, lr=0.1):
    fast = dict(net.named_parameters())
    for _ in range(steps):
        x, y = sample(8)
        loss = F.mse_loss(net.functional(x, fast), y)
        grads = torch.autograd.grad(loss, fast.values(), create_graph=True)
        fast = {name: p - lr * g for (name, p), g in zip(fast.items(), grads)}
    return fast


torch.manual_seed(0)
generator = torch.Generator().manual_seed(3)
net = Net()
outer = torch.optim.Adam(net.parameters(), lr=1e-2)
meta_losses = []
for step in range(3):
    outer.zero_grad()
    total = 0.0
    for _ in range(3):
        sample = sine_task(generator)
        fast = adapt(net, sample)
        x, y = sample(10)
        total = total + F.mse_loss(net.functional(x, fast), y)
    (total / 3).backward()
    outer.step()
    meta_losses.append(total.item() / 3)
with torch.no_grad():
    x, y = sine_task(generator)(10)
    before = F.mse_loss(net(x), y)
print(meta_losses, before.item())
