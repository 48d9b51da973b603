"""A network that solves the heat equation, with second derivatives in its loss."""

import torch
from torch import nn

torch.manual_seed(31)


class Field(nn.Module):
    """u(x, t) for the heat equation."""

    def __init__(self, width=10):
        super().__init__()
        act = nn.Tanh
        self.layers = nn.Sequential(nn.Linear(2, width), act(), nn.Linear(width, width), act(), nn.Linear(width, 1))
        self.diffusivity = nn.Parameter(torch.tensor(0.3))

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], dim=1))


def derivative(of, by):
    return torch.autograd.grad(
        of,
        by,
        grad_outputs=torch.ones_like(of),
        create_graph=True,
    )[0]


def residual(field, x, t):
    u = field(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    k = field.diffusivity
    return u_t - k * u_xx


class Problem:
    def __init__(self, field, n=16):
        self.field = field
        self.n = n
        params = list(field.parameters())
        self.opt = torch.optim.Adam(params, lr=1e-3)

    def interior(self):
        x = torch.rand(self.n, 1, requires_grad=True)
        t = torch.rand(self.n, 1, requires_grad=True)
        return x, t

    def boundary(self):
        x = torch.rand(self.n, 1)
        return x, torch.zeros_like(x), torch.sin(torch.pi * x)

    def loss(self):
        x, t = self.interior()
        inner = residual(self.field, x, t).pow(2).mean()
        xb, tb, ub = self.boundary()
        outer = (self.field(xb, tb) - ub).pow(2).mean()
        return inner + outer

    def step(self):
        if isinstance(self.opt, torch.optim.LBFGS):
            def closure():
                self.opt.zero_grad()
                loss = self.loss()
                loss.backward()
                return loss
            return self.opt.step(closure)
        self.opt.zero_grad()
        loss = self.loss()
        loss.backward()
        self.opt.step()
        return loss


problem = Problem(Field())
for i in range(3):
    print(i, problem.step().item())
