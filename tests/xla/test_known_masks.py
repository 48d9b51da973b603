"""Masks and indices that a step makes of constants: their values are known, and so are the shapes that follow."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow.nn import functional as F

N = 6


def diagonal_filled(x: Any) -> Any:
    mask = torch.ones(N, N, dtype=torch.bool)
    mask.diagonal().fill_(False)
    mask[0, 1:3] = False
    mask[torch.arange(2), torch.arange(2)] = True
    mask |= torch.eye(N).roll(1, 0).bool()
    return x[mask]


MASKS: dict[str, Any] = {
    "eye": lambda x: x[~torch.eye(N).bool()].view(N, -1),
    "eye of the input's dtype": lambda x: x[torch.eye(N, dtype=x.dtype, device=x.device) == 0],
    "ones without eye": lambda x: x[(torch.ones(N, N) - torch.eye(N)).bool()],
    "triu": lambda x: x[torch.ones(N, N).triu(1).bool()],
    "tril of ones like": lambda x: x[torch.ones_like(x).tril(-1) == 1],
    "fill_diagonal_": lambda x: x[torch.ones(N, N, dtype=torch.bool).fill_diagonal_(False)],
    "zeros like": lambda x: x[torch.zeros_like(x, dtype=torch.bool).fill_diagonal_(True)],
    "arange": lambda x: x[torch.arange(N)[:, None] < torch.arange(N)],
    "masked_select": lambda x: x.masked_select(torch.eye(N).logical_not()),
    "nonzero": lambda x: x[torch.nonzero(torch.eye(N) - 1, as_tuple=True)],
    "where": lambda x: x[torch.where(torch.eye(N) == 0)],
    "scatter_": lambda x: x[torch.zeros(N, N).scatter_(1, torch.arange(N)[:, None], 1).bool()],
    "masked_fill_": lambda x: x[torch.ones(N, N).masked_fill_(torch.eye(N).bool(), 0).bool()],
    "kron": lambda x: x[~torch.kron(torch.eye(2), torch.ones(3, 3)).bool()],
    "block_diag": lambda x: x[~torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)).bool()],
    "linspace": lambda x: x[torch.linspace(0, 1, N) > 0.3],
    "labels": lambda x: (lambda y: x[(y == y[:, None]) & ~torch.eye(N).bool()])(torch.arange(3).repeat(2)),
    "matmul": lambda x: x[(torch.eye(N) @ torch.ones(N, N)).bool()],
    "cumsum": lambda x: x[torch.ones(N).cumsum(0) > 2],
    "in place": diagonal_filled,
    "asked in Python": lambda x: x * torch.eye(N).sum().item() if torch.eye(N).bool().any() else x,
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_constants(name: str) -> None:
    def build() -> Case:
        weight = nn.Parameter(torch.randn(N, N))
        optimizer = optim.SGD([weight], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            chosen = MASKS[name](weight * x)
            chosen.pow(2).sum().backward()
            optimizer.step()
            return chosen.detach()

        return Case(step, weight, args=lambda turn: (torch.randn(N, N),))

    agree(build, steps=4, programs=2)


def test_contrastive_loss() -> None:
    def build() -> Case:
        model = nn.Linear(3, 4)
        optimizer = optim.Adam(model.parameters())

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            features = F.normalize(model(torch.cat([x, x + 0.1])), dim=1)
            labels = torch.cat([torch.arange(len(x)) for _ in range(2)])
            labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
            similar = features @ features.T
            mask = torch.eye(labels.shape[0], dtype=torch.bool)
            labels, similar = labels[~mask].view(len(labels), -1), similar[~mask].view(len(similar), -1)
            positives = similar[labels.bool()].view(len(labels), -1)
            negatives = similar[~labels.bool()].view(len(labels), -1)
            logits = torch.cat([positives, negatives], dim=1)
            loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Case(step, model, optimizer, args=lambda turn: (torch.randn(4, 3),))

    agree(build, steps=3)


def test_a_mask_that_depends_on_values_is_none_of_them() -> None:
    buffer = torch.eye(3).bool()
    for step in (lambda x: x[x > 0], lambda x: x[buffer], lambda x: x[torch.eye(3).bool() & (torch.rand(3, 3) > 0.5)]):
        compiled = torch.compile(step)
        for turn in range(3):
            x = torch.tensor([[1.0, 2, 3], [-4, 5, -6], [7, turn - 1, -9]])
            torch.manual_seed(turn)
            expected = step(x)
            torch.manual_seed(turn)
            assert compiled(x).tolist() == expected.tolist()
        buffer[0, 2] = True
