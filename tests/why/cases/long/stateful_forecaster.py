import torch
from torch import nn
import torch.nn.functional as F


class Forecaster(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.cell = nn.LSTMCell(1, width)
        self.out = nn.Linear(width, 1)
        self.width = width
        self.state = None

    def reset(self, batch):
        self.state = torch.zeros(batch, self.width), torch.zeros(batch, self.width)

    def forward(self, window):
        if self.state is None:
            self.reset(window.size(0))
        outputs = []
        for t in range(window.size(1)):
            self.state = self.cell(window[:, t], self.state)
            outputs.append(self.out(self.state[0]))
        return torch.stack(outputs, dim=1)


def windows(series, size):
    for start in range(0, series.size(1) - size, size):
        yield series[:, start:start + size], series[:, start + 1:start + size + 1]


torch.manual_seed(0)
series = torch.sin(torch.arange(0, 25) * 0.3).view(1, -1, 1)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    model.reset(1)
    for x, y in windows(series, 5):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
