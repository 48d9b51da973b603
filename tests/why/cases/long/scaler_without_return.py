import torch
from torch import nn
import torch.nn.functional as F


class LayerwiseScale:
    """Smaller gradients for lower layers."""

    def __init__(self, model, decay):
        self.handles = []
        depth = len(model)
        for i, layer in enumerate(model):
            factor = decay ** (depth - 1 - i)
            for p in layer.parameters():
                self.handles.append(p.register_hook(self.scale_by(factor)))

    @staticmethod
    def scale_by(factor):
        def scale(grad):
            scaled = grad * factor
            if factor < 1:
                scaled = scaled.clamp(-1, 1)
        return scale


def build():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(5, 5) for _ in range(3)])


def first_norm(model, x):
    loss = F.mse_loss(model(x), x)
    model.zero_grad()
    loss.backward()
    return model[0].weight.grad.norm()


x = torch.randn(12, 5)
plain = first_norm(build(), x)
model = build()
LayerwiseScale(model, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
norms = []
for step in range(2):
    norms.append(first_norm(model, x))
    optimizer.step()
print(plain, norms)
