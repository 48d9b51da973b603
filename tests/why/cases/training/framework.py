"""A small training framework: callbacks, hooks for statistics, pruning masks, checkpointing, parametrised weights."""

import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint


class Callback:
    def on_start(self, trainer): ...
    def on_backward(self, trainer, loss): ...
    def on_step(self, trainer): ...
    def on_end(self, trainer): ...


class Statistics(Callback):
    """Mean activations in the first step only, gradient norms in each."""

    def on_start(self, trainer):
        self.means, self.norms, self.handles = {}, [], []
        for name, module in trainer.model.named_modules():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_hook(self.note(name)))

    def note(self, name):
        def hook(module, args, output):
            self.means.setdefault(name, output.mean().item())

        return hook

    def on_backward(self, trainer, loss):
        grads = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        self.norms.append(torch.stack([g.norm() for g in grads]).norm().item())

    def on_step(self, trainer):
        while self.handles:
            self.handles.pop().remove()


class Prune(Callback):
    """Weights that were small at the start stay zero: their gradients are masked."""

    def on_start(self, trainer):
        self.handles = []
        for module in trainer.model.modules():
            if isinstance(module, nn.Linear) and not parametrize.is_parametrized(module):
                keep = (module.weight.detach().abs() > module.weight.detach().abs().median()).float()
                with torch.no_grad():
                    module.weight.mul_(keep)
                self.handles.append(module.weight.register_hook(lambda grad, keep=keep: grad * keep))

    def on_end(self, trainer):
        for handle in self.handles:
            handle.remove()


class Orthogonal(nn.Module):
    def forward(self, weight):
        skew = weight.triu(1) - weight.triu(1).t()
        eye = torch.eye(len(weight))
        return torch.linalg.solve(eye + skew, eye - skew)


class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enter = nn.Linear(6, width)
        self.rotate = nn.Linear(width, width, bias=False)
        parametrize.register_parametrization(self.rotate, "weight", Orthogonal())
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(2)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.tanh(self.enter(x))
        x = self.rotate(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.out(x).squeeze(1)


class Trainer:
    def __init__(self, model, callbacks, rate=1e-2):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def tell(self, event, *details):
        for callback in self.callbacks:
            getattr(callback, event)(self, *details)

    @contextlib.contextmanager
    def evaluating(self):
        was = self.model.training
        self.model.eval()
        with torch.no_grad():
            yield
        self.model.train(was)

    def fit(self, steps):
        self.tell("on_start")
        for _ in range(steps):
            x = torch.randn(16, 6)
            loss = F.mse_loss(self.model(x), x[:, 0] * x[:, 1])
            self.optimizer.zero_grad()
            loss.backward()
            self.tell("on_backward", loss)
            self.optimizer.step()
            self.tell("on_step")
        self.tell("on_end")
        with self.evaluating():
            x = torch.randn(16, 6)
            return F.mse_loss(self.model(x), x[:, 0] * x[:, 1]).item()


torch.manual_seed(6)
statistics = Statistics()
trainer = Trainer(Model(), [statistics, Prune()])
print("valid", round(trainer.fit(5), 3))
print(len(statistics.means), [round(norm, 3) for norm in statistics.norms])
