"""Many ordinary functions and layers, eager, on undertow and on torch: which are far behind, or far ahead?

    python -m benchmarks.many_rows [--only REGEX] [--json OUT]

A row is forward, and backward where something wants a gradient. Each library runs in a process of its own, on one thread;
a time is the processor's, the least of many, so that the table can be read on a machine that others use as well.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# name | what is made beforehand | what is timed. floats(…) want gradients, plain(…) do not; whole(n, …) are below n.
TABLE = """
conv1d | x = floats(16, 16, 128); f = nn.Conv1d(16, 32, 5, padding=2) | f(x)
conv2d 3×3 | x = floats(16, 16, 32, 32); f = nn.Conv2d(16, 32, 3, padding=1) | f(x)
conv2d 3×3, stride 2 | x = floats(16, 16, 32, 32); f = nn.Conv2d(16, 32, 3, padding=1, stride=2) | f(x)
conv2d 1×1 | x = floats(8, 64, 16, 16); f = nn.Conv2d(64, 64, 1) | f(x)
conv2d depthwise | x = floats(8, 32, 16, 16); f = nn.Conv2d(32, 32, 3, padding=1, groups=32) | f(x)
conv2d depthwise, stride 2 | x = floats(4, 64, 32, 32); f = nn.Conv2d(64, 64, 3, padding=1, stride=2, groups=64) | f(x)
conv3d | x = floats(2, 4, 16, 16, 16); f = nn.Conv3d(4, 8, 3, padding=1) | f(x)
conv_transpose2d | x = floats(8, 32, 16, 16); f = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1) | f(x)
channels last | f, x = channels_last() | f(x)
batch_norm | x = floats(16, 32, 16, 16); f = nn.BatchNorm2d(32) | f(x)
group_norm | x = floats(16, 32, 16, 16); f = nn.GroupNorm(8, 32) | f(x)
layer_norm | x = floats(32, 64, 256); f = nn.LayerNorm(256) | f(x)
max_pool2d | x = floats(16, 16, 32, 32) | F.max_pool2d(x, 3, 2, 1)
avg_pool2d of all | x = floats(16, 128, 8, 8) | F.avg_pool2d(x, 8)
adaptive_max_pool2d | x = floats(4, 8, 60, 60) | F.adaptive_max_pool2d(x, 25)
interpolate, linear | x = floats(8, 16, 256) | F.interpolate(x, scale_factor=2, mode="linear")
interpolate, bilinear | x = floats(8, 16, 16, 16) | F.interpolate(x, scale_factor=2, mode="bilinear")
grid_sample | x = floats(4, 8, 32, 32); y = floats(4, 32, 32, 2) | F.grid_sample(x, y, align_corners=False)
pad, reflect | x = floats(8, 16, 32, 32) | F.pad(x, (2, 2, 2, 2), mode="reflect")
embedding | x = whole(10000, 32, 64); f = nn.Embedding(10000, 64) | f(x)
embedding_bag, max | x = whole(1000, 2048, 5); f = nn.EmbeddingBag(1000, 32, mode="max") | f(x)
cross_entropy | x = floats(128, 10000); y = whole(10000, 128) | F.cross_entropy(x, y)
smooth_l1_loss | x = floats(512, 128); y = plain(512, 128) | F.smooth_l1_loss(x, y)
ctc_loss | x = floats(50, 16, 30); y = whole(29, 16, 12) + 1 | ctc(x, y)
LSTM | x = floats(16, 40, 32); f = nn.LSTM(32, 64, 2, batch_first=True) | f(x)[0]
LSTM, 300 steps | x = floats(4, 300, 16); f = nn.LSTM(16, 32, batch_first=True) | f(x)[0]
GRU, both ways | x = floats(16, 40, 32); f = nn.GRU(32, 64, bidirectional=True, batch_first=True) | f(x)[0]
encoder layer | x = floats(8, 64, 64); f = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) | f(x)
attention | x = floats(4, 4, 64, 32) | F.scaled_dot_product_attention(x, x, x, is_causal=True)
gelu | x = floats(512, 256) | F.gelu(x)
gelu, tanh | x = floats(512, 256) | F.gelu(x, approximate="tanh")
hardswish | x = floats(512, 256) | F.hardswish(x)
softmax | x = floats(256, 256) | x.softmax(-1)
einsum | x = floats(8, 64, 4, 32) | torch.einsum("bqhd,bkhd->bhqk", x, x)
small bmm | x = floats(512, 8, 8) | torch.bmm(x, x)
cumsum | x = floats(256, 256) | x.cumsum(1)
cumsum, dim 0 | x = floats(256, 256) | x.cumsum(0)
cumprod | x = floats(256, 256) | x.cumprod(1)
sort | x = floats(256, 256) | x.sort(1)[0]
sort with ties | x = whole(10, 20000) | x.sort()[0]
topk | x = floats(64, 1000) | x.topk(50)[0]
median | x = floats(256, 256) | x.median(1)[0]
index_select | x = floats(1000, 64); i = whole(1000, 4000) | x.index_select(0, i)
scatter_add | x = floats(1000, 64); y = floats(4000, 64); i = whole(1000, 4000, 64) | x.scatter_add(0, i, y)
where | x = floats(256, 256) | torch.where(x > 0, x, -1.0)
one_hot | i = whole(100, 4096) | F.one_hot(i, 100)
cholesky | x = floats(4, 32, 32) | torch.linalg.cholesky(x @ x.mT + torch.eye(32))
cholesky_solve | x = floats(200, 4); y = torch.linalg.cholesky(torch.eye(200) * 2) | torch.cholesky_solve(x, y)
solve_triangular | x = floats(128, 16); y = torch.eye(128) * 2 | torch.linalg.solve_triangular(y, x, upper=False)
lu_solve | x = plain(64, 4); y = plain(64, 64) | torch.linalg.lu_solve(*torch.linalg.lu_factor(y), x)
multivariate normal | x = plain(64, 16) | D.MultivariateNormal(torch.zeros(16), torch.eye(16)).log_prob(x)
fft | x = floats(64, 512) | torch.fft.fft(x).abs()
randn | | torch.randn(512, 256)
randperm | | torch.randperm(10000)
dropout | x = floats(512, 256) | F.dropout(x, 0.1)
gamma draws | f = D.Gamma(torch.tensor(2.0), torch.tensor(1.0)) | f.sample((2000,))
Adam, 200 parameters | f = optimizer("Adam") | f.step()
clip_grad_norm_, 200 | f = optimizer("SGD") | nn.utils.clip_grad_norm_(f.param_groups[0]["params"], 1.0)
clip_grad_value_, 200 | f = optimizer("SGD") | nn.utils.clip_grad_value_(f.param_groups[0]["params"], 1.0)
small sums | x = plain(10); y = plain(10) | [(x + y) * x / y - x for _ in range(50)]
small whole numbers | x = whole(9, 10) | [(x + 1) * 2 - x for _ in range(50)]
small truth values | x = whole(9, 10) | [(x > 1) & (x < 5) | (x == 3) for _ in range(50)]
moving averages | x = plain(64); y = plain(64) | [x.mul_(0.99).add_(y, alpha=0.01) for _ in range(50)]
views | x = plain(10, 2, 4) | [x.view(2, -1).reshape(4, -1).permute(1, 0).unsqueeze(0) for _ in range(50)]
x[i] | x = plain(100, 100) | [x[i] for i in range(100)]
autograd.grad | x = floats(4) | torch.autograd.grad(through(x, 100).sum(), x)[0].detach()
jacrev | x = plain(64); y = plain(64, 64) | torch.func.jacrev(lambda v: torch.tanh(y @ v))(x)
hessian | x = plain(32); y = plain(32, 32) | torch.func.hessian(lambda v: torch.tanh(y @ v).sum())(x)
jacrev of a model | x = plain(32); f = mlp() | torch.func.jacrev(f)(x)
jacrev of parameters | x = plain(32); f = mlp(); y = dict(f.named_parameters()) | torch.func.jacrev(called(f, x))(y)
jacobian, vectorized | x = plain(32); f = mlp() | torch.autograd.functional.jacobian(f, x, vectorize=True)
hessian, vectorized | x = plain(32); f = squared(mlp()) | torch.autograd.functional.hessian(f, x, vectorize=True)
is_grads_batched | x = floats(32); f = mlp(); y = torch.eye(64) | torch.autograd.grad(f(x), x, y, is_grads_batched=True)
jacfwd | x = plain(32); f = mlp() | torch.func.jacfwd(f)(x)
vmap of jacrev | x = plain(8, 32); f = mlp() | torch.func.vmap(torch.func.jacrev(f))(x)
vmap of grad | x = plain(32, 64); y = plain(64, 64) | torch.func.vmap(torch.func.grad(lambda v: torch.tanh(y @ v).sum()))(x)
state_dict | f = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]) | f.state_dict()
deepcopy | f = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]) | copy.deepcopy(f)
repr | x = plain(100, 100) | repr(x)
"""


def scope_of(library: str) -> dict[str, Any]:
    """The names that the table uses."""
    torch, nn, functional, distributions, optim = (
        importlib.import_module(library + part) for part in ("", ".nn", ".nn.functional", ".distributions", ".optim")
    )
    draw = np.random.RandomState(0)

    def plain(*shape: int) -> Any:
        return torch.from_numpy(draw.randn(*shape).astype(np.float32))

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64))

    def optimizer(name: str) -> Any:
        parameters = [nn.Parameter(plain(8, 8)) for _ in range(200)]
        for parameter in parameters:
            parameter.grad = plain(8, 8)
        return getattr(optim, name)(parameters, lr=1e-3)

    def channels_last() -> Any:
        layers = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        form = torch.channels_last
        return layers.to(memory_format=form), plain(16, 16, 32, 32).contiguous(memory_format=form)

    def through(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = x * 1.0001
        return x

    def ctc(x: Any, y: Any) -> Any:
        return functional.ctc_loss(x.log_softmax(2), y, torch.full((16,), 50), torch.full((16,), 12))

    return {
        "torch": torch, "nn": nn, "F": functional, "D": distributions, "copy": importlib.import_module("copy"),
        "plain": plain, "floats": lambda *shape: plain(*shape).requires_grad_(), "optimizer": optimizer, "mlp": mlp,
        "squared": lambda f: lambda x: f(x).pow(2).sum(),
        "called": lambda f, x: lambda parameters: torch.func.functional_call(f, parameters, (x,)),
        "whole": lambda n, *shape: torch.from_numpy(draw.randint(0, n, shape)), "channels_last": channels_last,
        "through": through, "ctc": ctc,
    }  # fmt: skip


def rows() -> list[tuple[str, str, str]]:
    """Name, beginning and step of each row."""
    parts = [[part.strip() for part in line.split("|", 2)] for line in TABLE.strip().split("\n")]
    return [(name, before, step) for name, before, step in parts]


def step_of(scope: dict[str, Any], before: str, text: str) -> Callable[[], None]:
    """A row's step, forward and backward."""
    exec(before, scope)
    forward, torch = compile(text, text, "eval"), scope["torch"]

    def step() -> None:
        result = eval(forward, scope)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.backward(torch.ones_like(result))

    return step


