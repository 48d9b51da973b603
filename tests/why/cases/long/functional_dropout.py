import torch
from torch import nn
import torch.nn.functional as F


class Classifier(nn.Module):
    def __init__(self, p=0.3):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(p)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        h = F.gelu(self.norm(self.fc1(x)))
        h = F.dropout(h, p=self.drop.p, training=self.training)
        return self.fc2(h)


rates = []


def measure(module, args, output):
    rates.append((output == 0).float().mean().item())


torch.manual_seed(0)
model = Classifier()
model.drop.register_forward_hook(measure)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), rates)
