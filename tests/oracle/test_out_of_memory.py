"""Sizes beyond the memory there is: PyTorch's class and words, from every kind of function."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch as real_torch

import undertow

MANY = 2**20

REQUESTS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda torch: torch.zeros(10**13),
    "beyond any machine": lambda torch: torch.zeros(2**50),
    "randn": lambda torch: torch.randn(MANY, MANY),
    "randperm": lambda torch: torch.randperm(MANY * MANY * 16),
    "arange": lambda torch: torch.arange(10**13),
    "unary": lambda torch: column(torch).expand(MANY, MANY).exp(),
    "binary": lambda torch: column(torch) + column(torch).t(),
    "a number": lambda torch: column(torch).expand(MANY, MANY) + 1,
    "matmul": lambda torch: column(torch) @ column(torch).t(),
    "copy": lambda torch: column(torch).expand(MANY, MANY).clone(),
    "conversion": lambda torch: column(torch).expand(MANY, MANY).double(),
    "joining": lambda torch: torch.cat([column(torch).expand(MANY, MANY)] * 2),
    "indexing": lambda torch: column(torch).expand(MANY, MANY)[torch.arange(MANY)],
    "a method": lambda torch: column(torch).repeat(1, MANY),
    "resizing": lambda torch: torch.ones(1).resize_(MANY, MANY),
    "a layer": lambda torch: torch.nn.Linear(MANY, MANY * 16),
    "backward": lambda torch: column(torch).requires_grad_().expand(MANY, MANY)[:, :3].sum().backward(),
}


def column(torch: Any) -> Any:
    return torch.ones(MANY, 1)


@pytest.fixture(autouse=True)
def address_space() -> Iterator[None]:
    """Limit the process to 1 TiB: a machine that promises more memory than it has would be filled."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**40, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_too_large(request_: Callable[[Any], Any]) -> None:
    words = []
    for torch in (real_torch, undertow):
        with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate") as raised:
            request_(torch)
        words.append(str(raised.value)[:40])
    assert words[0] == words[1]
