"""`import undertow as torch`, and `import torch` under `undertow run`: what is undertow's own is known under both names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch as real_torch

import undertow
from undertow._src.base import ownership
from undertow._src.compile.effects import purity
from undertow.why.objects import package_of

SCRIPT = """
import torch
from torch.optim import lr_scheduler as lr

SCHEDULERS = {
    "step": lambda o: lr.StepLR(o, 1, 0.5),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 10),
    "lambda": lambda o: lr.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    "one cycle": lambda o: lr.OneCycleLR(o, 0.5, total_steps=20),
}


def scheduled(make, compiled):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    log = []
    model.weight.register_hook(lambda gradient: log.append(optimizer.param_groups[0]["lr"]))

    def step(x):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()
        scheduler.step()
        log.append((scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]))

    step = torch.compile(step) if compiled else step
    for _ in range(5):
        step(torch.ones(2, 3))
        log.append(optimizer.param_groups[0]["lr"])
    return log


def scaled(compiled):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x):
        optimizer.zero_grad()
        scaler.scale(model(x).pow(2).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    step = torch.compile(step) if compiled else step
    scales = []
    for _ in range(6):
        step(torch.ones(2, 3))
        scales.append(scaler.get_scale())
    return scales


def hooked(compiled):
    log = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    torch.nn.utils.parametrizations.weight_norm(model[2])
    bell = torch.autograd.graph.register_multi_grad_hook([*model.parameters()], lambda grads: log.append(len(grads)))
    model[1].register_full_backward_hook(lambda module, before, after: log.append(type(module).__name__))

    def step(x):
        model.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            model(x).sum().backward()

    step = torch.compile(step) if compiled else step
    for turn in range(4):
        step(torch.ones(1, 2))
        if turn == 2:
            bell.remove()
    return log


assert torch.nn.Linear.__module__ == "torch.nn.modules.linear"
for name, make in SCHEDULERS.items():
    eager, compiled = scheduled(make, False), scheduled(make, True)
    assert eager == compiled, (name, eager, compiled)
assert scaled(False) == scaled(True) == [8.0, 16.0, 16.0, 32.0, 32.0, 64.0], scaled(True)
assert hooked(False) == hooked(True), hooked(True)
print("as eager mode")
"""


def test_a_program_under_undertow_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-W", "error", "-m", "undertow", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "as eager mode\n", done.stdout + done.stderr


def classes_below(kind: type) -> set[type]:
    """Every class that is made from one."""
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        below: set[type] = {*type.__subclasses__(waiting.pop())} - found
        found |= below
        waiting += below
    return found


def is_own(kind: type) -> bool:
    """The answer itself, and not one that is remembered."""
    ownership._known.pop(kind, None)
    return ownership.is_own_class(kind)


def test_classes_are_undertows_under_either_name() -> None:
    some = {undertow.nn.Linear, undertow.FloatTensor, undertow.amp.GradScaler, undertow.Tag, undertow.Size,
            undertow.autograd.graph.GradientEdge, undertow.distributed.ReduceOp}  # fmt: skip
    kinds = classes_below(object)
    own = {kind for kind in kinds if is_own(kind)}
    assert some <= own
    with undertow.pretend_torch():
        assert {kind for kind in kinds if is_own(kind)} == own


def test_classes_of_pytorch_and_of_others_are_not() -> None:
    Copied = type("Copied", (undertow.nn.Module,), {"__module__": "torch.nn.modules", "forward": lambda self, x: x})
    Odd = type("Odd", (), {"__module__": property(lambda self: 1), "method": lambda self: 2})
    for kind in (real_torch.nn.Linear, real_torch.FloatTensor, real_torch.optim.SGD, real_torch.Size, Copied, Odd):
        assert not ownership.is_own_class(kind) and purity.origin_of(kind) == "user", kind
    assert package_of(real_torch.ones(1)) is real_torch and package_of(undertow.ones(1)) is undertow
    assert package_of(Copied()) is undertow  # it is made from a class of undertow's
