"""A physics-informed network for the heat equation: residuals through second derivatives, L-BFGS after Adam."""

import math

import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))
        self.log_diffusivity = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def derivative(output, variable):
    return torch.autograd.grad(output, variable, torch.ones_like(output), create_graph=True)[0]


def residual(field, x, t):
    u = field(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t - field.log_diffusivity.exp() * u_xx


def exact(x, t, diffusivity=0.3):
    return torch.exp(-diffusivity * math.pi**2 * t) * torch.sin(math.pi * x)


class Problem:
    def __init__(self, field, count=24):
        self.field = field
        self.x = torch.rand(count, 1, requires_grad=True)
        self.t = torch.rand(count, 1, requires_grad=True)
        self.x0 = torch.rand(count, 1)
        self.edge = torch.cat([torch.zeros(count // 2, 1), torch.ones(count // 2, 1)])
        self.measured_x, self.measured_t = torch.rand(count, 1), torch.rand(count, 1)
        self.measured = exact(self.measured_x, self.measured_t) + 0.01 * torch.randn(count, 1)

    def losses(self):
        physics = residual(self.field, self.x, self.t).pow(2).mean()
        start = (self.field(self.x0, torch.zeros_like(self.x0)) - torch.sin(math.pi * self.x0)).pow(2).mean()
        edge = self.field(self.edge, torch.rand_like(self.edge)).pow(2).mean()
        data = (self.field(self.measured_x, self.measured_t) - self.measured).pow(2).mean()
        return {"physics": physics, "start": start, "edge": edge, "data": data}


def adam_phase(problem, steps):
    optimizer = torch.optim.Adam(problem.field.parameters(), lr=5e-3)
    log = []
    for _ in range(steps):
        parts = problem.losses()
        loss = sum(parts.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.append({name: value.item() for name, value in parts.items()})
    return log


def lbfgs_phase(problem, steps):
    optimizer = torch.optim.LBFGS(problem.field.parameters(), lr=0.5, max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = sum(problem.losses().values())
        loss.backward()
        return loss

    values = []
    for _ in range(steps):
        values.append(optimizer.step(closure).item())
    return values


torch.manual_seed(7)
field = Field()
problem = Problem(field)
log = adam_phase(problem, 6)
print({name: round(value, 4) for name, value in log[-1].items()})
print("lbfgs", [round(value, 4) for value in lbfgs_phase(problem, 2)])
print("diffusivity", field.log_diffusivity.exp().item())
