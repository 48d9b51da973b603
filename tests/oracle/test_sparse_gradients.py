"""Sparse gradients: which ops send them, how they travel and add up, and what optimizers make of them."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree, agree_error


def _parts(gradient: Any) -> Any:
    """A gradient that may be sparse, as the harness can compare it."""
    if gradient is None or not gradient.is_sparse:
        return gradient
    return gradient.is_coalesced(), gradient._indices(), gradient._values(), gradient.shape, repr(gradient)


# w is 4 × 3, i a 2 × 2 index with repetitions; each text is a loss.
LOSSES = {
    "embedding": "F.embedding(i, w, sparse=True).pow(2)",
    "padding": "F.embedding(i, w, padding_idx=1, sparse=True).pow(2)",
    "frequency": "F.embedding(i, w, scale_grad_by_freq=True, sparse=True)",
    "of_a_product": "F.embedding(i, w * 2, sparse=True)",
    "of_a_square": "F.embedding(i, w * w, sparse=True)",
    "bag_sum": "F.embedding_bag(i, w, mode='sum', sparse=True)",
    "bag_mean": "F.embedding_bag(i, w, mode='mean', sparse=True, padding_idx=1)",
    "bag_weights": "F.embedding_bag(i, w, mode='sum', sparse=True, per_sample_weights=i + 1.0)",
    "gather": "w.gather(1, i, sparse_grad=True).pow(2)",
    "gather_all": "w.gather(0, i.new_zeros(2, 3), sparse_grad=True)",
    "with_a_dense_one": "F.embedding(i, w, sparse=True).sum() + (w * w)",
    "two_of_them": "F.embedding(i, w, sparse=True).pow(2).sum() + F.embedding(i[0], w, sparse=True).pow(3).sum()",
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        w = torch.arange(12.0).reshape(4, 3).requires_grad_()
        i = torch.tensor([[1, 2], [1, 0]])
        names = {"F": torch.nn.functional, "w": w, "i": i}
        seen: list[Any] = []
        w.register_hook(lambda g: seen.append(_parts(g)))
        eval(LOSSES[name], names).sum().backward()
        log(seen, _parts(w.grad))
        first = w.grad
        eval(LOSSES[name], names).sum().backward()
        log(w.grad is first, w.grad.to_dense() if w.grad.is_sparse else w.grad)
        (by_hand,) = torch.autograd.grad(eval(LOSSES[name], names).sum(), w, create_graph=True)
        log(by_hand.is_sparse, by_hand.requires_grad, (by_hand.to_dense() if by_hand.is_sparse else by_hand).detach())

    agree(program, warns=False)


def test_accumulation_mixes_layouts() -> None:
    def program(torch: Any, log: Any) -> Any:
        w = torch.arange(12.0).reshape(4, 3).requires_grad_()
        i = torch.tensor([[1, 2], [1, 0]])
        for sparse in (True, True, False, True, False):
            before = w.grad
            torch.nn.functional.embedding(i, w, padding_idx=1 if sparse else None, sparse=sparse).sum().backward()
            log(w.grad is before, _parts(w.grad))
        w.grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 3), (4, 3))
        torch.nn.functional.embedding(i, w, sparse=True).sum().backward()
        return _parts(w.grad)

    agree(program)


@pytest.mark.parametrize("index", [0, [0]])
def test_one_element(index: Any) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor(3.0, requires_grad=True)
        x.gather(0, torch.tensor(index), sparse_grad=True).sum().backward()
        return _parts(x.grad)

    agree(program)


@pytest.mark.parametrize("hook", ["g * 2", "g.coalesce()", "g.to_dense()", "g.double()", "None"])
def test_hooks_see_and_replace_them(hook: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        w = torch.arange(12.0).reshape(4, 3).requires_grad_()
        w.register_hook(lambda g: eval(hook, {"g": g}))
        w.register_post_accumulate_grad_hook(lambda w: log("after", w.grad.is_sparse))
        torch.nn.functional.embedding(torch.tensor([1, 2, 1]), w, sparse=True).pow(2).sum().backward()
        return _parts(w.grad)

    agree(program)


@pytest.mark.parametrize("value", ["torch.ones(1, 2), (4, 2)", "torch.ones(1, 3).double(), (4, 3)"])
def test_a_gradient_of_another_size_or_dtype(value: str) -> None:
    def program(torch: Any) -> None:
        w = torch.zeros(4, 3, requires_grad=True)
        w.grad = eval(f"torch.sparse_coo_tensor([[1]], {value})", {"torch": torch})

    agree_error(program)


OPTIMIZERS = """
SGD(lr=.1); SGD(lr=.1, momentum=.9); SGD(lr=.1, momentum=.9, nesterov=True); SGD(lr=.1, weight_decay=.1)
SGD(lr=.1, maximize=True, dampening=.5, momentum=.9); SGD(lr=.1, foreach=True); SGD(lr=.1, fused=True)
SparseAdam(); SparseAdam(maximize=True); Adagrad(lr=.1, lr_decay=.1); Adagrad(maximize=True); Adagrad(weight_decay=.1)
Adagrad(fused=True)
Adam(); AdamW(); RMSprop(); Adamax(); NAdam(); RAdam(); Rprop(); ASGD(); Adadelta(); LBFGS(); Adafactor(); Muon()
Adam(foreach=True)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [text.strip() for text in OPTIMIZERS if text.strip()])
def test_optimizers(text: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        table = torch.nn.Embedding(4, 3, sparse=True)
        optimizer = eval("torch.optim." + text.replace("(", "(p, ", 1), {"torch": torch, "p": table.parameters()})
        i = torch.tensor([[1, 2], [1, 0]])

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (table(i) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        state = {k: _parts(v) for k, v in optimizer.state[table.weight].items() if hasattr(v, "is_sparse")}
        return table.weight, state if "LBFGS" not in text else None

    agree(program, atol=1e-5)


def test_dense_gradients_are_not_for_sparse_adam() -> None:
    def program(torch: Any) -> None:
        w = torch.nn.Parameter(torch.zeros(4, 3))
        w.grad = torch.ones(4, 3)
        torch.optim.SparseAdam([w]).step()

    agree_error(program)


def test_they_are_cleared_as_others_are() -> None:
    def program(torch: Any, log: Any) -> Any:
        table = torch.nn.Embedding(4, 3, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), 0.1)
        for clear in (table.zero_grad, optimizer.zero_grad):
            table(torch.tensor([1, 1])).sum().backward()
            clear(set_to_none=False)
            log(_parts(table.weight.grad))
            clear()
            log(table.weight.grad)

    agree(program)


@pytest.mark.parametrize("one", ["a", "a.coalesce()", "b", "b.coalesce()"])
@pytest.mark.parametrize("other", ["a", "a.coalesce()", "b", "b.coalesce()", "e", "b[:, :1].expand(4, 2)"])
def test_the_order_of_sums(one: str, other: str) -> None:
    if "expand" in other:
        other = "torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 1).expand(2, 2), (4, 2))"

    def program(torch: Any) -> Any:
        a = torch.sparse_coo_tensor([[1, 1, 0]], torch.arange(6.0).view(3, 2), (4, 2))
        b = torch.sparse_coo_tensor([[2, 0]], torch.arange(4.0).view(2, 2), (4, 2))
        e = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (4, 2))
        total = eval(f"({one}).add({other}, alpha=2)", {"a": a, "b": b, "e": e, "torch": torch})
        return _parts(total)

    agree(program)


