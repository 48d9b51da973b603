import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.hid, self.out = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(F.relu(self.hid(F.relu(self.inp(x)))))


def train_epoch(model, optimizer, batches):
    model.train()
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


captured = []


def evaluate(model, batches):
    model.eval()
    captured.clear()
    model.hid.register_forward_hook(lambda m, a, out: captured.append(out.detach()))
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in batches]
    return sum(hits) / len(hits)


torch.manual_seed(0)
batches = [(torch.randn(9, 6), torch.randint(0, 2, (9,))) for _ in range(2)]
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sizes = []
for epoch in range(3):
    train_epoch(model, optimizer, batches)
    print(epoch, evaluate(model, batches))
    sizes.append(len(captured))
print(sizes)
