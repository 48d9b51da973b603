import torch
from torch import nn
import torch.nn.functional as F

grads = {"conv": [], "after": []}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.act = nn.ReLU(inplace=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        h = self.conv(x)
        h.register_hook(lambda g: grads["conv"].append(g.clone()))
        h = self.act(h)
        h.retain_grad()
        self.last = h
        return self.fc(h.mean(dim=(2, 3)))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x, y = torch.randn(5, 1, 6, 6), torch.randint(0, 2, (5,))
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    grads["after"].append(net.last.grad.clone())
    optimizer.step()
    print(step, loss.item())
