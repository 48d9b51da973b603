"""Whole training steps, eager and compiled: results, parameters, gradients, optimizer state and random state agree."""

from __future__ import annotations

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
    agree(case[name])


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def batch(turn: int) -> tuple[Any, ...]:
    return (torch.randn(5, 3),)


def trained(model: nn.Module, optimizer: optim.Optimizer, args: Any = batch, **more: Any) -> Case:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Case(step, model, optimizer, args=args, **more)


# --- optimizers

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_dampening": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adam_amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.05),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, lr=1.0),
    "adamax": lambda p: optim.Adamax(p, lr=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.1),
    "asgd": lambda p: optim.ASGD(p, lr=0.1),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.1),
    "groups": lambda p: optim.SGD([{"params": list(p)[:2], "lr": 0.5}, {"params": []}], lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    def build() -> Case:
        model = mlp()
        return trained(model, OPTIMIZERS[name](model.parameters()))

    agree(build, steps=7 if name == "radam" else 4, tolerance=1e-4)


@case
def lr_schedule() -> Case:
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    return trained(model, optimizer, between=lambda turn: schedule.step())


@case
def one_cycle() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=10)
    return trained(model, optimizer, between=lambda turn: schedule.step())


@case
def scheduler_inside() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    return Case(step, model, optimizer, args=batch)


@case
def betas_changed() -> Case:
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def between(turn: int) -> None:
        optimizer.param_groups[0]["betas"] = (0.5, 0.9)

    return trained(model, optimizer, between=between)


@case
def two_optimizers() -> Case:
    generator, critic = mlp(), nn.Linear(2, 1)
    first, second = optim.Adam(generator.parameters(), lr=0.1), optim.SGD(critic.parameters(), lr=0.1)

    def step(z: Any) -> Any:
        made = generator(z)
        second.zero_grad()
        loss_critic = F.softplus(critic(made.detach())).mean() + F.softplus(-critic(torch.randn(5, 2))).mean()
        loss_critic.backward()
        second.step()
        first.zero_grad()
        loss = F.softplus(-critic(made)).mean()
        loss.backward()
        first.step()
        return {"critic": loss_critic, "generator": loss.detach(), "name": "gan"}

    return Case(step, generator, critic, first, second, args=batch)


# --- gradients


@case
def accumulation() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        for part in x.chunk(2):
            (model(part).pow(2).mean() / 2).backward()
        optimizer.step()

    return Case(step, model, optimizer, args=batch)


@case
def accumulation_across_calls() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, last: bool) -> Any:
        loss = model(x).pow(2).mean()
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return Case(step, model, optimizer, args=lambda turn: (torch.randn(5, 3), turn % 2 == 1))


@case
def zeroed_in_place() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return Case(step, model, optimizer, args=batch)


@case
def clipped_norm() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return norm

    return Case(step, model, optimizer, args=batch)


@case
def clipped_value() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        for p in model.parameters():
            p.grad.add_(0.01)
        optimizer.step()

    return Case(step, model, optimizer, args=batch)


@case
def no_backward() -> Case:
    model = mlp()
    return Case(lambda x: model(x), model, args=batch)


@case
def under_no_grad() -> Case:
    model = mlp()

    def step(x: Any) -> Any:
        with torch.no_grad():
            target = model(x)
        with torch.inference_mode():
            shown = model(x).argmax(1)
        return (model(x) - target * 2).pow(2).sum().detach(), shown

    return Case(step, model, args=batch)


@case
def retained_grad() -> Case:
    model = mlp()

    def step(x: Any) -> Any:
        hidden = model[0](x)
        hidden.retain_grad()
        loss = model[2](hidden.tanh()).pow(2).sum()
        loss.backward()
        return loss.detach(), hidden.grad

    return Case(step, model, args=batch)


@case
def hidden_kept() -> Case:
    """A tensor with its retained gradient goes out."""
    model = mlp()

    def step(x: Any) -> Any:
        hidden = model[0](x)
        hidden.retain_grad()
        model[2](hidden.tanh()).pow(2).sum().backward()
        return hidden.detach(), hidden.grad * 2

    return Case(step, model, args=batch)


@case
def double_backward() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).pow(2).mean()
        penalty.backward()
        optimizer.step()
        return penalty

    return Case(step, model, optimizer, args=batch)


