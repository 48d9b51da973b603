"""Programs as users get them, with all of XLA's optimizations: the other tests switch most of them off (conftest.py).

There are two devices here, so what moves from one to the other is looked at, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import undertow as torch
from tests.xla import test_steps, test_steps_hooks, test_steps_values
from tests.xla.twins import agree

CASES = {
    test_steps: ["conv", "transformer", "writes_and_views"],
    test_steps_hooks: ["clips"],
    test_steps_values: ["rrelu"],
}


def test_agrees_when_optimized() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.xla.test_optimized"],
        cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert not done.returncode, done.stderr


def on_each_device() -> None:
    """A compiled step works where its arguments are, and goes on where the model was moved."""
    double = torch.compile(lambda x: x * 2)
    assert [str(double(torch.ones(2, device=where)).device) for where in ("xla:1", "cpu", "xla:0")] == [
        "xla:1", "cpu", "xla:0"
    ]  # fmt: skip
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for where in ("xla:0", "xla:1", "xla:0"):
        model.to(where)
        optimizer.load_state_dict(optimizer.state_dict())
        losses += [step(torch.ones(1, 2, device=where)) for _ in range(2)]
        assert str(losses[-1].device) == where
    assert losses[-1].item() < losses[0].item()


def rounds_between_operations() -> None:
    """A product in half precision is rounded before it is used, as in eager mode."""
    step = lambda x, y: (x @ y) * y + x
    for dtype in (torch.bfloat16, torch.float16):
        x, y = torch.randn(30, 30).to(dtype), torch.randn(30, 30).to(dtype)
        assert torch.equal(torch.compile(step)(x, y), step(x, y))


if __name__ == "__main__":
    on_each_device()
    rounds_between_operations()
    for module, names in CASES.items():
        for name in names:
            agree(module.case[name], tolerance=1e-4)
