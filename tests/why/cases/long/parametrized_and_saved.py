import os
import tempfile

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim.swa_utils import AveragedModel


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = weight_norm(nn.Linear(6, 12))
        self.mid = spectral_norm(nn.Linear(12, 12))
        self.out = nn.Linear(12, 3)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        h = F.relu(self.inp(x))
        h = F.relu(self.mid(h)) + h
        return F.normalize(self.out(h), dim=1) * self.temperature


def triplets(count, spread):
    anchor = torch.randn(count, 6)
    return anchor, anchor + 0.1 * torch.randn(count, 6), anchor + spread * torch.randn(count, 6)


def save(path, model, optimizer, epoch):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def load(path, model, optimizer):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"]


torch.manual_seed(0)
model = Embedder()
averaged = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_fn = nn.TripletMarginLoss(margin=0.3)
losses, resumed = [], False
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    for epoch in range(3):
        for spread in (0.5, 3.0):
            a, p, n = triplets(8, spread)
            loss = loss_fn(model(a), model(p), model(n))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        averaged.update_parameters(model)
        save(path, model, optimizer, epoch)
        if epoch == 1:
            model = Embedder()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            resumed = load(path, model, optimizer) == 1
with torch.no_grad():
    spread = (averaged(triplets(4, 1.0)[0]) - model(triplets(4, 1.0)[0])).norm()
print(losses, resumed, spread.item())