@case
def grads_of_inputs() -> Case:
    model = mlp()

    def step(x: Any) -> Any:
        x.requires_grad_()
        return torch.autograd.grad(model(x).sum(), [x, *model.parameters()])

    return Case(step, model, args=batch)


@case
def argument_collects_gradient() -> Case:
    model = mlp()
    x = torch.randn(5, 3, requires_grad=True)

    def step(x: Any) -> Any:
        model(x).sum().backward()

    return Case(step, model, x, args=lambda turn: (x,))


# --- layers


def net(make: Any, shape: tuple[int, ...], integer: int = 0) -> Any:
    def build() -> Case:
        model = make()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def args(turn: int) -> tuple[Any, ...]:
            return (torch.randint(0, integer, shape) if integer else torch.randn(shape),)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            out = model(x)
            out = out[0] if isinstance(out, tuple) else out
            loss = out.pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return Case(step, model, optimizer, args=args)

    return build


case |= {
    "batch_norm": net(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), (5, 3)),
    "dropout": net(lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)), (5, 3)),
    "layer_norm": net(lambda: nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2), nn.GELU()), (5, 3)),
    "lstm": net(lambda: nn.LSTM(3, 4, 2, dropout=0.3, batch_first=True), (2, 5, 3)),
    "gru": net(lambda: nn.GRU(3, 4, bidirectional=True), (5, 2, 3)),
    "conv": net(
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2)
        ),
        (2, 2, 6, 6),
    ),
    "transposed_conv": net(lambda: nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 2, 4, 4)),
    "embedding": net(lambda: nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)), (2, 5), 7),
    "embedding_bag": net(lambda: nn.Sequential(nn.EmbeddingBag(7, 4), nn.Linear(4, 2)), (2, 5), 7),
    "transformer": net(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "group_norm": net(lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Conv1d(4, 2, 3)), (2, 4, 6)),
    "spectral_norm": net(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), (5, 3)),
    "weight_norm": net(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), (5, 3)),
}


@case
def attention() -> Case:
    model = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)

    def step(x: Any) -> Any:
        out, weights = model(x, x, x)
        out.pow(2).mean().backward()
        return out, weights

    return Case(step, model, args=lambda turn: (torch.randn(2, 5, 8),))


@case
def classifier() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(inputs: dict[str, Any], which: list[Any]) -> Any:
        optimizer.zero_grad()
        scores = model(inputs["x"])
        loss = F.cross_entropy(scores, inputs["y"], label_smoothing=0.1) + F.nll_loss(scores.log_softmax(1), which[0])
        loss.backward()
        optimizer.step()
        return {"loss": loss, "right": (scores.argmax(1) == inputs["y"]).float().mean()}

    return Case(step, model, optimizer, args=lambda turn: (
        {"x": torch.randn(5, 3), "y": torch.randint(0, 2, (5,))}, [torch.randint(0, 2, (5,))]))  # fmt: skip


# --- mixed precision and checkpoints


@case
def autocast() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        out.float().pow(2).mean().backward()
        optimizer.step()
        return out.dtype is torch.bfloat16

    return Case(step, optimizer, args=batch)


@case
def grad_scaler() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        scaler.scale(model(x).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    return Case(step, model, optimizer, args=batch)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant: bool) -> None:
    def build() -> Case:
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 2))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            hidden = torch.utils.checkpoint.checkpoint(model[:3], x.requires_grad_(), use_reentrant=reentrant)
            loss = model[3](hidden).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return Case(step, model, optimizer, args=batch)

    agree(build)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: int) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.abs() * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.sign() * ctx.factor * 3, None


@case
def custom_function() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        Double.apply(model(x), 2).sum().backward()
        optimizer.step()

    return Case(step, model, optimizer, args=batch)


# --- writes in place, and views


@case
def writes_and_views() -> Case:
    weight = torch.randn(4, 3, requires_grad=True)

    def step(x: Any) -> Any:
        y = (x @ weight.t()).clone()
        y[0] = y[1] * 2
        y[:, 1:3].mul_(3)
        y.t()[2].add_(1)
        part = y[2:4]
        part += part.flip(0)
        y.view(-1)[::2].neg_()
        z = y.clone()
        z[z > 0] = 0.5
        z.masked_fill_(y < -1, 2.0)
        z.index_add_(0, torch.tensor([0, 2]), y[:2])
        (y.sum() + z.pow(2).sum()).backward()
        return y, z, part

    return Case(step, weight, args=batch)


