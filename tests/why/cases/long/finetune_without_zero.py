import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 14), nn.ReLU())
        self.fc = nn.Linear(14, 2)

    def forward(self, x):
        return self.fc(self.body(x))


class Loop:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2], gamma=0.1)

    def epoch(self):
        total = 0.0
        for x, y in self.loader:
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.scheduler.step()
        return total / len(self.loader)


torch.manual_seed(0)
x = torch.randn(40, 7)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=10, shuffle=True)
model = Model()
loop = Loop(model, loader)
norms = []
for epoch in range(3):
    loss = loop.epoch()
    norms.append(model.fc.weight.grad.norm().item())
    print(epoch, loss, norms[-1])
