"""Sparse tensors: what they hold, print and compute, and the gradients of their values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

# s has two elements at one place; c is the same coalesced; d and e are dense.
EXPRESSIONS = """
s; c; s.to_dense(); s._nnz(); c._nnz(); s.is_coalesced(); c.is_coalesced(); s.shape; s.dtype; s.layout; s.is_sparse
s.sparse_dim(); s.dense_dim(); s.dim(); s.numel(); s.indices(); s.values(); s._indices(); c.values(); c.indices()
torch.dsmm(s, d); torch.hsmm(s, d); torch.spmm(s, d); s.new(i, v, s.size()); s.new(i, v); s.new(); s.new(2, 3)
s.new().resize_as_(s); s.new(torch.Size([2, 3])); s.new([2, 3])
torch.sparse.mm(s, d); s @ d; torch.mm(s, d); s.mm(d); torch.mv(s, d[:, 0]); s.matmul(d); s @ s.t()
s + s; s * 2; 2 * s; s / 2; s * s; s * e; e * s; e + s; s + e; s - s; -s; s * torch.tensor(2.0)
c * torch.tensor([[1.0], [2.0]])
s.sum(); torch.sparse.sum(s); torch.sparse.sum(s, dim=0); torch.sparse.sum(s, dim=(0, 1)); s.sum(1); s.t()
s.transpose(0, 1); s.T; s.mT; s.unsqueeze(0).mT; s.mT @ e; s.is_nested; s.is_xla; s.itemsize
s.double(); s.to(torch.float16); s.clone(); s.detach(); torch.zeros_like(s); s.unsqueeze(0); s[0]; s[:, 0]; s[0, 2]
s[-1]
s.index_select(0, torch.tensor([1])); torch.cat([s, s]); torch.cat([s, s], 1); torch.stack([s, s]); s.abs()
c.sqrt(); c.pow(2)
s.relu(); s.exp(); s.norm(); c.log1p(); torch.sparse.softmax(s, 1); torch.sparse.log_softmax(c, dim=1); torch.isnan(c)
e.to_sparse(); e.to_sparse(1); e.to_sparse_coo(); e.sparse_mask(c); torch.sparse_coo_tensor(i, v); s.view(6)
s.reshape(6)
torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2]); torch.sparse_coo_tensor(i, v[:2])
torch.sparse_coo_tensor(size=(2, 2))
torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3))
torch.sparse_coo_tensor(i, v, (2, 3), dtype=torch.float64)
torch.sparse_coo_tensor(i, v, (1, 3), check_invariants=True); torch.sparse_coo_tensor(i, v, (2,)); s.item(); s.tolist()
torch.sparse.FloatTensor(i, v, torch.Size([2, 3])); torch.addmm(e[:, :2], s, d)
torch.sparse.addmm(e[:, :2], s, d, beta=2)
s.add_(s); e.add_(s); s.mul_(2); s.zero_(); s.copy_(c); s.numpy(); len(s); torch.is_tensor(s); s.stride(); s.type()
s.any()
torch.sparse.spdiags(torch.arange(6.0).view(2, 3), torch.tensor([0, 1]), (3, 3)); d.t() @ s.t()
torch.bmm(torch.stack([s, s]), torch.stack([d, d]))
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [text.strip() for text in EXPRESSIONS if text.strip()])
def test_sparse_and_dense(text: str) -> None:
    def program(torch: Any) -> Any:
        i, v = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), torch.tensor([3.0, 4.0, 5.0, 1.0])
        s = torch.sparse_coo_tensor(i, v, (2, 3))
        names = {"torch": torch, "i": i, "v": v, "s": s, "c": s.coalesce(), "d": torch.arange(6.0).view(3, 2)}
        return repr(eval(text, names | {"e": torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])}))

    agree(program, words=4)


DIFFERENTIABLE = (
    """
torch.sparse.mm(s, d); s @ d; (s * 3).to_dense(); s.coalesce().to_dense(); torch.sparse.softmax(s, 1).to_dense()
(s + s).sum() * d; (s * s).to_dense()
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in DIFFERENTIABLE])
def test_gradients_reach_the_values(text: str) -> None:
    def program(torch: Any) -> Any:
        v = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
        d = torch.arange(6.0).view(3, 2).requires_grad_()
        s = torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], v, (2, 3))
        eval(text, {"torch": torch, "s": s, "d": d}).pow(2).sum().backward()
        return s.requires_grad, v.grad, d.grad

    agree(program)


def test_the_gradient_of_a_sparse_leaf_is_sparse() -> None:
    def program(torch: Any, log: Any) -> Any:
        for use in (lambda s: torch.sparse.mm(s, torch.arange(6.0).view(3, 2)), lambda s: s.to_dense()):
            s = torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0], (2, 3), requires_grad=True)
            use(s).pow(2).sum().backward()
            log(s.is_leaf, repr(s.grad))

    agree(program)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam(maximize: bool) -> None:
    def program(torch: Any, log: Any) -> Any:
        table = torch.nn.Embedding(6, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1, maximize=maximize)
        for rows in ([0, 1], [1, 4, 4], [5]):
            optimizer.zero_grad()
            table(torch.tensor(rows)).pow(2).sum().backward()
            optimizer.step()
            log(table.weight.detach())
        return dict(optimizer.state[table.weight])

    agree(program)


def test_long_parts_are_wrapped_at_the_line_width() -> None:
    def program(torch: Any) -> Any:
        places = torch.stack([torch.arange(40)] * 2)
        made = torch.sparse_coo_tensor(places, torch.arange(40.0) / 8, (50, 50))
        wide = torch.sparse_coo_tensor(places[:1], torch.ones(40, 9, dtype=torch.float64), (50, 9))
        texts = [repr(made), repr(wide)]
        torch.set_printoptions(linewidth=60, sci_mode=True)
        try:
            texts.append(repr(made))
        finally:
            torch.set_printoptions(profile="default")
        return texts

    agree(program)
