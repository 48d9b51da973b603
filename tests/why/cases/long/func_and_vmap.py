import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
params = {k: v.detach() for k, v in net.named_parameters()}


def loss_of(params, x, y):
    return (functional_call(net, params, (x,)) - y).square().mean()


x, y = torch.randn(5, 3), torch.randn(5, 1)
for _ in range(3):
    g = grad(loss_of)(params, x, y)
    params = {k: v - 0.1 * g[k] for k, v in params.items()}
per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0))(params, x, y)
print({k: tuple(v.shape) for k, v in per_sample.items()})