@case
def argument_written() -> Case:
    x = torch.zeros(3, 4)

    def step(x: Any) -> Any:
        x[1] += 2
        x.t()[0] -= 1
        return x.sum()

    return Case(step, x, args=lambda turn: (x,))


@case
def view_of_outside() -> Case:
    base = torch.arange(6.0)
    view = base.view(2, 3)

    def step() -> Any:
        view[0].add_(1)
        base[5] = base[0] * 2
        return view.sum()

    return Case(step, base, view)


@case
def returned_view_stays_alias() -> Case:
    base = torch.arange(6.0)
    kept: list[Any] = []

    def step() -> Any:
        base.mul_(2)
        return base[1:3]

    def between(turn: int) -> None:
        kept.append(base.sum().item())

    return Case(step, base, kept, between=between)


@case
def parameter_data() -> Case:
    model = mlp()

    def step(x: Any) -> Any:
        model.zero_grad()
        model(x).sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        model[0].weight.data.clamp_(-0.3, 0.3)
        model[0].bias.data[0] = 0.25

    return Case(step, model, args=batch)


@case
def moving_average() -> Case:
    model, target = mlp(), mlp()
    target.requires_grad_(False)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target(x))
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters()):
                slow.mul_(0.9).add_(fast, alpha=0.1)
        return loss

    return Case(step, model, target, optimizer, args=batch)


@case
def averaged_model() -> Case:
    model = mlp()
    average = optim.swa_utils.AveragedModel(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        average.update_parameters(model)

    return Case(step, model, average, optimizer, args=batch)


# --- state that lives on


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.hidden: Any = None
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        hidden = x.new_zeros(5, 4) if self.hidden is None else self.hidden
        hidden = self.cell(x, hidden)
        self.hidden = hidden.detach()
        self.count += 1
        return hidden


@case
def hidden_state() -> Case:
    model = Remembering()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    made = trained(model, optimizer)
    return Case(made.step, model, optimizer, model.__dict__["_buffers"], args=batch)


@case
def buffer_replaced() -> Case:
    model = nn.Linear(3, 2)
    model.register_buffer("mean", torch.zeros(3))

    def step(x: Any) -> Any:
        model.mean = 0.9 * model.mean + 0.1 * x.mean(0)
        return model(x - model.mean)

    return Case(step, model, args=batch)


@case
def closure_over_tensor() -> Case:
    total = torch.zeros(2)
    scale = torch.tensor(2.0)

    def step(x: Any) -> Any:
        nonlocal total
        total = total + x[0, :2] * scale
        return total

    return Case(step, scale, args=batch)


@case
def module_as_argument() -> Case:
    models = [mlp(), mlp()]

    def step(model: Any, x: Any, kind: str, factor: int) -> Any:
        loss = model(x).pow(2 if kind == "square" else 4).sum() * factor
        model.zero_grad()
        loss.backward()
        return loss

    return Case(step, *models, args=lambda turn: (
        models[turn % 2], torch.randn(5, 3), ("square", "fourth")[turn % 2], turn))  # fmt: skip


@case
def other_shapes() -> Case:
    model = mlp()
    return trained(model, optim.SGD(model.parameters(), lr=0.1), lambda turn: (torch.randn(3 + turn % 2, 3),))


# --- what happens between the steps


def changed(change: Any, make: Any = mlp) -> Any:
    def build() -> Case:
        model = make()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return trained(model, optimizer, between=lambda turn: change(turn, model, optimizer))

    return build


def _eager_step(turn: int, model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def _new_data(turn: int, model: Any, optimizer: Any) -> None:
    model[0].weight.data = torch.full((4, 3), 0.1)


def _loaded(turn: int, model: Any, optimizer: Any) -> None:
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})
    optimizer.load_state_dict(optimizer.state_dict())


def _frozen(turn: int, model: Any, optimizer: Any) -> None:
    model[0].weight.requires_grad_(turn % 2 == 1)


def _replaced(turn: int, model: Any, optimizer: Any) -> None:
    model[1] = nn.ReLU()


def _evaluated(turn: int, model: Any, optimizer: Any) -> None:
    model.train(turn % 2 == 1)


