"""Steps as people write them: models, losses and tricks of the trade, eager and compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow.nn import functional as F

case = Cases()


@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    agree(case[name], steps=2 if name in SLOW else 3, tolerance=1e-4, programs=2)


SLOW = {"residual_images", "segmentation", "adversaries"}


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def train(
    model: nn.Module, optimizer: Any, loss_of: Callable[..., Any], args: Any = batch, *more: Any, after: Any = None
) -> Case:
    def step(*given: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        if after is not None:
            after()
        return loss.detach()

    return Case(step, model, optimizer, *more, args=args)


# --- models


class Block(nn.Module):
    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(inside, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out)
        self.second, self.also = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential(nn.Conv2d(inside, out, 1, 2, bias=False), nn.BatchNorm2d(out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.also(self.second(self.relu(self.norm(self.first(x)))))
        y += self.shortcut(x)
        return self.relu(y)


@case
def residual_images() -> Case:
    model = nn.Sequential(Block(2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    return train(
        model, optimizer, lambda x, y: criterion(model(x), y),
        lambda turn: (torch.randn(2, 2, 6, 6), torch.randint(0, 3, (2,))),
    )  # fmt: skip


@case
def segmentation() -> Case:
    down, middle = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 3, 3, padding=1)
    up, out = nn.ConvTranspose2d(3, 2, 2, 2), nn.Conv2d(7, 1, 1)
    model = nn.ModuleList([down, middle, up, out])

    def loss(x: Any, y: Any) -> Any:
        a = F.relu(down(x))
        b = F.silu(middle(F.max_pool2d(a, 2)))
        wide = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=True)
        scores = out(torch.cat([a, up(b), wide], 1))
        p = scores.sigmoid()
        dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        return F.binary_cross_entropy_with_logits(scores, y) + dice

    return train(
        model, optim.RMSprop(model.parameters(), 1e-2), loss,
        lambda turn: (torch.randn(2, 1, 4, 4), (torch.rand(2, 1, 4, 4) > 0.5).float()),
    )  # fmt: skip


@case
def language_with_memory() -> Case:
    words, cells, out = nn.Embedding(9, 4), nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 9)
    out.weight = words.weight
    model = nn.ModuleList([words, cells, out])
    memory = {"hidden": torch.zeros(1, 2, 4), "cell": torch.zeros(1, 2, 4)}
    optimizer = optim.SGD(model.parameters(), 0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        seen, after = cells(F.dropout(words(x[:, :-1]), 0.1), (memory["hidden"], memory["cell"]))
        memory["hidden"], memory["cell"] = after[0].detach(), after[1].detach()
        loss = F.cross_entropy(out(seen).transpose(1, 2), x[:, 1:])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return loss.detach().exp(), norm

    return Case(step, model, args=lambda turn: (torch.randint(0, 9, (2, 4)),))


@case
def autoencoder() -> Case:
    encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
    model = nn.ModuleList([encoder, decoder])

    def loss(x: Any) -> Any:
        mean, logvar = encoder(x).chunk(2, -1)
        spread = torch.exp(0.5 * logvar)
        made = decoder(mean + torch.randn_like(spread) * spread).sigmoid()
        normal = torch.distributions.Normal(mean, spread)
        apart = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum()
        return F.binary_cross_entropy(made, x, reduction="sum") + apart

    return train(model, optim.Adam(model.parameters(), 1e-2), loss, lambda turn: (torch.rand(3, 6),))


@case
def adversaries() -> Case:
    maker = nn.Sequential(nn.Linear(2, 4, bias=False), nn.BatchNorm1d(4), nn.LeakyReLU(0.2), nn.Linear(4, 3))
    judge = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    makes, judges = optim.Adam(maker.parameters(), 1e-2, (0.5, 0.999)), optim.Adam(judge.parameters(), 1e-2)

    def step(real: Any) -> Any:
        for p in judge.parameters():
            p.requires_grad_(True)
        judges.zero_grad()
        fake = maker(torch.randn(len(real), 2))
        mixed = torch.lerp(real, fake.detach(), torch.rand(len(real), 1)).requires_grad_()
        out = judge(mixed)
        (slope,) = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True)
        loss = judge(fake.detach()).mean() - judge(real).mean() + 10 * (slope.norm(2, dim=1) - 1).pow(2).mean()
        loss.backward()
        judges.step()
        for p in judge.parameters():
            p.requires_grad_(False)
        makes.zero_grad()
        made = -judge(fake).mean()
        made.backward()
        makes.step()
        return loss.detach(), made.detach()

    return Case(step, maker, judge, makes, judges, args=batch)


# --- losses and tricks


@case
def contrast() -> Case:
    model = mlp()

    def loss(a: Any, b: Any) -> Any:
        z = F.normalize(torch.cat([model(a), model(b)]), dim=1)
        alike = z @ z.t() / 0.5
        alike.fill_diagonal_(-1e9)
        return F.cross_entropy(alike, torch.cat([torch.arange(4, 8), torch.arange(4)]))

    return train(model, optim.SGD(model.parameters(), 0.1), loss, lambda turn: (torch.randn(4, 3), torch.randn(4, 3)))


@case
def teacher() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    slow = copy.deepcopy(model).eval().requires_grad_(False)
    kept = {name: value.clone() for name, value in model.state_dict().items()}

    def after() -> None:
        with torch.no_grad():
            for a, b in zip(slow.parameters(), model.parameters()):
                a.data.lerp_(b.data, 0.1)
            for a, b in zip(slow.buffers(), model.buffers()):
                a.copy_(b)
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                kept[name].mul_(0.9).add_(value, alpha=0.1)

    def loss(x: Any) -> Any:
        return F.kl_div(F.log_softmax(model(x), 1), F.softmax(slow(x) / 2, 1), reduction="batchmean")

    return train(model, optim.SGD(model.parameters(), 0.1), loss, batch, slow, kept, after=after)


@case
def experts() -> Case:
    gate, work = nn.Linear(3, 4), nn.ModuleList([nn.Linear(3, 2) for _ in range(4)])
    model = nn.ModuleList([gate, work])

    def loss(x: Any) -> Any:
        chances = gate(x).softmax(-1)
        weights, chosen = chances.topk(2, -1)
        outs = torch.stack([expert(x) for expert in work], 1)
        mixed = (outs.gather(1, chosen[..., None].expand(-1, -1, 2)) * weights[..., None]).sum(1)
        load = torch.bincount(chosen.flatten(), minlength=4) / chosen.numel()
        return mixed.pow(2).mean() + 4 * (load * chances.mean(0)).sum()

    return train(model, optim.Adam(model.parameters(), 1e-2), loss)


@case
def learning_to_learn() -> Case:
    model = mlp()

    def loss(x: Any, y: Any) -> Any:
        params = dict(model.named_parameters())
        inner = F.cross_entropy(torch.func.functional_call(model, params, (x,)), y)
        slopes = torch.autograd.grad(inner, list(params.values()), create_graph=True)
        fast = {name: p - 0.1 * slope for (name, p), slope in zip(params.items(), slopes)}
        return F.cross_entropy(torch.func.functional_call(model, fast, (x * 2,)), y)

    return train(
        model, optim.Adam(model.parameters(), 1e-2), loss, lambda turn: (torch.randn(5, 3), torch.randint(0, 2, (5,)))
    )


@case
def policy_and_value() -> Case:
    policy, value = mlp(), nn.Linear(3, 1)
    model = nn.ModuleList([policy, value])

    def loss(x: Any, action: Any, old: Any, gain: Any) -> Any:
        choice = torch.distributions.Categorical(logits=policy(x))
        ratio = (choice.log_prob(action) - old).exp()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return -clipped.mean() + 0.5 * F.mse_loss(value(x).squeeze(-1), gain) - 0.01 * choice.entropy().mean()

    return train(
        model, optim.Adam(model.parameters(), 1e-2), loss,
        lambda turn: (torch.randn(5, 3), torch.randint(0, 2, (5,)), torch.randn(5), torch.randn(5)),
    )  # fmt: skip


@case
def denoising() -> Case:
    model = nn.Linear(4, 3)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 10), 0)

    def loss(x: Any) -> Any:
        when, noise = torch.randint(0, 10, (len(x),)), torch.randn_like(x)
        share = kept[when][:, None]
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        return F.mse_loss(model(torch.cat([noisy, when[:, None] / 10], 1)), noise)

    return train(model, optim.AdamW(model.parameters(), 1e-2), loss)


@case
def weights_computed_by_hooks() -> Case:
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 3)), nn.Tanh(), nn.Linear(3, 2))
    return train(model, optim.SGD(model.parameters(), 0.1), lambda x: model(x).pow(2).mean())


@case
def pruned_and_parametrized() -> Case:
    model = mlp()
    nn.utils.prune.l1_unstructured(model[0], "weight", amount=0.5)
    nn.utils.parametrizations.weight_norm(model[2])
    return train(model, optim.SGD(model.parameters(), 0.1), lambda x: model(x).pow(2).mean())


def test_orthogonal_steps() -> None:
    def build() -> Case:
        model = nn.Linear(3, 4, bias=False)
        return train(model, optim.Muon(model.parameters(), lr=0.02), lambda x: model(x).pow(2).mean())

    agree(build, tolerance=1e-2, programs=2)  # computes in bfloat16


FLAGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"fused": True, "momentum": 0.9}), ("Adam", {"foreach": True}), ("AdamW", {"fused": True, "maximize": True}),
    ("RMSprop", {"foreach": True, "maximize": True}), ("Adagrad", {"fused": True}),
]  # fmt: skip


@pytest.mark.parametrize("name, flags", FLAGS)
def test_flags_of_optimizers(name: str, flags: dict[str, Any]) -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = getattr(optim, name)(model.parameters(), lr=0.05, **flags)
        return train(model, optimizer, lambda x: model(x).pow(2).mean())

    agree(build, programs=2)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_with_a_compiled_closure(search: str | None) -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, x, y = mlp(), torch.randn(8, 3), torch.randn(8, 2)
        optimizer = optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn=search)

        def closure(model: Any = model, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        look = torch.compile(closure) if compiled else closure
        losses = [optimizer.step(look).item() for _ in range(3)]
        found.append([*losses, *[p.sum().item() for p in model.parameters()]])
    assert found[0] == pytest.approx(found[1], rel=1e-3, abs=1e-4)
    assert len(torch.compile.explain(look).data[0]["programs"]) <= 2


class Momentum(optim.Optimizer):
    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"], state["step"] = torch.zeros_like(p), 0
                state["step"] += 1
                state["buffer"].mul_(0.9).add_(p.grad)
                p.sub_(state["buffer"] / (1 - 0.9 ** state["step"]), alpha=group["lr"])


def test_an_optimizer_of_the_users_own_and_a_sum_that_is_logged() -> None:
    def build() -> Case:
        model, log = mlp(), list[float]()
        optimizer = Momentum(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
            optimizer.step()
            log.append(norm.item())

        return Case(step, model, optimizer, args=batch, log=log)

    agree(build, steps=4, programs=2)
