"""Labels and indices that a call brings along are checked before its program runs, as eager code checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import nn
from undertow.nn import functional as F

table = nn.Embedding(4, 2)
rows = torch.randn(4, 3)

STEPS: dict[str, Any] = {
    "embedding": lambda i: table(i),
    "a part of it": lambda i: table(i[:, 1:]),
    "cross entropy": lambda i: F.cross_entropy(torch.zeros(6, 4), i.reshape(-1)),
    "shifted labels": lambda i: F.cross_entropy(torch.zeros(4, 4), i[:, 1:].reshape(-1), ignore_index=-100),
    "nll": lambda i: F.nll_loss(torch.zeros(2, 4, 3), i),
    "gather": lambda i: rows.gather(0, i),
    "scatter": lambda i: rows.scatter_add(0, i, torch.ones(2, 3)),
    "index_select": lambda i: rows.index_select(0, i.flatten()),
    "brackets": lambda i: rows[i],
    "computed": lambda i: rows[(i * 2 - i).long()],
    "written": lambda i: rows.clone().index_put_((i.view(-1),), torch.zeros(3)),
    "index_add": lambda i: rows.index_add(0, i.flatten(), torch.ones(6, 3)),
    "known in the step": lambda i: rows[torch.tensor([0, 9])],
}


@pytest.mark.parametrize("name", STEPS)
def test_out_of_range(name: str) -> None:
    step, good = STEPS[name], torch.tensor([[0, 1, 2], [3, 0, 1]])
    bad = good.clone()
    bad[1, 2] = 4 if len(name) % 2 else -7
    compiled = torch.compile(step)
    if name != "known in the step":
        np.testing.assert_allclose(compiled(good).detach().numpy(), step(good).detach().numpy(), rtol=1e-6)
    with pytest.raises((IndexError, RuntimeError)) as eager:
        step(bad)
    with pytest.raises(type(eager.value)) as raised:
        compiled(bad)
    assert str(raised.value) == str(eager.value)


def test_nothing_has_happened_when_a_check_fails() -> None:
    model = nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(2, 3)
    for _ in range(3):
        step(x, torch.tensor([0, 3]))
    before = model.weight.detach().clone()
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        step(x, torch.tensor([0, 4]))
    assert torch.equal(model.weight, before)
    step(x, torch.tensor([1, -100]))
    assert not torch.equal(model.weight, before)
    model_of_labels = torch.compile(lambda y: F.one_hot(y, 5))
    assert model_of_labels(torch.tensor([4])).tolist() == [[0, 0, 0, 0, 1]]


def test_captured_labels_are_checked() -> None:
    labels = torch.tensor([0, 2])
    step = torch.compile(lambda x: F.cross_entropy(x, labels))
    step(torch.zeros(2, 3))
    labels[1] = 3
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        step(torch.zeros(2, 3))


def test_compiled_modules_check_their_arguments() -> None:
    compiled = torch.compile(nn.Embedding(3, 2))
    compiled(torch.tensor([2]))
    with pytest.raises(IndexError, match="out of range"):
        compiled(torch.tensor([3]))


def test_captured_labels_are_checked_again_when_they_change() -> None:
    x, labels = torch.ones(2, 3), torch.tensor([0, 2])
    step = torch.compile(lambda: torch.nn.functional.cross_entropy(x, labels))
    for _ in range(3):
        step()
    labels[1] = 7
    with pytest.raises(IndexError):
        step()
    labels[1] = 1
    step()
