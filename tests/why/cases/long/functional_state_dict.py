import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
scale = nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([*net.parameters(), scale], lr=0.1)
for _ in range(3):
    weights = {name: value * scale for name, value in net.state_dict().items()}
    x = torch.randn(5, 3)
    loss = functional_call(net, weights, (x,)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(net[0].weight.grad)