def microseconds(step: Callable[[], None], seconds: float = 0.15) -> float:
    """The least of many turns, in the processor's time."""
    step()
    step()
    begun, least = time.process_time(), float("inf")
    while time.process_time() - begun < seconds:
        start = time.process_time()
        times = 0
        while times < 1 or time.process_time() - start < 0.002:
            step()
            times += 1
        least = min(least, (time.process_time() - start) / times)
    return least * 1e6


def measure(library: str, only: str) -> dict[str, float]:
    scope, found = scope_of(library), {}
    for name, before, text in rows():
        if re.search(only, name):
            scope["torch"].manual_seed(0)
            found[name] = microseconds(step_of(dict(scope), before, text))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose names match")
    parser.add_argument("--json", type=Path, help="write the times here")
    parser.add_argument("--library", help=argparse.SUPPRESS)  # in a process of its own
    given = parser.parse_args()
    if given.library:
        print(json.dumps(measure(given.library, given.only)))
        return
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    times = {
        library: json.loads(subprocess.run(
            [sys.executable, "-m", "benchmarks.many_rows", "--library", library, "--only", given.only],
            env=alone, stdout=subprocess.PIPE, check=True, text=True,
        ).stdout)
        for library in ("torch", "undertow")
    }  # fmt: skip
    for name in sorted(times["torch"], key=lambda name: -times["undertow"][name] / times["torch"][name]):
        ours, theirs = times["undertow"][name], times["torch"][name]
        print(f"{name:28} torch {theirs:10.0f} µs   undertow {ours:10.0f} µs   {ours / theirs:6.2f}")
    if given.json:
        given.json.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