USES = (
    """
s.to_dense(); s.coalesce().values(); torch.sparse.sum(s); torch.sparse.sum(s, dim=0).to_dense(); s.clone().to_dense()
torch.sparse.mm(s, torch.ones(3, 2)); torch.sparse.mm(s, s.t()).to_dense(); (s * s).to_dense(); (-s).to_dense()
(s + s).to_dense()
s.t().to_dense(); torch.sparse.addmm(torch.ones(2, 2), s, torch.ones(3, 2)); s.permute(1, 0).to_dense()
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("text", [text.strip() for text in USES])
def test_sparse_tensors_are_differentiated(text: str, leaf: bool) -> None:
    def program(torch: Any, log: Any) -> Any:
        v = torch.tensor([3.0, 4.0, 5.0], requires_grad=not leaf)
        s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v, (2, 3), requires_grad=leaf)
        log(s.is_leaf, s.requires_grad, s.grad_fn is None)
        if leaf:
            s.register_hook(lambda g: log("hook", g.to_dense()))
        found = eval(text, {"torch": torch, "s": s})
        found.pow(2).sum().backward()
        log(v.grad if not leaf else s.grad.to_dense())
        if leaf:
            s.grad = None
            log(s.grad)
            (gradient,) = torch.autograd.grad(eval(text, {"torch": torch, "s": s}).sum(), s)
            log(gradient.is_sparse, gradient.to_dense())

    agree(program)


@pytest.mark.parametrize("seed", ["torch.ones(2, 3)", "torch.ones(2, 3).to_sparse()", "torch.ones(3, 3)", "None"])
def test_backward_from_a_sparse_tensor(seed: str) -> None:
    def program(torch: Any) -> Any:
        v = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
        s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v * 2, (2, 3))
        s.backward(eval(seed, {"torch": torch}))
        return v.grad

    agree(program, words=3)


ODDITIES = (
    """
torch.zeros(2, 3, layout=torch.sparse_coo); torch.empty(2, 3, layout=torch.sparse_coo, dtype=torch.float64); bool(s[0, 2])
torch.empty_like(s); s.new_zeros(4); s.new_zeros((2, 2)); list(s); s.element_size(); s.is_quantized, s.is_meta, s.is_cuda
s.__setitem__(0, 1); s.data_ptr(); s.contiguous(); s.permute(1, 0); s._version
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in ODDITIES])
def test_oddities(text: str) -> None:
    def program(torch: Any) -> Any:
        s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        return repr(eval(text, {"torch": torch, "s": s}))

    agree(program, words=4)


