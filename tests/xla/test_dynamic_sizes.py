"""`compile(step, dynamic=…)`: sizes that vary are padded to buckets, and the results are those of eager mode."""

from __future__ import annotations

import copy
import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow import nn, optim
from undertow._src.compile.errors import CompileError
from undertow.nn import functional as F

VOCABULARY, WIDTH, LONGEST = 11, 8, 40


class Attention(nn.Module):
    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.by_hand = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), by_hand
        self.register_buffer("mask", torch.tril(torch.ones(LONGEST, LONGEST)).view(1, 1, LONGEST, LONGEST))

    def forward(self, x: Any) -> Any:
        batch, time, width = x.shape
        q, k, v = [
            part.view(batch, time, 2, width // 2).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        ]  # fmt: skip
        if self.by_hand:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, time, width))


class LanguageModel(nn.Module):
    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(by_hand)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        x = x + self.attention(self.norm(x))
        return self.head(x + self.mlp(x))


def trained(model: Any, log: list[Any], hooked: bool) -> Callable[..., Any]:
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if hooked:
        for parameter in model.parameters():
            parameter.register_hook(lambda g: g.clamp(-0.05, 0.05))
        model.attention.register_forward_hook(lambda m, a, out: log.append(out.detach().pow(2).mean().item()))
        model.attention.register_full_backward_hook(lambda m, into, out: log.append(out[0].norm().item()))

    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        loss.backward()
        optimizer.step()
        log.append(tokens.shape[1])
        return loss

    return step


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
def test_language_model_of_any_length(by_hand: bool, hooked: bool) -> None:
    torch.manual_seed(0)
    model, log, eager_log = LanguageModel(by_hand), [], []  # type: ignore[var-annotated]
    twin = copy.deepcopy(model)
    step = torch.compile(trained(model, log, hooked), dynamic={"tokens": 1, "targets": 1})
    eager = trained(twin, eager_log, hooked)
    lengths = random.Random(int(by_hand)).choices(range(2, 33), k=8)
    for length in (6, 7, 8, 9, 16, 17, 2, 1, *lengths):
        tokens, targets = torch.randint(0, VOCABULARY, (3, length)), torch.randint(0, VOCABULARY, (3, length))
        assert torch.allclose(step(tokens, targets), eager(tokens, targets), atol=1e-5)
        for ours, theirs in zip(model.parameters(), twin.parameters()):
            assert torch.allclose(ours, theirs, atol=1e-5) and torch.allclose(ours.grad, theirs.grad, atol=1e-5)
    assert log == pytest.approx(eager_log, abs=1e-4)
    # One for each of the buckets 8, 16 and 32, one for size 1, and the first call, which gave the optimizer its state.
    assert len(torch.compile.explain(step).data[0]["programs"]) == 5


def test_batches_of_any_size() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    twin = copy.deepcopy(model)

    def of(model: Any) -> Callable[..., Any]:
        def step(x: Any, y: Any) -> Any:
            model.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            return loss.detach(), logits.detach(), (logits.argmax(1) == y).sum() / x.shape[0], len(logits.shape)

        return step

    step, eager = torch.compile(of(model), dynamic={0: 0, "y": 0}), of(twin)
    for size in (5, 8, 1, 2, 9, 16, 3, *random.Random(0).choices(range(2, 17), k=10)):
        x, y = torch.randn(size, 5), torch.randint(0, 3, (size,))
        for ours, theirs in zip(step(x, y), eager(x, y)):
            assert ours == theirs if isinstance(theirs, int) else torch.allclose(ours, theirs, atol=1e-5)
            assert isinstance(theirs, int) or (ours.shape == theirs.shape and ours.stride() == theirs.stride())
        for ours, theirs in zip(model.parameters(), twin.parameters()):
            assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)
    assert len(torch.compile.explain(step).data[0]["programs"]) <= 4


