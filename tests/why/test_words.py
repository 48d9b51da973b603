"""What findings say: cures that can be typed as they stand, and names as the program has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.why.test_cases import server

_FREED = """
import torch
w = torch.ones(3, requires_grad=True)
y = (w * w).sum()
y.backward()
y.backward()
"""
_STATE = """
import torch
cell = torch.nn.LSTM(2, 3)
state = None
for _ in range(2):
    out, state = cell(torch.randn(4, 1, 2), state)
    out.sum().backward()
"""
_CACHED = """
import torch
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
scaled = w.exp()
for _ in range(2):
    opt.zero_grad()
    loss = scaled.pow(2).sum()
    loss.backward()
    opt.step()
"""
_OVERWRITTEN = """
import torch
def noisy(w):
    return w * 2
def loss(w):
    x = noisy(w)
    y = x.pow(2)
    x.add_(1)
    return y.sum()
loss(torch.ones(3, requires_grad=True)).backward()
"""
_PARTIAL = """
import functools
import torch
def clip(limit, grad):
    grad = grad.clamp(-limit, limit)
w = torch.ones(3, requires_grad=True)
w.register_hook(functools.partial(clip, 0.1))
w.sum().backward()
"""
_LISTED = """
import torch
net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 1))
params = list(net.parameters())
opt = torch.optim.SGD(params, lr=0.1)
net[1](net[0](torch.randn(3, 2)).detach()).sum().backward()
opt.step()
"""
_LOOPED = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    def forward(self, x):
        return self.a(x).detach() @ self.b.weight.T
def show(m):
    for name, p in m.named_parameters():
        print(name, p.grad)
m = Model()
m(torch.randn(2, 3)).sum().backward()
for name, p in m.named_parameters():
    if name.startswith("a"):
        print(name, p.grad)
show(m.a)
"""
_FLOORED = """
import torch
size = torch.tensor(7.5, requires_grad=True)
count = size // 2
(count - 5).pow(2).backward()
"""
_MASKED = """
import torch
w = torch.ones(3, requires_grad=True)
mask = torch.zeros(3)
for _ in range(2):
    (w * mask + w.detach()).sum().backward()
print(w.grad)
"""
_NOTEBOOK = """
import linecache
cell = "import torch\\nw = torch.ones(3, requires_grad=True)\\nloss = (w.detach() * 2).sum()\\nloss.backward()\\n"
linecache.cache["<cell 1>"] = (len(cell), None, cell.splitlines(True), "<cell 1>")
exec(compile(cell, "<cell 1>", "exec"))
"""
_KEPT = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
kept = {}
def keep(module, args, output):
    kept["hidden"] = output
net[1].register_forward_hook(keep)
net(torch.randn(5, 3)).sum().backward()
print(kept["hidden"].grad)
"""
_NAMELESS = """
import torch
w = torch.ones(3, requires_grad=True)
def probe(value):
    return value.grad
for part in [w * 2]:
    part.sum().backward()
    probe(part)
del part
"""
_REPLACED = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
net(torch.randn(5, 3))
net[1].register_forward_hook(print)
net[1] = torch.nn.Linear(4, 2)
net(torch.randn(5, 3)).sum().backward()
"""
_FED_ZEROS = """
import torch
body, head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
torch.nn.init.zeros_(head.weight)
opt = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    (head(body(torch.randn(5, 3))) - 1).pow(2).sum().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (_FREED, {"code": "freed-graph", "line": 5, "cure": "y.backward(retain_graph=True) here"}),
        (_STATE, {"code": "freed-graph", "line": 6, "cure": "state = tuple(part.detach() for part in state)"}),
        (_CACHED, {"code": "freed-graph", "line": 8, "cure": "compute scaled anew in each pass"}),
        (_OVERWRITTEN, {"code": "inplace-modified", "line": 8, "cure": "x = x.clone()"}),
        (_PARTIAL, {"code": "hook-return-ignored", "line": 5, "message": "clip computes a new value"}),
        (_LISTED, {"code": "detached", "line": 6, "subject": "net[0][0].weight"}),
        (_LOOPED, {"code": "detached", "line": 8, "subject": "m.a.weight"}),
        (_FLOORED, {"code": "not-differentiable", "line": 4, "subject": "size"}),
        (_MASKED, {"code": "zero-by-math", "line": 6, "message": "mul multiplies by zeros only"}),
        (_KEPT, {"code": "not-leaf", "line": 8, "cure": "output.retain_grad()  # in the hook of line 5"}),
        (_NAMELESS, {"code": "not-leaf", "line": 6, "cure": "value.retain_grad()"}),
        (_REPLACED, {"code": "module-not-called", "line": 5, "message": "a different module replaced it"}),
        (_FED_ZEROS, {"code": "not-in-optimizer", "line": 5, "subject": "head.weight"}),
        (_NOTEBOOK, {"code": "detached", "line": 3, "file": "<cell 1>"}),
    ],
)
def test_what_is_said(tmp_path: Path, program: str, wanted: dict[str, Any]) -> None:
    script = tmp_path / "script.py"
    script.write_text(program)
    (finding,) = server("undertow").run(script)["findings"]
    for name, words in wanted.items():
        assert words == finding[name] if name in ("code", "line") else words in finding[name], finding
