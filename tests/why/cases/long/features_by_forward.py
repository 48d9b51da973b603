import torch
from torch import nn
import torch.nn.functional as F


class Stage(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(b)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Stage(1, 4), Stage(4, 8), Stage(8, 8)])
        self.head = nn.Linear(8, 3)

    def features(self, x):
        maps = []
        for stage in self.stages:
            x = stage.forward(x)
            maps.append(x)
        return maps

    def forward(self, x):
        return self.head(self.features(x)[-1].mean(dim=(2, 3)))


class ShapeRecorder:
    def __init__(self):
        self.shapes = []

    def __call__(self, module, args, output):
        self.shapes.append(tuple(output.shape))


torch.manual_seed(0)
net, recorder = Pyramid(), ShapeRecorder()
net.stages[1].register_forward_hook(recorder)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(2):
    x, y = torch.randn(4, 1, 16, 16), torch.randint(0, 3, (4,))
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), recorder.shapes)
