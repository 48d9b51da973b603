"""A training run that moves from PyTorch to undertow and back, by way of checkpoint files, goes on as if it had stayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as real_torch

import undertow

OPTIMIZERS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "SGD": lambda optim, params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda optim, params: optim.Adam(params, lr=1e-2, amsgrad=True),
    "AdamW": lambda optim, params: optim.AdamW(params, lr=1e-2),
    "RMSprop": lambda optim, params: optim.RMSprop(params, lr=1e-3, momentum=0.5, centered=True),
    "Adagrad": lambda optim, params: optim.Adagrad(params, lr=1e-2),
}
SCHEDULERS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "OneCycleLR": lambda schedulers, optimizer: schedulers.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=40, cycle_momentum=False
    ),
    "SequentialLR": lambda schedulers, optimizer: schedulers.SequentialLR(
        optimizer,
        [schedulers.LinearLR(optimizer, 0.1, total_iters=6), schedulers.CosineAnnealingLR(optimizer, 20)],
        milestones=[6],
    ),
    "StepLR": lambda schedulers, optimizer: schedulers.StepLR(optimizer, 5),
}


class Training:
    """A model, its optimizer and its scheduler in one library, with random batches and dropout."""

    def __init__(self, torch: ModuleType, optimizer: str, scheduler: str) -> None:
        self.torch = torch
        torch.manual_seed(3)
        nn = torch.nn
        self.model = nn.Sequential(
            nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 3)
        )
        self.optimizer = OPTIMIZERS[optimizer](torch.optim, self.model.parameters())
        self.scheduler = SCHEDULERS[scheduler](torch.optim.lr_scheduler, self.optimizer)

    def run(self, steps: int) -> list[float]:
        """The losses of so many more steps."""
        torch, losses = self.torch, []
        for _ in range(steps):
            images, labels = torch.randn(8, 1, 8), torch.randint(3, (8,))
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "rng": self.torch.get_rng_state(),
        }
        self.torch.save(state, path)

    def load(self, path: Path) -> None:
        state = self.torch.load(path)  # with weights_only, as both libraries have it by default
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.torch.set_rng_state(state["rng"])


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("start", ["torch", "undertow"])
@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
def test_moving_changes_nothing(start: str, optimizer: str, scheduler: str, tmp_path: Path) -> None:
    expected = Training(real_torch, optimizer, scheduler).run(18)

    libraries = (real_torch, undertow, real_torch) if start == "torch" else (undertow, real_torch, undertow)
    losses: list[float] = []
    for stage, torch in enumerate(libraries):
        training = Training(torch, optimizer, scheduler)
        if stage:
            torch.manual_seed(99)  # the file brings the state of the random numbers along
            training.load(tmp_path / f"{stage - 1}.pt")
        losses += training.run(6)
        training.save(tmp_path / f"{stage}.pt")
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
