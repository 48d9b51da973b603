import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 10), nn.Tanh())
        self.head = nn.Linear(10, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def influence(model, x, y):
    """Gradient of each sample's loss in the head's parameters."""
    scores = []
    for xi, yi in zip(x, y):
        loss = F.cross_entropy(model(xi.unsqueeze(0)), yi.unsqueeze(0))
        grads = torch.autograd.grad(loss, list(model.head.parameters()))
        scores.append(torch.cat([g.flatten() for g in grads]).norm().item())
    return scores


torch.manual_seed(0)
model = Model()
sizes = []
model.encoder[0].weight.register_hook(lambda g: sizes.append(g.norm().item()))
x, y = torch.randn(6, 6), torch.randint(0, 2, (6,))
scores = influence(model, x, y)
ranking = sorted(range(6), key=lambda i: -scores[i])
print("most influential", ranking[:3], "encoder gradients", sizes)