@pytest.mark.parametrize("wanted", [False, True])
def test_of_a_custom_function(wanted: bool) -> None:
    def program(torch: Any, log: Any) -> Any:
        class Rows(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, w: Any, i: Any) -> Any:
                ctx.save_for_backward(i)
                ctx.rows = w.shape[0]
                return w[i]

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (i,) = ctx.saved_tensors
                return torch.sparse_coo_tensor(i[None], g, (ctx.rows, g.shape[1])), None

        w = torch.arange(12.0).reshape(4, 3).requires_grad_()
        result = Rows.apply(w * 2 if wanted else w, torch.tensor([1, 2, 1])).pow(2).sum()
        if not wanted:
            result.backward()
            log(_parts(w.grad))
        else:
            result.grad_fn.next_functions[0][0].next_functions[0][0].register_hook(
                lambda given, _: log(_parts(given[0]))
            )
            log(*map(_parts, torch.autograd.grad(result, w)))

    agree(program)


def test_custom_functions_of_sparse_matrices() -> None:
    """linear_operator multiplies by them."""

    def program(torch: Any, log: Any) -> Any:
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, sparse: Any, dense: Any) -> Any:
                ctx.save_for_backward(sparse)
                return torch.mm(sparse, dense)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (sparse,) = ctx.saved_tensors
                return None, torch.mm(sparse.t(), g)

        sparse = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        dense = torch.arange(6.0).reshape(3, 2).requires_grad_()
        result = Product.apply(sparse, dense)
        result.pow(2).sum().backward()
        log(result.detach(), dense.grad)

    agree(program)


def test_scaled_gradients() -> None:
    """GradScaler divides the elements that are kept, and looks for infinities among them."""

    def program(torch: Any, log: Any) -> None:
        table = torch.nn.Embedding(5, 3, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
        for factor in (1.0, float("inf"), 2.0):
            optimizer.zero_grad()
            scaler.scale(table(torch.tensor([1, 2, 1])).pow(2).sum() * factor).backward()
            scaler.unscale_(optimizer)
            log(_parts(table.weight.grad))
            scaler.step(optimizer)
            scaler.update()
            log(table.weight.detach(), scaler.get_scale())

    agree(program)


def test_gradcheck() -> None:
    def program(torch: Any, log: Any) -> None:
        sparse = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
        dense = torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3).requires_grad_()
        check = torch.autograd.gradcheck
        log(check(lambda x: x.to_dense() * 2, (sparse,), masked=True))
        log(check(torch.sparse.mm, (sparse, dense), masked=True, fast_mode=True))
        log(check(torch.sparse.mm, (sparse.detach(), dense)))
        log(torch.autograd.gradgradcheck(torch.sparse.mm, (sparse.detach(), dense)))
        log(check(lambda x: x.to_sparse().to_dense(), (dense,), masked=True))
        for wrong in (lambda x: x.to_dense() * x.to_dense().detach(), lambda x: x * 2):
            try:
                check(wrong, (sparse,), masked=True)
            except (RuntimeError, ValueError) as error:
                log(type(error).__name__, str(error).split("\n")[0][:40])

    agree(program)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("weights_only", [True, False])
def test_files(weights_only: bool) -> None:
    """Sparse tensors are saved, and read by the other library."""
    parts = [[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3)
    for writer, reader in ((real_torch, undertow), (undertow, real_torch), (undertow, undertow)):
        plain = writer.sparse_coo_tensor(*parts)
        file = io.BytesIO()
        writer.save([plain, plain.coalesce(), writer.sparse_coo_tensor([[1]], [[1.0, 2.0]], (3, 2))], file)
        file.seek(0)
        found = reader.load(file, weights_only=weights_only)
        assert [tensor.is_coalesced() for tensor in found[:2]] == [False, True]
        assert found[0].to_dense().tolist() == [[0, 0, 3], [9, 0, 0]]
        assert found[2].to_dense().tolist() == [[0, 0], [1, 2], [0, 0]]
