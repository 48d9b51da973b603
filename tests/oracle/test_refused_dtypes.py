"""Which error comes first: dtypes of results and operands, empty dims, arguments by name, and masks with one value."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import attempt

KINDS = "bool uint8 int64 float16 float32 complex64".split()
PAIRS = (
    "add sub mul div floor_divide remainder fmod atan2 hypot copysign nextafter logaddexp2 gcd lcm xlogy heaviside maximum "
    "bitwise_and bitwise_left_shift lt logical_and dist"
).split()


@pytest.mark.parametrize("name", PAIRS)
def test_dtypes_of_results(name: str) -> None:
    def program(torch: Any, log: Any) -> None:
        function, write = getattr(torch, name), getattr(torch.Tensor, name + "_", None)
        for first, second in itertools.product(KINDS, KINDS):
            x, y = (torch.tensor([1, 2]).to(getattr(torch, kind)) for kind in (first, second))
            attempt(log, (first, second), lambda x=x, y=y: function(x, y))
            if name == "dist":
                continue
            attempt(log, (first, second, "out"), lambda x=x, y=y: function(x, x, out=torch.empty_like(y)))
            if write is not None:
                attempt(log, (first, second, "in place"), lambda x=x, y=y: write(x.clone(), y))

    agree(program, atol=1e-3)


@pytest.mark.parametrize("name", "ceil lgamma erfinv i0 isposinf isneginf logit digamma cumsum".split())
def test_dtypes_of_unary_results(name: str) -> None:
    def program(torch: Any, log: Any) -> None:
        function = getattr(torch, name)
        more = (0,) if name == "cumsum" else ()
        for first, second in itertools.product(KINDS, KINDS):
            x, kind = torch.tensor([0.5, 0.25]).to(getattr(torch, first)), getattr(torch, second)
            if more:
                attempt(log, (first, second), lambda x=x, kind=kind: function(x, *more, dtype=kind))
            attempt(
                log, (first, second, "out"), lambda x=x, kind=kind: function(x, *more, out=torch.empty(2, dtype=kind))
            )

    agree(program, warns=True)


REDUCTIONS = "amax amin argmax argmin var std_mean sum mean median all unique_consecutive logsumexp norm".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_dims_of_empty_tensors(name: str) -> None:
    def program(torch: Any, log: Any) -> None:
        function = getattr(torch, name)
        for shape, kind in itertools.product([(0,), (2, 0), (0, 3), (2, 3)], ("float32", "bool", "complex64")):
            if (kind == "bool" and name in ("median", "logsumexp")) or (
                kind == "complex64" and name in ("median", "amax", "amin")
            ):
                continue
            x = torch.ones(shape, dtype=getattr(torch, kind))
            for dim in (0, 1, -3):
                attempt(log, (shape, kind, dim), lambda x=x, dim=dim: function(x, dim=dim))
            attempt(log, (shape, kind), lambda x=x: function(x))

    agree(program)


CALLS = """
torch.argmax(x, dim="a")
torch.argmax(x, "a")
x.argmax(dim="a")
x.argmax("a")
torch.softmax(x, dim=(0, 1))
torch.cumsum(x, dim=None)
x.median(dim=[])
torch.logsumexp(x, dim=None)
torch.amax(x[:0], dim=[])
torch.norm(x.long(), dtype=torch.float32)
torch.linalg.vector_norm(x.bool(), dtype=torch.float16)
torch.sum(x * 1j, 0, dtype=torch.float32)
torch.cumsum(x * 1j, 0, dtype=torch.int64)
torch.mean(x * 1j, 0, dtype=torch.float32)
(x[:0] * 1j).to(torch.float32)
x.index_add(0, torch.tensor([5]), x[:1])
x.index_add(0, torch.tensor([5]), x[:1], alpha=2)
x[0].index_add(0, torch.tensor([1, 5]), x[0, :2])
x.index_add(1, torch.tensor([-1]), x[:, :1])
x.view(2, 3, 2).index_add(1, torch.tensor([-1]), x.view(2, 3, 2)[:, :1])
x.index_add(0, torch.tensor([[0]]), x[:1])
torch.nanmean(x, 0, dtype=torch.bool)
x.cumsum(0, dtype=torch.bool)
x.cumprod(0, dtype=torch.bool)
x.index_add(0, torch.tensor([0.0]), x[:1])
x.index_reduce(0, torch.tensor([[0]]), x[:1], "mean")
x.index_reduce(0, torch.tensor([0, 1]), x[:1], "mean")
x.index_fill(0, torch.tensor([[0]]), 1)
x.index_fill(0, torch.tensor([0], dtype=torch.int32), 1)
torch.linalg.vecdot(x, x.double())
torch.linalg.vecdot(x, "a")
torch.linalg.multi_dot([x[:3, :3], x[:3, :3].double()])
torch.linalg.multi_dot([x[0, :3], x[:2].double()])
torch.linalg.solve(x, x.double())
torch.linalg.solve(x.long(), x)
torch.linalg.lstsq(x.expand(2, 3, 4), x[0])
torch.linalg.lstsq(x, x.expand(2, 2, 3, 4))
x[:0][torch.tensor([0])]
F.soft_margin_loss(x[0], x)
F.soft_margin_loss(x, x[None])
F.soft_margin_loss(x, x[0])
F.binary_cross_entropy_with_logits(x, x, weight=x[None])
F.binary_cross_entropy_with_logits(x, x, pos_weight=x[None])
F.binary_cross_entropy_with_logits(x[0], x[0], pos_weight=x)
F.gaussian_nll_loss(x, x, x.long() + 1)
F.unfold(x.long()[None, None], 2)
F.unfold(x.bool()[None, None], 2)
F.fold(torch.ones(1, 4, 9).long(), (4, 4), 2)
F.max_unpool2d(x.long()[None, None], x.long()[None, None], 2)
x.index_put((torch.tensor([0, 1]),), x[None, :2])
x.index_put((torch.tensor([[0, 1]]),), x[None, :2])
x.index_put((torch.tensor([0]), torch.tensor([1])), torch.tensor([[1.0]]))
x.index_put((torch.tensor(0),), x[:1])
x.put(torch.tensor([0, 1]), x[0])
torch.group_norm(x, 2, "a")
torch.combinations("a")
torch.rms_norm("a", (3,))
torch.batch_norm(x, "a", None, None, None, True, 0.1, 1e-5, False)
F.bilinear(x, x, torch.ones(2, 4, 4), bias="a")
x[..., ..., 0]
x[..., ..., 0:]
x[0, ..., ...]
x[None, ..., None, ...]
x[..., ...]
torch.ones(2, 3, 4)[..., 0, ...]
""".strip().split("\n")


@pytest.mark.parametrize("text", CALLS)
def test_refused_alike(text: str) -> None:
    def program(torch: Any) -> Any:
        return eval(text, {"torch": torch, "F": torch.nn.functional, "x": torch.arange(12.0).view(3, 4)})

    agree(program, warns=True)


VALUES = "3 [3] [[3]] 3.5 3+0j 3+1j True [3,3] 300 -1".split()


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", "bool", "complex64"])
def test_values_written_through_a_mask(kind: str) -> None:
    """A tensor of one element is written in any dtype where a single mask is True, and in no other way."""

    def program(torch: Any, log: Any) -> None:
        start = torch.arange(12).view(3, 4).to(getattr(torch, kind))
        mask = torch.arange(12).view(3, 4) > 3

        def write(key: Any, value: Any) -> Any:
            x = start.clone()
            x[key] = value
            return x

        for text in VALUES:
            value = torch.tensor(eval(text))
            keys = (mask, (slice(None), mask[1]), (0, mask[1]), (None, mask))
            for place, key in enumerate(keys):
                if value.numel() == 1:
                    attempt(log, (text, place), lambda key=key, value=value: write(key, value))
            attempt(log, (text, "put"), lambda value=value: start.clone().index_put_((mask,), value.flatten()[0]))
            attempt(log, (text, "put out of place"), lambda value=value: start.index_put((mask,), value.flatten()[0]))
            attempt(log, (text, "two"), lambda value=value: write((mask[:, 0], torch.tensor([0])), value), 5)
        attempt(log, "bytes", lambda: write(mask.byte(), 1))
        leaf = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        if start.is_floating_point():
            written = write(mask, leaf)
            (gradient,) = torch.autograd.grad(written.abs().sum(), leaf)
            log(written, gradient)

    agree(program, words=6, graph=True)
