import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean(dim=(2, 3)))


def freeze(module):
    module.eval()
    for p in module.parameters():
        p.requires_grad_(False)


class Monitor:
    def __init__(self):
        self.seen = 0

    def on_backward(self, module, grad_input, grad_output):
        self.seen += 1


torch.manual_seed(0)
net, watch = Net(), Monitor()
freeze(net.stem)
net.stem.register_full_backward_hook(watch.on_backward)
net.body.register_full_backward_hook(lambda m, gi, go: None)
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05)
for step in range(3):
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 2, (6,))
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print("stem hook calls", watch.seen)
