"""Statements of many shapes: decorators, lambdas, comprehensions, properties, generators."""

import contextlib
import functools
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(43)


def timed(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)
    return inner


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, grad):
        return (
            grad
            * self.factor
        )


def clip_to(limit, grad):
    norm = grad.norm()
    if norm > limit:
        return grad * (limit / norm)


ACTIVATIONS = {
    "relu": F.relu,
    "hard": lambda x: x.argmax(-1, keepdim=True).float().expand_as(x),
    "soft": lambda x: x.softmax(-1),
}


class Model(nn.Module):
    def __init__(self, sizes=(5, 8, 8, 3), kind="soft"):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(a, b)
            for a, b in zip(sizes, sizes[1:])
        )
        self.gains = nn.ParameterDict({
            name: nn.Parameter(torch.ones(8))
            for name in ("first", "second")
        })
        self.kind = kind

    @timed
    def hidden(self, x):
        x = ACTIVATIONS["relu"](self.layers[0](x)) * self.gains["first"]
        if (y := self.layers[1](x)) is not None and self.kind == "never":
            return y
        y = F.leaky_relu(y)
        return y * self.gains["second"]

    def forward(self, x):
        h = self.hidden(x)
        if self.kind == "hard":
            h = ACTIVATIONS["hard"](h)
        return self.layers[2](h)


def freeze(model, mode):
    match mode:
        case "head":
            for p in model.layers[2].parameters():
                p.requires_grad_(False)
        case _:
            pass


class Batch:
    def __init__(self, x):
        self._x = x
        self.embedded = None

    @property
    def centred(self):
        return self.embedded


class Loop:
    def __init__(self, model, **options):
        self.model = model
        self.options = options
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.after_backward = [lambda: None]
        self.metrics = {"loss": [], "acc": []}

    def losses(self, x, y):
        logits = self.model(x)
        yield F.cross_entropy(logits, y)
        yield logits.pow(2).mean() * 0.01

    def total(self, x, y):
        logits = self.model(x)
        return (
            F.cross_entropy(
                logits
                .float(),
                y,
            )
            + 0.01
            * self.model.layers[2].weight.pow(2).sum()
        )

    def step(self, x, y):
        self.opt.zero_grad()
        def record(name, value):
            self.metrics[name].append(value)
        with contextlib.nullcontext(), torch.autograd.set_detect_anomaly(False):
            loss = self.total(x, y)
        if "weights" in self.options:
            loss = sum([
                w * part
                for w, part in zip(self.options["weights"], self.losses(x, y))
            ])
        kwargs = {"retain_graph": self.options.get("keep", False)}
        loss.backward(**kwargs)
        for call in self.after_backward:
            call()
        self.opt.step()
        record("loss", loss.item())
        return float(loss)


model = Model()
model.layers[0].weight.register_hook(functools.partial(clip_to, 1e-4))
options = {}
loop = Loop(model, **options)
for i in range(3):
    x = torch.randn(6, 5)
    print(i, loop.step(x, x.argmax(1) % 3))
