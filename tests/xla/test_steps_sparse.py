"""Steps that read sparse tensors: by name, as arguments, in buffers; that make, keep, change and return them."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow.xla.errors import CompileError


def adjacency() -> Any:
    return torch.sparse_coo_tensor([[0, 0, 1, 3], [1, 2, 2, 0]], [1.0, 2.0, 3.0, 4.0], (4, 4)).coalesce()


class Graph(nn.Module):
    """A layer of a graph network."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("adjacency", adjacency())

    def forward(self, x: Any) -> Any:
        return torch.sparse.mm(self.adjacency, self.linear(x))


def test_a_training_step_with_a_sparse_buffer_and_a_hook_that_looks_at_it() -> None:
    def build() -> Case:
        model, log = Graph(), []
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        model.register_forward_hook(lambda module, given, result: log.append(module.adjacency.to_dense().sum().item()))

        def step(x: Any, among: Any) -> Any:
            optimizer.zero_grad()
            loss = (among @ model(x)).pow(2).sum()
            loss.backward()
            optimizer.step()
            among = among * 2
            log.append(among.to_dense())
            return loss

        others = [adjacency(), adjacency(), torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (4, 4))]
        return Case(step, model, optimizer, args=lambda turn: (torch.rand(4, 4), others[turn]), log=log)

    agree(build, programs=3)  # without gradients, with them, for an argument with two elements


def test_sparse_tensors_are_added_up_changed_kept_and_returned() -> None:
    def build() -> Case:
        twice = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 2]], [1.0, 2.0, 3.0], (4, 4))
        learnt = adjacency().requires_grad_()
        kept: dict[str, Any] = {"product": adjacency()}

        def step(x: Any) -> Any:
            total = (learnt @ x).sum()
            total.backward()
            kept["product"] = twice * x
            twice.mul_(2.0)
            return {"sum": twice.coalesce().values().sum(), "made": [adjacency() * x], "total": total.detach()}

        return Case(step, learnt, twice, kept, args=lambda turn: (torch.rand(4, 4),))

    agree(build)


def test_what_stops_the_compile() -> None:
    def changes(among: Any) -> Any:
        among.mul_(2.0)
        return among.to_dense()

    def counts(x: Any) -> Any:
        return x.to_sparse().to_dense()

    with pytest.raises(CompileError, match="changes a SparseTensor among its arguments"):
        torch.compile(changes)(adjacency())
    with pytest.raises(CompileError, match=r"test_steps_sparse.py:\d+, nonzero: the shape of the result depends"):
        torch.compile(counts)(torch.ones(2, 2))
