"""Steps that read sparse tensors: by name, as arguments, in buffers; that make, keep, change and return them."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile.errors import CompileError


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


def test_a_hook_on_a_sparse_tensor_runs_in_every_call() -> None:
    def build() -> Case:
        places, values = torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0], requires_grad=True)
        log: list[Any] = []

        def notes(grad: Any) -> None:
            log.append(grad.to_dense().tolist())

        def doubles(grad: Any) -> Any:
            log.append("doubles")
            return grad * 2

        def step(x: Any) -> Any:
            values.grad = None
            sparse = torch.sparse_coo_tensor(places, values, (3,))
            sparse.register_hook(notes)
            sparse.register_hook(doubles)
            (sparse.to_dense() * x).sum().backward()
            return values.grad

        return Case(step, args=lambda turn: (torch.tensor(1.0 + turn),), log=log)

    agree(build)


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


def sparse_table(make: Any) -> tuple[Any, Any]:
    table = nn.Embedding(6, 3, sparse=True)
    return table, make(table.parameters())


OPTIMIZERS: dict[str, Any] = {
    "Adam": lambda p: optim.Adam(p),
    "weight decay": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_that_tell_sparse_gradients_from_dense_ones_are_refused(name: str) -> None:
    table, optimizer = sparse_table(OPTIMIZERS[name])

    def step(index: Any) -> Any:
        optimizer.zero_grad()
        loss = table(index).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(CompileError, match=r'is sparse .*(Adam|SGD) treats .*sparse=False, .*fallback="eager"'):
        torch.compile(step)(torch.tensor([1, 2, 2]))


QUESTIONS: dict[str, Any] = {
    "is_sparse": lambda g: g.is_sparse,
    "_nnz": lambda g: g._nnz(),
    "coalesce": lambda g: g.coalesce().indices().tolist(),
    "layout": lambda g: g.layout,
}


@pytest.mark.parametrize("where", ["hook", "step"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_about_a_sparse_gradient_are_refused(name: str, where: str) -> None:
    ask, log = QUESTIONS[name], []
    table, optimizer = sparse_table(lambda p: optim.SGD(p, lr=0.1))
    if where == "hook":
        table.weight.register_hook(lambda g: log.append(ask(g)))

    def step(index: Any) -> Any:
        optimizer.zero_grad()
        table(index).pow(2).sum().backward()
        if where == "step":
            log.append(ask(table.weight.grad))
        optimizer.step()

    with pytest.raises(CompileError, match=f"is sparse .* names `{name}`"):
        torch.compile(step)(torch.tensor([1, 2, 2]))
    assert not log


@pytest.mark.parametrize("kind", [optim.SGD, optim.SparseAdam])
def test_a_sparse_gradient_that_nothing_asks_about_is_dense(kind: Any) -> None:
    def build() -> Case:
        table, optimizer = sparse_table(lambda p: kind(p, lr=0.1))

        def step(index: Any) -> Any:
            optimizer.zero_grad()
            loss = table(index).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return Case(step, table, optimizer, args=lambda turn: (torch.tensor([turn, 2, 2]),))

    agree(build)
