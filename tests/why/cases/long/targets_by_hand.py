import torch
import torch.nn.functional as F

torch.manual_seed(0)
w1 = torch.randn(4, 8, requires_grad=True)
w2 = torch.randn(8, 1, requires_grad=True)
v1 = (torch.randn(4, 8) / 2).requires_grad_()
v2 = torch.randn(8, 1, requires_grad=True)
opt = torch.optim.SGD([w1, w2], lr=0.01)
other = torch.optim.SGD([v1, v2], lr=0.01)
for step in range(6):
    x = torch.randn(5, 4)
    target = torch.tanh(torch.tanh(x @ v1) @ v2).detach()
    loss = (torch.tanh(torch.tanh(x @ w1) @ w2) - target).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2:
        other.zero_grad()
        torch.tanh(torch.tanh(x @ v1) @ v2).square().mean().backward()
        other.step()
