import torch
from torch import nn
import torch.nn.functional as F


class GradientProbe:
    """Measures gradient norms of parameters while its block lasts."""

    def __init__(self, model):
        self.model = model
        self.norms = {}

    def __enter__(self):
        self.handles = []
        for name, p in self.model.named_parameters():
            self.handles.append(p.register_hook(self._measure(name)))
        return self

    def _measure(self, name):
        def hook(grad):
            self.norms[name] = grad.norm().item()
        return hook

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
probe = GradientProbe(net)
for step in range(3):
    x, y = torch.randn(10, 4), torch.randint(0, 2, (10,))
    with probe:
        loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), probe.norms)
