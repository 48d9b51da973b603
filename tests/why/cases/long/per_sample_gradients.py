import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 12), nn.Softplus(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(20, 5), torch.randint(0, 3, (20,))


def per_sample_norms(x, y):
    losses = F.cross_entropy(net(x), y, reduction="none")
    norms = []
    for i, loss in enumerate(losses):
        grads = torch.autograd.grad(loss, net.parameters(), retain_graph=i < len(losses) - 1)
        norms.append(torch.sqrt(sum(g.pow(2).sum() for g in grads)).item())
    return norms


def rows_of_jacobian(point):
    point = point.clone().requires_grad_(True)
    out = net(point)
    rows = [torch.autograd.grad(out[i], point, retain_graph=True)[0] for i in range(out.numel())]
    return torch.stack(rows)


def hessian_vector(point, vector):
    point = point.clone().requires_grad_(True)
    value = net(point).logsumexp(0)
    (slope,) = torch.autograd.grad(value, point, create_graph=True)
    (product,) = torch.autograd.grad(slope @ vector, point)
    return product


history = []
for epoch in range(4):
    norms = per_sample_norms(x, y)
    weights = 1 / (torch.tensor(norms) + 1e-3)
    weights = weights / weights.sum()
    optimizer.zero_grad()
    loss = (weights * F.cross_entropy(net(x), y, reduction="none")).sum()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
jacobian = rows_of_jacobian(x[0])
hvp = hessian_vector(x[1], torch.randn(5))
image = x[:4].clone().requires_grad_(True)
scores = net(image)
scores.gather(1, y[:4, None]).sum().backward()
saliency = image.grad.abs().amax(dim=1)
net.zero_grad()
print(history, jacobian.norm().item(), hvp.norm().item(), saliency)