def _looked_at(turn: int, model: Any, optimizer: Any) -> None:
    repr(model[0].weight)
    model[0].weight.tolist()
    model[0].bias.detach().numpy()[0] = 0.5
    assert float(model[0].bias[0].item()) == 0.5
    model[2].weight.grad.numpy()


def _written_without_recording(turn: int, model: Any, optimizer: Any) -> None:
    with torch.no_grad():
        model[0].weight.mul_(0.5)
        model[2].weight.grad.zero_()
        model[2].bias.copy_(torch.ones(2))


def _grads_dropped(turn: int, model: Any, optimizer: Any) -> None:
    optimizer.zero_grad(set_to_none=turn % 2 == 0)


case |= {
    "eager_step_between": changed(_eager_step),
    "new_data_between": changed(_new_data),
    "state_loaded_between": changed(_loaded),
    "frozen_between": changed(_frozen),
    "module_replaced_between": changed(_replaced),
    "evaluated_between": changed(_evaluated, lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())),
    "looked_at_between": changed(_looked_at),
    "written_between": changed(_written_without_recording),
    "grads_dropped_between": changed(_grads_dropped),
}


@case
def only_written() -> Case:
    """State that the step overwrites without reading it."""
    kept, weight = torch.zeros(3), torch.ones(3)

    def step(x: Any) -> Any:
        kept.copy_(x[0] * weight)
        weight.copy_(kept * 2)
        return kept.clone().sum()

    return Case(step, kept, weight, args=batch)


@case
def arguments_returned() -> Case:
    """A step that returns its argument, and views of it, returns the very tensor and views of it."""
    given = [torch.full((2, 3), float(turn)) for turn in range(3)]
    log: list[Any] = []

    def step(x: Any, w: Any) -> Any:
        x.add_(1)
        return x, x.t(), x.view(-1)[1:3], x.chunk(2)[1], (x * w).sum()

    def args(turn: int) -> tuple[Any, ...]:
        return given[turn], torch.full((3,), float(turn), requires_grad=True)

    return Case(step, given, args=args, log=log)


def test_a_returned_view_of_an_argument_is_one() -> None:
    step = torch.compile(lambda x: (x, x.t()))
    for _ in range(2):
        x = torch.zeros(2, 3)
        same, turned = step(x)
        assert same is x
        turned[0, 1] = 5.0
        assert x[1, 0] == 5.0


# --- no value is asked for that is not needed


@case
def checks_of_values_are_left_out() -> Case:
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    layer = nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0, batch_first=True)
    embedding = nn.Embedding(5, 3)

    def step(x: Any, places: Any) -> Any:
        return (
            F.binary_cross_entropy(x.sigmoid(), (x > 0).float()),
            torch.linalg.inv(x[:3] @ x[:3].t() + torch.eye(3)),
            torch.linalg.cholesky(x.t() @ x + torch.eye(3)),
            torch.quantile(x, torch.tensor([0.25, 0.5])),
            F.gumbel_softmax(x, hard=True),
            torch.distributions.Normal(x, torch.ones(3)).log_prob(x.detach() * 2),
            torch.distributions.Normal(x, torch.full((3,), 2.0)).rsample(),
            torch.bernoulli(x.sigmoid()),
            embedding(places), F.one_hot(places, 5), x.gather(1, places[:, None] % 3), x.unsqueeze(1).expand(5, 2, 3),
            layer(torch.ones(2, 3, 4), mask),
        )  # fmt: skip

    return Case(step, args=lambda turn: (torch.randn(5, 3), torch.randint(0, 5, (5,))))


@pytest.mark.parametrize("step", [lambda x: x.unique(), lambda x: x.numpy()])
def test_what_needs_values_is_refused_with_its_line(step: Any) -> None:
    with pytest.raises(CompileError, match=r"test_steps\.py:\d+"):
        torch.compile(step)(torch.randn(3))


def test_lbfgs_is_refused_because_it_decides_by_values() -> None:
    model = nn.Linear(3, 1)
    optimizer = optim.LBFGS(model.parameters())
    before = model.weight.detach().clone()

    @torch.compile
    def step(x: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        return optimizer.step(closure)

    with pytest.raises(CompileError, match=r"test_steps\.py:\d+, decides by values.*Compile the closure"):
        step(torch.ones(4, 3))
    assert torch.equal(model.weight, before) and model.weight.grad is None
