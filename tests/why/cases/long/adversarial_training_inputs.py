import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))

    def forward(self, x):
        return self.net(x)


def differentiate(loss, image):
    loss.backward(inputs=[image])
    return image.grad


def attack(model, image, label, eps, steps=2):
    adversarial = image.clone()
    for _ in range(steps):
        adversarial = adversarial.detach().requires_grad_(True)
        loss = F.cross_entropy(model(adversarial), label)
        step = eps / steps * differentiate(loss, adversarial).sign()
        adversarial = (adversarial + step).clamp(0, 1)
    return adversarial.detach()


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    image, label = torch.rand(8, 10), torch.randint(0, 3, (8,))
    hard = attack(model, image, label, 0.1).requires_grad_(True)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(hard), label)
    differentiate(loss, hard)
    optimizer.step()
    print(step, loss.item())
