"""Graphs as torchviz draws them. It names nodes by their addresses; they are numbered here in order of appearance."""

import re

import torch
from torch import nn
from torchviz import make_dot


def show(title, result, **options):
    numbers = {}
    source = make_dot(result, **options).source
    print(title, re.sub(r"\b\d{9,}\b", lambda address: f"n{numbers.setdefault(address[0], len(numbers))}", source))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


everything = {"show_attrs": True, "show_saved": True}
torch.manual_seed(0)
a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
parts = torch.cat([a, b]).view(2, 3).t()[0]
show("functions", ((Square.apply(a) * b)[1:].exp() + parts.sum() ** 2).sum(), params={"a": a, "b": b}, **everything)
(gradient,) = torch.autograd.grad((a * b).sin().sum(), a, create_graph=True)
show("gradient", gradient, params={"a": a, "b": b})

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
x = torch.randn(3, 4, requires_grad=True)
show("perceptron", model(x).mean(), params=dict([*model.named_parameters(), ("x", x)]))
show("perceptron", model(x).mean(), params=dict(model.named_parameters()), **everything)

model = nn.Sequential(
    nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3), nn.LogSoftmax(1)
)
show("convolutions", model(torch.randn(2, 1, 8, 8)), params=dict(model.named_parameters()), **everything)
show("transformer", nn.TransformerEncoderLayer(4, 2, 8)(torch.randn(3, 2, 4)))
show("lstm", nn.LSTM(3, 4)(torch.randn(5, 2, 3))[0])
