"""A training run goes from torch to undertow and back in the middle, and the losses do not notice."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch as real_torch

import undertow

STEPS = 6
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda torch, params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda torch, params: torch.optim.Adam(params, lr=0.01, amsgrad=True),
    "AdamW": lambda torch, params: torch.optim.AdamW(
        [{"params": params[:2], "weight_decay": 0.1}, {"params": params[2:], "lr": 0.02}], lr=0.01
    ),
    "RMSprop": lambda torch, params: torch.optim.RMSprop(params, lr=0.01, momentum=0.5),
}


class Training:
    """A small network, its optimizer and a schedule, in one library."""

    def __init__(self, torch: Any, optimizer: str) -> None:
        self.torch = torch
        nn = torch.nn
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = OPTIMIZERS[optimizer](torch, list(self.model.parameters()))
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=4, gamma=0.5)
        self.step = 0

    def advance(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            random = np.random.RandomState(self.step)
            x = self.torch.from_numpy(random.randn(16, 4).astype(np.float32))
            y = self.torch.from_numpy(random.randint(0, 2, 16))
            loss = self.torch.nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
            self.step += 1
        return losses

    def save(self) -> io.BytesIO:
        file = io.BytesIO()
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "rng": self.torch.get_rng_state(),
            "step": self.step,
        }
        self.torch.save(state, file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        state = self.torch.load(file)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.torch.set_rng_state(state["rng"])
        self.step = state["step"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_there_and_back(optimizer: str) -> None:
    expected = Training(real_torch, optimizer).advance(3 * STEPS)
    losses = []
    previous = None
    for torch in (real_torch, undertow, real_torch):
        training = Training(torch, optimizer)
        if previous is not None:
            training.load(previous.save())
        losses += training.advance(STEPS)
        previous = training
    np.testing.assert_allclose(losses, expected, rtol=2e-5)


def test_the_generator_goes_along() -> None:
    there, here = Training(real_torch, "SGD"), Training(undertow, "SGD")
    real_torch.rand(7)
    here.load(there.save())
    assert undertow.rand(5).tolist() == real_torch.rand(5).tolist()


def test_a_state_dict_keeps_its_metadata() -> None:
    there, here = Training(real_torch, "SGD"), Training(undertow, "SGD")
    for saved_by, loaded_by in ((there, here), (here, there)):
        loaded = loaded_by.torch.load(saved_by.save())["model"]
        assert type(loaded) is type(loaded_by.model.state_dict())
        assert loaded._metadata == there.model.state_dict()._metadata
