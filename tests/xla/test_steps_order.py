"""Draws are made in the order in which elements lie in memory: programs know how eager code would have laid them out."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.nn import functional as F

STEPS: dict[str, Any] = {
    "views": lambda x: F.dropout(x.t(), 0.5),
    "results of views": lambda x: F.dropout(F.relu(x.t()).exp() + 1, 0.5),
    "several operands": lambda x: F.dropout(torch.where(x.t() > 0, x.t() * 2, x.t().exp()).neg(), 0.5),
    "stretched operands": lambda x: F.dropout(x.t() * torch.arange(4.0) + x.t()[:, :1], 0.5),
    "three axes": lambda x: F.dropout(x.reshape(2, 2, 3).permute(2, 0, 1).tanh().transpose(1, 2).sigmoid(), 0.5),
    "copies": lambda x: F.dropout(x.t().clone(), 0.5) + F.dropout(x.t().contiguous(), 0.5),
    "reshaped": lambda x: F.dropout(x.t().tanh().reshape(2, 6), 0.5),
    "alpha": lambda x: F.alpha_dropout(x.t() * 2, 0.5, training=True),
    "alike": lambda x: (torch.rand_like(x.t()), torch.randn_like(x.t() * 2), torch.zeros_like(x.t()).uniform_()),
    "in place": lambda x: (x * 2).t().normal_().clone(),
    "half": lambda x: F.dropout(x.t().bfloat16() * 2, 0.5).float(),
}


@pytest.mark.parametrize("name", STEPS)
def test_draws_for_what_does_not_lie_in_rows(name: str) -> None:
    agree(lambda: Case(STEPS[name], args=lambda turn: (torch.randn(4, 3),)), steps=2)


def test_arguments_that_lie_in_columns() -> None:
    def build() -> Case:
        return Case(
            lambda x: F.dropout(x * 2, 0.5),
            args=lambda turn: (torch.randn(3, 3).t() if turn % 2 else torch.randn(3, 3),),
        )

    agree(build, steps=4, programs=2)


def test_images_with_channels_last() -> None:
    def build() -> Case:
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5))

        def step(x: Any) -> Any:
            return model(x.to(memory_format=torch.channels_last)), model(x).sum()

        return Case(step, model, args=lambda turn: (torch.randn(2, 2, 6, 6),))

    agree(build, steps=2)
