import torch
from torch import nn

torch.manual_seed(0)


def batches(count):
    """Normalised batches."""
    with torch.no_grad():
        for _ in range(count):
            raw = torch.randn(5, 4)
            yield (raw - raw.mean(0)) / (raw.std(0) + 1e-6), torch.randint(0, 2, (5,))


net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in batches(3):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
