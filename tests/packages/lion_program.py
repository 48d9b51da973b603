"""Steps of the Lion optimizer, in its three forms."""

import torch
from lion_pytorch import Lion
from lion_pytorch.cautious_lion import Lion as CautiousLion
from lion_pytorch.foreach import Lion as ForeachLion
from torch import nn

OPTIMIZERS = {
    "plain": lambda params: Lion(params, lr=1e-3),
    "decay": lambda params: Lion(params, lr=1e-3, weight_decay=1e-2),
    "decoupled": lambda params: Lion(
        params, lr=1e-3, weight_decay=1e-2, decoupled_weight_decay=True, betas=(0.95, 0.98)
    ),
    "foreach": lambda params: ForeachLion(params, lr=1e-3, weight_decay=0.1),
    "cautious": lambda params: CautiousLion(params, lr=1e-3, weight_decay=0.1, cautious_factor=0.5),
}

for name, make in OPTIMIZERS.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = make(model.parameters())
    inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
    for step in range(20):
        loss = ((model(inputs) - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, step, loss.item())
    print(optimizer, sorted(optimizer.state_dict()["state"][0]))