def test_masked_mean_of_padded_batches() -> None:
    weight = torch.randn(4, requires_grad=True)

    def step(x: Any, mask: Any) -> Any:
        weight.grad = None
        scores = (x * weight).sum(-1).masked_fill(~mask, float("-inf")).softmax(1)
        pooled = (x * scores.unsqueeze(-1)).sum(1) + (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        loss = pooled.pow(2).mean()
        loss.backward()
        return loss.detach()

    compiled = torch.compile(step, dynamic={"x": (0, 1), "mask": (0, 1)})
    for batch, time in ((3, 5), (2, 7), (5, 4), (9, 12), (4, 8), (1, 3)):
        x, mask = torch.randn(batch, time, 4), torch.rand(batch, time) > 0.5
        mask[:, 0] = True
        want, gradient = step(x, mask), weight.grad.clone()
        assert torch.allclose(compiled(x, mask), want, atol=1e-5)
        assert torch.allclose(weight.grad, gradient, atol=1e-5)


EXACT: dict[str, Callable[[Any], Any]] = {
    "mean": lambda h: h.mean(1), "std": lambda h: h.std(1) if h.shape[1] > 1 else h.sum(1),
    "max": lambda h: h.max(1)[0], "norm": lambda h: h.norm(dim=1),
    "softmax": lambda h: h.softmax(1), "cumsum": lambda h: h.cumsum(1), "first": lambda h: h[:, 0],
    "last": lambda h: h[:, -1], "last two": lambda h: h[:, -2:], "differences": lambda h: h[:, 1:] - h[:, :-1],
    "a token before": lambda h: torch.cat([torch.ones(h.shape[0], 1, 3), h], 1),
    "padding": lambda h: F.pad(h, (0, 0, 1, 0)),
    "a product along it": lambda h: (h @ h.transpose(1, 2)) @ h, "flat": lambda h: h.reshape(-1, 3),
    "flat, with rows": lambda h: h.flatten(1), "positions": lambda h: h * torch.arange(h.shape[1]).view(1, -1, 1),
    "lower triangle": lambda h: torch.ones(h.shape[1], h.shape[1]).tril() @ h, "size": lambda h: h / h.shape[1],
    "square root of the size": lambda h: h * math.sqrt(h.shape[1]), "numel": lambda h: h.sum() / h.numel(),
    "half of it": lambda h: h * (h.shape[1] // 2), "a branch": lambda h: h * 2 if h.shape[1] > 5 else h,
    "length": lambda h: h * len(h.transpose(0, 1)), "layer norm": lambda h: F.layer_norm(h, (3,)),
    "stack": lambda h: torch.stack([h, h], 2), "log_softmax": lambda h: h.log_softmax(1), "flip": lambda h: h.flip(1),
    "cross entropy over it": lambda h: F.cross_entropy(h.transpose(1, 2), (h[:, :, 0] > 0).long()),
    "conv": lambda h: F.conv1d(F.pad(h.transpose(1, 2), (1, 0)), torch.ones(3, 3, 2)),
    "padded conv": lambda h: F.conv1d(h.transpose(1, 2), torch.ones(3, 3, 3), padding=1),
    "dilated conv": lambda h: F.conv1d(h.transpose(1, 2), torch.ones(3, 3, 3), padding=2, dilation=2),
}  # fmt: skip
REFUSED: dict[str, Callable[[Any], Any]] = {
    "a large conv": lambda h: F.conv1d(h.transpose(1, 2), torch.ones(3, 3, 12), padding=11),
    "sort": lambda h: h.sort(1)[0], "cat after it": lambda h: torch.cat([h, h[:, :1]], 1),
    "dropout": lambda h: F.dropout(h, 0.5), "random": lambda h: h * torch.rand(h.shape[1]).view(1, -1, 1),
    "view that mixes it": lambda h: h.transpose(1, 2).reshape(h.shape[0], -1, 3),
    "linspace": lambda h: h * torch.linspace(0, 1, h.shape[1]).view(1, -1, 1), "split": lambda h: h.split(2, 1)[0],
    "a loop over it": lambda h: sum([row.tanh() for row in h.unbind(1)]), "chunk": lambda h: h.chunk(2, 1)[0],
    "steps of two": lambda h: h[:, ::2], "repeat": lambda h: h.repeat(1, 2, 1), "median": lambda h: h.median(1)[0],
}  # fmt: skip


def of_rows(function: Callable[[Any], Any], weight: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        weight.grad = None
        out = function(x * weight)
        loss = out.pow(2).mean()
        loss.backward()
        return loss.detach(), out.detach().clone(memory_format=torch.contiguous_format)

    return step


@pytest.mark.parametrize("name", EXACT)
def test_functions_along_a_size_that_varies(name: str) -> None:
    torch.manual_seed(1)
    weight = torch.randn(3, requires_grad=True)
    step = of_rows(EXACT[name], weight)
    compiled = torch.compile(step, dynamic={"x": 1})
    for size in (6, 3, 8, 2, 5, 11, 1):
        x = torch.randn(2, size, 3)
        want, gradient = step(x), weight.grad.clone()
        got = compiled(x)
        for ours, theirs in zip((*got, weight.grad), (*want, gradient)):
            assert ours.shape == theirs.shape
            assert torch.allclose(ours, theirs, atol=1e-5, equal_nan=True)
    programs = len(torch.compile.explain(compiled).data[0]["programs"])
    assert programs <= (7 if name == "length" else 5)


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_padding_would_change_are_refused(name: str) -> None:
    step = of_rows(REFUSED[name], torch.randn(3, requires_grad=True))
    with pytest.raises(CompileError, match="dynamic"):
        torch.compile(step, dynamic={"x": 1})(torch.randn(2, 6, 3))
    step(torch.randn(2, 6, 3))


def test_sizes_beyond_named_buckets_have_programs_of_their_own() -> None:
    step = torch.compile(lambda x: x.softmax(0).cumsum(0), dynamic={0: {0: (4, 10)}})
    for size in (3, 4, 10, 7, 11, 12, 11):
        x = torch.randn(size)
        assert torch.allclose(step(x), x.softmax(0).cumsum(0), atol=1e-6)
    assert len(torch.compile.explain(step).data[0]["programs"]) == 4


def test_what_the_caller_would_find_padded_is_refused() -> None:
    seen: list[Any] = []

    def keeps(x: Any) -> Any:
        seen.append(x * 2)
        return x.sum()

    one = torch.ones(1, requires_grad=True)
    for step in (lambda x: x, lambda x: x[:2], lambda x: x.add_(1), lambda x: x * one):
        with pytest.raises(CompileError, match="dynamic"):
            torch.compile(step, dynamic={0: 0})(torch.ones(5))
    compiled = torch.compile(keeps, dynamic={0: 0})
    for size in (5, 3):
        assert compiled(torch.ones(size)) == size
    assert [kept.tolist() for kept in seen] == [[2.0] * 5, [2.0] * 3]
    with pytest.raises(CompileError, match="requires a gradient"):
        torch.compile(lambda x: x.sum(), dynamic={0: 0})(torch.ones(5, requires_grad=True))


def test_views_that_eager_mode_refuses_are_refused() -> None:
    def step(x: Any) -> Any:
        return x.view(-1).sum()

    whole = torch.randn(3, 7)
    with pytest.raises((CompileError, RuntimeError)):
        torch.compile(step, dynamic={"x": 1})(whole[:, :-1])
    assert torch.compile(step, dynamic={"x": 1})(whole).shape == ()


def test_a_bucket_that_the_step_cannot_take_is_named() -> None:
    table = torch.randn(20, 3)

    def step(x: Any) -> Any:
        assert x.shape[0] <= 20
        return (x + table[: x.shape[0]]).sum(0)

    x = torch.randn(18, 3)
    with pytest.raises(CompileError, match="bucket"):
        torch.compile(step, dynamic={"x": 0})(x)
    assert torch.allclose(torch.compile(step, dynamic={"x": {0: (8, 20)}})(x), step(x), atol=1e-5)


def test_a_table_as_long_as_the_bucket() -> None:
    torch.manual_seed(0)
    table, mask = torch.randn(8, 3, requires_grad=True), torch.ones(8, 8).tril()

    def step(x: Any) -> Any:
        table.grad = None
        time = x.shape[1]
        loss = (mask[:time, :time] @ (x + table[:time]) + table[: time - 1].sum()).pow(2).mean()
        loss.backward()
        return loss.detach()

    compiled = torch.compile(step, dynamic={"x": 1})
    for size in (5, 8, 3, 7):
        x = torch.randn(2, size, 3)
        want, gradient = step(x), table.grad.clone()
        assert torch.allclose(compiled(x), want, atol=1e-5)
        assert torch.allclose(table.grad, gradient, atol=1e-5)


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda h: h.shape, "len": len, "numel": lambda h: h.numel(), "numel of a size": lambda h: h.shape.numel(),
    "stride": lambda h: h.transpose(0, 1).stride(), "nbytes": lambda h: h.nbytes, "text": lambda h: f"{h.shape}",
    "joined sizes": lambda h: (h.shape + (2,))[0], "found": lambda h: h.shape.count(8), "largest": lambda h: max(h.shape),
    "broadcast": lambda h: torch.broadcast_shapes(h.shape, (1, 3)), "sum": lambda h: sum(range(h.shape[0])),
    "compared": lambda h: tuple(h.shape) == (8, 3), "of another": lambda h: len(torch.zeros(h.shape[0] + 1)),
    "list": lambda h: [0] * h.shape[0],
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_follow_from_a_size(name: str) -> None:
    kept = [None]

    def step(x: Any) -> Any:
        h = x * 2
        number = NUMBERS[name](h)
        kept[0] = number
        times = number if isinstance(number, int) else 1
        if isinstance(number, int) and number > 18:
            h = h + 1
        return (h * times).sum(), number

    compiled = torch.compile(step, dynamic={"x": 0})
    for size in (5, 8, 3, 6, 7):
        x = torch.randn(size, 3)
        want, stored = step(x), kept[0]
        kept[0] = None
        got = compiled(x)
        assert torch.allclose(got[0], want[0], atol=1e-4)
        assert got[1] == want[1] and type(got[1]) is type(want[1]) and kept[0] == stored


def test_statements_that_only_some_sizes_reach() -> None:
    log: list[int] = []

    def step(x: Any) -> Any:
        if len((x * 2).split(2)) > 3:
            log.append(x.shape[0])
        return x.sum()

    compiled = torch.compile(step, dynamic={"x": 0})
    for size in (5, 8, 3, 7):
        compiled(torch.randn(size))
    assert log == [8, 7]


def test_labels_are_checked_without_the_padding() -> None:
    step = torch.compile(lambda x, y: F.cross_entropy(x, y), dynamic={"x": 0, "y": 0})
    step(torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1]))
    with pytest.raises(IndexError):
        step(torch.randn(4, 3), torch.tensor([0, 1, 3, 0]))


@pytest.mark.parametrize("dynamic", [{"z": 0}, {"x": "a"}, {"x": {0: (0,)}}, {1.5: 0}])
def test_what_dynamic_may_be(dynamic: Any) -> None:
    with pytest.raises(ValueError, match=r"dynamic|buckets"):
        torch.compile(lambda x: x, dynamic=dynamic)


def test_a_smaller_last_batch_compiles_once() -> None:
    model = nn.Linear(4, 2)

    @torch.compile
    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(3):
        for size in (8, 8, 3):
            step(torch.ones(size, 4))
    facts = torch.compile.explain(step).data[0]
    assert sum("tensor of shape [3, 4]" in cause for cause in facts["recompiles"]) == 1
    assert len(facts["programs"]) == 3


@pytest.mark.parametrize(
    ("dynamic", "words"),
    [
        ({"x": 5}, "dim 5 of 'x', which has 2 dims"),
        ({"other": 0}, "the step's are x, more"),
        ({"more": 0}, "which is a dict"),
        (["x"], "as in {'tokens': 1}"),
    ],
)
def test_sizes_that_do_not_exist_are_refused(dynamic: Any, words: str) -> None:
    def step(x: Any, more: Any) -> Any:
        return x.sum()

    with pytest.raises(ValueError, match=re.escape(words)):
        torch.compile(step, dynamic=dynamic)(torch.ones(3, 2), {})


def test_a_module_has_no_sizes_that_vary() -> None:
    with pytest.raises(ValueError, match="dynamic is for a whole step"):
        torch.compile(nn.Linear(2, 2), dynamic={"input": 0})
