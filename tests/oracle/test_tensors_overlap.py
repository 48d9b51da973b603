"""Writes into memory that the same call reads, or that shows in several places: refused in the same cases as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_overlap(program):
    agree(program, warns=True, words=5)


def _places(torch):
    return torch.tensor([0, 1, 2]), torch.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 0]])


def _pair(torch, out):
    return (out, torch.empty(3, 3, dtype=torch.int64))


WITH_OUT: dict[str, Any] = {
    "cumsum": lambda torch, x, out: torch.cumsum(x, 0, out=out),
    "cumprod": lambda torch, x, out: torch.cumprod(x, 0, out=out),
    "logcumsumexp": lambda torch, x, out: torch.logcumsumexp(x, 0, out=out),
    "cummax": lambda torch, x, out: torch.cummax(x, 0, out=_pair(torch, out)),
    "cat": lambda torch, x, out: torch.cat([x[:2], x[2:]], out=out),
    "stack": lambda torch, x, out: torch.stack([x[0], x[1], x[2]], out=out),
    "vstack": lambda torch, x, out: torch.vstack([x[:1], x[1:]], out=out),
    "gather": lambda torch, x, out: torch.gather(x, 0, _places(torch)[1], out=out),
    "take_along_dim": lambda torch, x, out: torch.take_along_dim(x, _places(torch)[1], 0, out=out),
    "index_select": lambda torch, x, out: torch.index_select(x, 0, _places(torch)[0], out=out),
    "take": lambda torch, x, out: torch.take(x, _places(torch)[1], out=out),
    "scatter": lambda torch, x, out: torch.scatter(x, 0, _places(torch)[1], 1.0, out=out),
    "scatter, source": lambda torch, x, out: torch.scatter(torch.zeros(3, 3), 0, _places(torch)[1], x, out=out),
    "scatter_add": lambda torch, x, out: torch.scatter_add(x, 0, _places(torch)[1], torch.ones(3, 3), out=out),
    "scatter_reduce": lambda torch, x, out: torch.scatter_reduce(
        x, 0, _places(torch)[1], torch.ones(3, 3), "sum", out=out),
    "index_add": lambda torch, x, out: torch.index_add(x, 0, _places(torch)[0], torch.ones(3, 3), out=out),
    "index_copy": lambda torch, x, out: torch.index_copy(x, 0, _places(torch)[0], torch.ones(3, 3), out=out),
    "index_reduce": lambda torch, x, out: torch.index_reduce(x, 0, _places(torch)[0], torch.ones(3, 3), "mean", out=out),
    "vector_norm": lambda torch, x, out: torch.linalg.vector_norm(x.view(1, 3, 3), dim=0, out=out),
    "sum": lambda torch, x, out: torch.sum(x.view(1, 3, 3), 0, out=out),
    "amax": lambda torch, x, out: torch.amax(x.view(1, 3, 3), 0, out=out),
    "max": lambda torch, x, out: torch.max(x.view(1, 3, 3), 0, out=_pair(torch, out)),
    "median": lambda torch, x, out: torch.median(x.view(1, 3, 3), 0, out=_pair(torch, out)),
    "mode": lambda torch, x, out: torch.mode(x.view(1, 3, 3), 0, out=_pair(torch, out)),
    "kthvalue": lambda torch, x, out: torch.kthvalue(x.view(1, 3, 3), 1, 0, out=_pair(torch, out)),
    "sort": lambda torch, x, out: torch.sort(x, out=_pair(torch, out)),
    "topk": lambda torch, x, out: torch.topk(x, 3, out=_pair(torch, out)),
    "addmm": lambda torch, x, out: torch.addmm(x, torch.eye(3), torch.eye(3), out=out),
    "addr": lambda torch, x, out: torch.addr(x, x[0], x[1], out=out),
    "cross": lambda torch, x, out: torch.cross(x, x, dim=0, out=out),
    "renorm": lambda torch, x, out: torch.renorm(x, 2, 0, 1.0, out=out),
    "softmax": lambda torch, x, out: torch.softmax(x, 0, out=out),
    "tril": lambda torch, x, out: torch.tril(x, out=out),
    "mul": lambda torch, x, out: torch.mul(x, 2, out=out),
    "where": lambda torch, x, out: torch.where(x > 0, x, x, out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_in_the_memory_of_an_input(name):
    def program(torch, log):
        for label, place in {
            "a part": lambda memory, x: memory[3:12].view(3, 3),
            "all": lambda memory, x: x,
            "turned": lambda memory, x: x.t(),
            "apart": lambda memory, x: memory[20:29].view(3, 3),
        }.items():
            memory = torch.arange(40.0) / 7 + 0.1
            x = memory[1:10].view(3, 3)
            out = place(memory, x)
            try:
                WITH_OUT[name](torch, x, out)
            except RuntimeError as error:
                log(label, str(error)[:60])
            else:
                log(label, "done")

    agree(program)


@cases
def indexed_writes_from_the_same_memory(torch, log):
    for label, write in {
        "a part": lambda x: x.index_put_((torch.arange(3),), x[1:4]),
        "the same part": lambda x: x.index_put_((torch.arange(3),), x[:3]),
        "one element": lambda x: x.index_put_((torch.arange(3),), x[4]),
        "assigned": lambda x: x.__setitem__(torch.arange(3), x[1:4]),
        "where true": lambda x: x.__setitem__(x < 3, x[1:4]),
        "another part": lambda x: x[:3].index_put_((torch.arange(3),), x[3:]),
        "a copy": lambda x: x.__setitem__(torch.arange(3), x[1:4].clone()),
    }.items():
        x = torch.arange(6.0)
        attempt(log, label, lambda write=write, x=x: write(x), words=9)
        log(x)
    i = torch.arange(6)
    attempt(log, "its own index", lambda: i.__setitem__(i, 1), words=9)


@cases
def indexed_writes_to_stretched_tensors(torch, log):
    for write in (
        lambda x: x.index_fill_(0, torch.tensor([0]), 2),
        lambda x: x.index_fill_(1, torch.tensor([0, -1]), torch.tensor(3.0)),
        lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(2.0)),
    ):
        x = torch.ones(3).expand(2, 3)
        write(x)
        log(x)


# --- other numbers in the same memory


@cases
def views_of_another_dtype_are_not_differentiated(torch, log):
    x = torch.ones(4, requires_grad=True)
    for dtype in (torch.int32, torch.float64, torch.complex64, torch.float16, torch.uint8, torch.float32):
        y = x.clone()
        view = y.view(dtype)
        log(view.shape, view.requires_grad, view._is_view(), view.grad_fn is None)
    y = x.clone()
    square = y * y
    view = y.view(torch.int32)
    view.add_(1)
    log(y._version, view._version)
    attempt(log, "saved", lambda: square.sum().backward())
    y = x.clone()
    y.view(torch.complex64).mul_(2j)
    (y * torch.arange(4.0)).sum().backward()
    log(y, x.grad)


@cases
def pairs_as_complex_numbers(torch, log):
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    for part in (x[:, 2:], x[:, 1:3], x[1:, :2], x.view(-1)[1:9].view(4, 2), x.view(-1)[2:8].view(3, 2)):
        attempt(log, part.shape, lambda part=part: torch.view_as_complex(part))
