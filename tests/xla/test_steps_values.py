"""Steps with parts whose outcome depends on values: draws, masks, lengths, counts. Eager and compiled agree."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.nn import functional as F

case = Cases()


@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    agree(case[name], programs=2)


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


def learning(model: nn.Module, loss_of: Any, args: Any = batch) -> Case:
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(*given: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(step, model, args=args)


# --- draws that depend on values: the program stops for them, and for the draws behind them


@case
def rrelu() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.RReLU(), nn.Dropout(0.5), nn.Linear(4, 4), nn.RReLU(inplace=True))
    return learning(model, lambda x: model(x).pow(2).mean() + torch.rand(()))


@case
def multinomial() -> Case:
    model = nn.Linear(3, 4)

    def loss(x: Any) -> Any:
        chances = model(x * torch.rand(5, 1)).softmax(-1)
        one, several = torch.multinomial(chances, 1), torch.multinomial(chances.detach(), 3, replacement=True)
        return -(chances.gather(1, one).log() * torch.randn(5, 1)).mean() + chances.gather(1, several).sum()

    return learning(model, loss)


@case
def policy() -> Case:
    model = nn.Linear(3, 2)

    def loss(x: Any) -> Any:
        policy = torch.distributions.Categorical(logits=model(x))
        action = policy.sample()
        return -(policy.log_prob(action) * (action.float() - 0.5)).mean() - 0.01 * policy.entropy().mean()

    return learning(model, loss)


@case
def drawn_by_rejection() -> Case:
    rates = torch.full((2, 3), 1.5, requires_grad=True)

    def step(x: Any) -> Any:
        positive = rates * x[:2].abs() + 0.5
        gamma = torch.distributions.Gamma(positive, positive).rsample()
        gamma.sum().backward()
        shares = torch.distributions.Dirichlet(positive.detach()).rsample()
        counts = torch.poisson(positive.detach()), torch.binomial(torch.full((3,), 5.0), x[0].sigmoid())
        return gamma.detach(), shares, counts, torch.randn(3)

    return Case(step, rates, args=batch)


@case
def tails_that_may_be_exponential() -> Case:
    """The formulas of a generalized Pareto distribution differ where its concentration is 0."""
    tails = torch.tensor([0.3, 0.0, -0.6], requires_grad=True)

    def step(x: Any) -> Any:
        d = torch.distributions.GeneralizedPareto(torch.zeros(3), x[0].abs() + 1.0, tails)
        drawn = d.rsample()
        loss = d.log_prob(x.abs().clamp(max=1.0)).sum() + drawn.sum() + d.expand((2, 3)).cdf(drawn.detach()).sum()
        return loss.detach(), torch.autograd.grad(loss, tails)

    return Case(step, tails, args=batch)


@case
def generator_of_its_own() -> Case:
    own = torch.Generator().manual_seed(7)

    def step(x: Any) -> Any:
        return torch.multinomial(x.softmax(-1), 1, generator=own), torch.rand(2, generator=own), torch.rand(2)

    return Case(step, args=batch)


@case
def checkpointed_draws() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.RReLU(), nn.Dropout(0.3))
    return learning(
        model, lambda x: torch.utils.checkpoint.checkpoint(model, x.requires_grad_(), use_reentrant=False).pow(2).sum()
    )


def test_weights_that_are_none_are_refused_while_the_program_runs() -> None:
    weight = torch.ones(2)

    def step(x: Any) -> Any:
        weight.add_(1)
        return torch.multinomial(x, 1)

    compiled = torch.compile(step)
    compiled(torch.ones(4))
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        compiled(torch.zeros(4))
    assert weight.tolist() == [2.0, 2.0]  # as before the step
    compiled(torch.ones(4))
    assert weight.tolist() == [3.0, 3.0]


# --- running statistics


@case
def cumulative_average() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None))
    return learning(model, lambda x: model(x).pow(3).mean())


# --- masks


@case
def written_under_masks() -> Case:
    weight = torch.randn(5, 3, requires_grad=True)
    row = torch.randn(3, requires_grad=True)

    def step(x: Any) -> Any:
        y = weight * x
        y[y > 1] = 0.1
        y[x[:, 0] > 0] = row
        y[:, x[0] > 0] = weight[:, :1] * 2
        y[x[:, 1] > 0, 1] = 7.0
        y[torch.isnan(y)] = y.new_zeros(())
        y[x[:, 2] > 0] = row[None]
        y[x > 9] = torch.zeros(0)
        y[x[:, 0] > -100] = weight * 3  # as many values as the mask selects
        y.index_put_((x > 0,), row[0] * 2, accumulate=True)
        (y.pow(2).sum() + torch.masked_fill(weight * x, x > 0, 0.0).sum()).backward()
        return y.detach(), (weight.detach() * x).masked_scatter(x > 1, torch.ones(15))

    return Case(step, weight, row, args=batch)


@case
def diagonals() -> Case:
    model = nn.Linear(3, 4)

    def loss(x: Any) -> Any:
        z = F.normalize(model(x), dim=1)
        alike = z @ z.t()
        alike.fill_diagonal_(-1e9)
        alike[1:, 1:].fill_diagonal_(-3.0)
        return F.cross_entropy(alike, torch.arange(5).roll(1)) + alike.as_strided((2, 2), (5, 1), 1).sum()

    return learning(model, loss)


@case
def shortened_rows() -> Case:
    model = nn.Embedding(7, 3, max_norm=0.5, padding_idx=0)
    return learning(model, lambda rows: model(rows).pow(2).mean(), lambda turn: (torch.randint(0, 7, (4,)),))


@case
def bags() -> Case:
    model = nn.EmbeddingBag(7, 3, mode="mean")

    def args(turn: int) -> tuple[Any, ...]:
        return torch.randint(0, 7, (6,)), torch.tensor([0, 1 + turn, 4])

    return learning(model, lambda rows, starts: model(rows, starts).pow(2).mean(), args)


# --- lengths and counts


@case
def lengths_made_in_the_step() -> Case:
    model = nn.Linear(3, 4)

    def loss(x: Any) -> Any:
        lengths = torch.tensor([2, 1, 3])
        rows = torch.repeat_interleave(torch.arange(3), lengths)
        longest = int(lengths.max())
        mask = torch.arange(longest)[None] < lengths[:, None]
        places = mask.nonzero()
        padded = torch.zeros(3, longest, 3)
        padded[places[:5, 0], places[:5, 1]] = x[: len(places[:5])]
        if (lengths > 2).any():
            padded = padded * lengths.sum().item()
        return model(padded).pow(2).mean() + x[rows[:5] % 5].sum()

    return learning(model, loss)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind: Any) -> None:
    def build() -> Case:
        model = kind(3, 4, batch_first=True, bidirectional=kind is nn.LSTM)
        rnn = nn.utils.rnn

        def loss(x: Any, lengths: list[int]) -> Any:
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, hidden = model(packed)
            padded, sizes = rnn.pad_packed_sequence(out, batch_first=True, total_length=5)
            last = padded[torch.arange(3), sizes - 1]
            return padded.pow(2).mean() + last.sum()

        return learning(model, loss, lambda turn: (torch.randn(3, 4, 3), [4, 2, 3] if turn < 2 else [1, 2, 4]))

    agree(build, programs=3)


def test_packed_by_lengths_that_are_tensors() -> None:
    def build() -> Case:
        model = nn.GRU(3, 4, batch_first=True)
        captured = torch.compile(lambda lengths: lengths + 1)(torch.tensor([3, 2, 0]))  # not on the host yet
        rnn = nn.utils.rnn

        def step(x: Any, lengths: Any) -> Any:
            one = model(rnn.pack_padded_sequence(x, captured, batch_first=True))[0].data.sum()
            return one + model(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1].sum()

        def args(turn: int) -> tuple[Any, ...]:
            if turn == 3:
                captured[2] = 2
            return torch.randn(3, 4, 3), torch.tensor([4, 2, 3] if turn != 1 else [1, 2, 4])

        return Case(step, model, args=args)

    agree(build, steps=4, programs=3)


@case
def aligned_by_known_lengths() -> Case:
    model, loss = nn.Linear(3, 5), nn.CTCLoss()
    return learning(
        model, lambda x, y: loss(model(x).log_softmax(-1), y, torch.tensor([6, 5]), torch.tensor([2, 3])),
        lambda turn: (torch.randn(6, 2, 3), torch.randint(1, 5, (5,))),
    )  # fmt: skip


@pytest.mark.parametrize("flat", [False, True])
def test_alignment_by_lengths_that_are_arguments(flat: bool) -> None:
    def build() -> Case:
        model, loss = nn.Linear(3, 5), nn.CTCLoss(reduction="sum" if flat else "mean", zero_infinity=True)

        def args(turn: int) -> tuple[Any, ...]:
            y = torch.randint(1, 5, (4,) if flat else (2, 3))
            return torch.randn(6, 2, 3), y, torch.tensor([6, 2 + turn]), torch.tensor([1 + turn, 3 - turn])

        return learning(model, lambda x, y, times, sizes: loss(model(x).log_softmax(-1), y, times, sizes), args)

    agree(build, programs=2)


@case
def counts() -> Case:
    def step(x: Any, weights: Any) -> Any:
        return (
            torch.bincount(x, minlength=6),
            torch.bincount(x, weights, minlength=6),
            torch.bincount(torch.tensor([1, 4])),
        )

    return Case(step, args=lambda turn: (torch.randint(0, 6, (5,)), torch.rand(5)))


def test_a_number_beyond_minlength_is_an_error() -> None:
    count = torch.compile(lambda x: torch.bincount(x, minlength=3))
    assert count(torch.tensor([0, 2])).tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match=r"has minlength \(3\) bins"):
        count(torch.tensor([0, 3]))


# --- memory


@case
def sharpness_aware() -> Case:
    """Steps up, looks at the gradient there, and goes back by `p.data = …`."""
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    kept: dict[Any, Any] = {}

    def step(x: Any) -> Any:
        loss = model(x).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                kept[p] = p.data.clone()
                p.add_(p.grad, alpha=0.05)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        for p in model.parameters():
            p.data = kept[p]
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Case(step, model, optimizer, args=batch)


# --- what stays an error, with the line and the cure

ADAPTIVE = nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2], div_value=2.0)

REFUSED: dict[str, tuple[Any, str]] = {
    "unique": (lambda x: torch.unique(x), "depends on the values"),
    "bincount without bins": (lambda x: torch.bincount(x.long().abs()[0]), "minlength"),
    "an adaptive softmax": (lambda x: ADAPTIVE(x, x[:, 0].long()).loss, r"layer\.log_prob"),
    "its prediction": (lambda x: ADAPTIVE.predict(x), r"layer\.log_prob"),
    "draws in a range": (lambda x: nn.init.trunc_normal_(torch.empty_like(x)), "outside of the compiled step"),
    "lengths that are computed": (lambda x: nn.utils.rnn.pack_padded_sequence(x, x[0].long()).data, "a list of ints"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_cure(name: str) -> None:
    step, cure = REFUSED[name]
    with pytest.raises(CompileError, match=cure) as error:
        torch.compile(step)(torch.randn(5, 3))
    assert f"test_steps_values.py:{step.__code__.co_firstlineno}" in str(error.value)


def test_a_hook_that_draws_before_it_needs_a_value_draws_once() -> None:
    def noted(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        layer, log = torch.nn.Linear(2, 2), list[Any]()

        def step(x: Any) -> None:
            y = layer(x)

            def hook(g: Any) -> Any:
                log.append(torch.rand(()).item())
                return g * 2

            y.register_hook(hook)
            y.pow(2).mean().backward()

        call = torch.compile(step) if compiled else step
        for _ in range(3):
            call(torch.ones(4, 2))
            log.append(torch.rand(()).item())
        return log

    assert noted(compiled=True) == noted(compiled=False)


# --- whole numbers of the program that are keys of dicts


@case
def counts_by_a_value() -> Case:
    counts: dict[int, float] = {}

    def step(x: Any) -> Any:
        counts[x.argmax().item()] = counts.get(0, 0.0) + x.sum().item()
        return x * 2

    return Case(step, args=lambda turn: (torch.tensor([1.0, 2.0, float(turn)]),), log=[counts])


@case
def a_returned_dict_with_a_value_as_key() -> Case:
    def step(x: Any) -> Any:
        found = {}
        found[x.argmax().item()] = x.sum()
        return found

    return Case(step, args=lambda turn: (torch.tensor([1.0, 2.0, float(turn)]),))


def test_sums_by_a_value_in_a_default_dict() -> None:
    def build() -> Case:
        layer, sums = nn.Linear(3, 2), defaultdict[int, float](float)

        def step(x: Any) -> Any:
            sums[layer(x).argmax().item()] += layer(x).sum().item()
            return x

        return Case(step, args=batch, log=[sums])

    agree(build)


# --- numbers that are written into tensors: in the program, as arithmetic with them is


@case
def numbers_from_tensors_become_elements() -> Case:
    model = nn.Linear(3, 2)

    def estimated(x: Any) -> Any:
        losses = torch.zeros(3)
        for k in range(3):
            losses[k] = model(x * (k + 1)).pow(2).mean().item()
        return losses.mean()

    def loss(x: Any) -> Any:
        number = x.norm().item()
        made = torch.tensor([number, 1.0]) + torch.full((2,), number) + torch.as_tensor(number).double()
        masked = x.masked_fill(x > 0, number) + x.new_full((5, 3), number)
        masked[:2] = number
        masked[masked < -1] = number
        return model(masked).pow(2).mean() * estimated(x) + (made * torch.zeros(2).fill_(number)).sum()

    return learning(model, loss)


@case
def numbers_that_each_call_changes_become_elements() -> Case:
    model = nn.Linear(3, 2)
    state = {"n": 0}

    def loss(x: Any) -> Any:
        state["n"] += 1
        weight = state["n"] * 0.5
        made = torch.tensor([weight, 2.0]) + torch.full((2,), weight) + torch.zeros(2).fill_(weight)
        made[0] = weight / 3
        return (model(x).masked_fill(x[:, :2] > 0, weight) * made).pow(2).mean()

    return learning(model, loss)


def test_a_number_out_of_the_range_of_a_tensor() -> None:
    """Infinite numbers and nan are written; numbers too large for float32 are refused, as eager mode raises an error."""

    def step(x: Any) -> Any:
        written = torch.zeros(2)
        written[0] = x.sum().item()
        return written + 1

    compiled = torch.compile(step)
    for value in (1.0, float("inf"), float("nan"), 2.0):
        x = torch.tensor([value], dtype=torch.float64)
        assert torch.equal(compiled(x).nan_to_num(7.0), step(x).nan_to_num(7.0))
    with pytest.raises(CompileError, match="the value of a tensor"):
        compiled(torch.tensor([1e300], dtype=torch.float64))
