"""Steps that decide about values: each way that calls take is a program, and all that a branch does is done."""

from __future__ import annotations

import math
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree, run
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow._src.compile.tracing import data_dependent_branches as decisions
from undertow.nn import functional as F

case = Cases()
NAN = float("nan")
BATCHES = [1.0, 1.0, NAN, 0.3, 4.0, 4.0, NAN, 1.0]  # what the batches are multiplied by


@pytest.mark.parametrize("name", case)
def test_steps_that_decide(name: str) -> None:
    agree(case[name], steps=len(BATCHES))


def batches(turn: int) -> tuple[Any, ...]:
    return (torch.randn(4, 3) * BATCHES[turn],)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def training(body: Any, *state: Any, **more: Any) -> Case:
    """A model and an optimizer with a step that `body(model, optimizer)` makes."""
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    return Case(body(model, optimizer), model, optimizer, *state, args=batches, **more)


# --- guards


@case
def the_optimizer_steps_if_the_loss_is_finite() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            if torch.isfinite(loss):
                optimizer.step()
            return loss

        return step

    return training(body)


@case
def the_step_returns_early() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            if not torch.isfinite(loss):
                return loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    return training(body)


@case
def a_loop_goes_on_and_counts() -> Case:
    counts = {"skipped": 0, "total": 0.0}

    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> float:
            total = 0.0
            for part in (x, x.nan_to_num(0.5)):
                optimizer.zero_grad()
                loss = model(part).pow(2).mean()
                if torch.isnan(loss).any():
                    counts["skipped"] += 1
                    continue
                loss.backward()
                optimizer.step()
                total += loss.item()
            counts["total"] += total
            return total

        return step

    return training(body, look=lambda: dict(counts))


@case
def a_number_that_was_taken_out_is_asked_about_and_kept() -> Case:
    kept: list[float] = []

    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> float:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            value = loss.item()
            if not math.isfinite(value):
                print("the loss is", value)
                return value
            loss.backward()
            optimizer.step()
            kept.append(value)
            return value

        return step

    return training(body, look=lambda: list(kept))


@case
def a_norm_below_a_limit() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if norm < 0.5:
                optimizer.step()
            elif norm > 0.7:
                optimizer.zero_grad()
            return norm

        return step

    return training(body)


@case
def gradients_are_none_after_one_branch_only() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            loss = model(x).pow(2).mean()
            loss.backward()
            if loss > 0.2:
                optimizer.step()
                optimizer.zero_grad()
            return loss.detach()

        return step

    return training(body)


@case
def all_of_several_gradients() -> Case:
    scale = {"value": 4.0}

    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            (loss * scale["value"]).backward()
            if all(torch.isfinite(p.grad).all() for p in model.parameters()):
                for p in model.parameters():
                    p.grad /= scale["value"]
                optimizer.step()
                scale["value"] *= 1.5
            else:
                scale["value"] *= 0.5
            return loss.detach()

        return step

    return training(body, look=lambda: dict(scale))


@case
def a_scheduler_steps_with_the_optimizer() -> Case:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        if torch.isfinite(loss):
            loss.backward()
            optimizer.step()
            scheduler.step()
        return loss.detach()

    return Case(step, model, optimizer, args=batches, look=lambda: [scheduler.last_epoch, scheduler.get_last_lr()])


@case
def a_loop_breaks() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            place = 0
            for place in range(4):  # noqa: B007
                optimizer.zero_grad()
                loss = model(x).pow(2).mean()
                if loss < 0.1:
                    break
                loss.backward()
                optimizer.step()
            else:
                place = -1
            return loss.detach(), place

        return step

    return training(body)


@case
def a_loop_that_ends_when_a_value_says_so() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            loss, rounds = model(x).pow(2).mean(), 0
            while loss > 0.05:
                loss, rounds = loss * 0.8, rounds + 1
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), rounds

        return step

    return training(body)


@case
def other_spellings_of_a_choice() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            loss = model(x).pow(2).mean()
            factor = 0.1 if loss > 0.3 else 1.0
            sign = (loss > 0.2 and torch.tensor(2.0)) or 1
            bad = bool(torch.isnan(loss)) or loss.isinf().item() or float(loss.detach()) > 5
            many = int((x > 0).sum()) >= 6
            optimizer.zero_grad()
            if not bad:
                (loss * factor * sign).backward()
                optimizer.step()
            return loss.detach(), factor, bad, many, max(loss.item(), 0.25) if not bad else None

        return step

    return training(body)


@case
def random_draws_in_a_branch() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            loss = F.dropout(model(x), 0.5).pow(2).mean()
            if loss > 0.3:
                loss = loss + 0.01 * torch.rand(())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), torch.rand(2)

        return step

    return training(body)


@case
def buffers_and_attributes_in_a_branch() -> Case:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.layer, self.seen = nn.BatchNorm1d(3), nn.Linear(3, 2), 0

        def forward(self, x: Any) -> Any:
            if x.isnan().any():
                self.last = None
                return self.layer(torch.zeros_like(x))
            self.seen += 1
            self.last = x.mean()
            return self.layer(self.norm(x))

    model = Normed()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(step, model, optimizer, args=batches, look=lambda: [model.seen, model.last])


@case
def what_is_raised_is_handled() -> Case:
    counts = {"bad": 0, "all": 0}

    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            try:
                if not torch.isfinite(loss):
                    raise FloatingPointError
                assert loss < 0.5
                loss.backward()
                optimizer.step()
            except (FloatingPointError, AssertionError):
                counts["bad"] += 1
            finally:
                counts["all"] += 1
            return loss.detach()

        return step

    return training(body, look=lambda: dict(counts))


# --- hooks


def hooked(noted: list[Any], observe: bool) -> Any:
    def body(model: Any, optimizer: Any) -> Any:
        if observe:
            model[0].weight.register_hook(lambda g: noted.append(("grad", g.sum().item())))
            model[2].register_forward_hook(lambda m, args, out: noted.append(("out", out.sum().item())))
            optimizer.register_step_post_hook(lambda *args: noted.append("stepped"))
        else:
            model[0].weight.register_hook(lambda g: g * 2)
            model[2].register_full_backward_hook(lambda m, before, after: (before[0] * 0.5,))

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            if torch.isfinite(loss):
                loss.backward()
                if loss < 0.5:
                    optimizer.step()
            return loss.detach()

        return step

    return body


@case
def hooks_that_observe_fire_in_branches_that_are_taken() -> Case:
    noted: list[Any] = []
    return training(hooked(noted, True), look=lambda: list(noted))


@case
def hooks_that_compute_fire_in_branches_that_are_taken() -> Case:
    return training(hooked([], False))


@case
def a_hook_that_the_program_stops_for_behind_a_decision() -> Case:
    noted: list[Any] = []

    def body(model: Any, optimizer: Any) -> Any:
        model[0].weight.register_hook(lambda g: noted.append(g.sum().item()) or g * 2)  # type: ignore[func-returns-value]

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            if not torch.isfinite(loss):
                return loss.detach()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    return training(body, look=lambda: list(noted))


@case
def a_hook_that_decides() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def shortened(g: Any) -> Any:
            return g / g.norm() if g.norm() > 0.1 else None

        def clipped(module: Any, args: Any, out: Any) -> Any:
            if out.abs().max() > 0.5:
                return out * 0.5
            return None

        model[0].weight.register_hook(shortened)
        model[0].register_forward_hook(clipped)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            if loss < 0.4:
                optimizer.step()
            return loss.detach()

        return step

    return training(body)


# --- numbers that are taken out of tensors


@case
def totals_and_averages() -> Case:
    totals: dict[str, Any] = {"total": 0.0, "count": 0, "correct": 0, "losses": []}

    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x.nan_to_num(0.1)).pow(2).mean()
            loss.backward()
            optimizer.step()
            totals["total"] += loss.item()
            totals["count"] += 1
            totals["correct"] += int((x > 0).sum())
            totals["losses"].append(float(loss.detach()))
            average = totals["total"] / totals["count"]
            totals["accuracy"] = totals["correct"] / (totals["count"] * x.numel())
            return average, loss.detach() / average

        return step

    return training(body, look=lambda: {**totals, "losses": list(totals["losses"])})


@case
def a_number_goes_back_into_tensors() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            x = x.nan_to_num(0.1)
            scale, many = x.abs().mean().item(), int((x > 0).sum())
            loss = (model(x) * scale / (many + 1)).pow(2).mean() - abs(-scale)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            low, high = x.mean(0)[:2].tolist()
            return loss.detach(), x.clamp(min=-scale), x * low + high, many % 3, many // 2

        return step

    return training(body)


@case
def whole_numbers_that_code_wants_to_know() -> Case:
    def body(model: Any, optimizer: Any) -> Any:
        table = ["a", "b", "c"]

        def step(x: Any) -> Any:
            x = x.nan_to_num(0.1)
            place = int(x.sum(0).argmax())
            first = [x[row] for row in range(1 + place)]
            loss = model(x)[:, place % 2].pow(2).mean() + len(first)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), table[place], x[: place + 1], {0: "x", 1: "y", 2: "z"}[place]

        return step

    return training(body)


def test_a_division_by_nothing_raises_as_it_does_eagerly() -> None:
    def step(x: Any) -> Any:
        return x * (1 / x.sum().item()) + 3 // int((x > 2).sum())

    compiled = torch.compile(step)
    torch.testing.assert_close(compiled(torch.tensor([1.0, 3.0])), step(torch.tensor([1.0, 3.0])))
    for bad, words in (([-3.0, 3.0], "float division by zero"), ([1.0, 1.0], "integer division or modulo by zero")):
        for function in (step, compiled):
            with pytest.raises(ZeroDivisionError, match=words):
                function(torch.tensor(bad))


def test_code_that_compares_types_gets_no_stand_in() -> None:
    def compares(x: Any) -> Any:
        value = x.sum().item()
        if type(value) is float:
            x = x * 2
        return x

    def names(x: Any) -> Any:
        value = x.sum().item()
        if type(value).__name__ == "float":
            x = x * 2
        return x

    for step in (compares, names):
        with pytest.raises(CompileError, match="keep it a tensor"):
            torch.compile(step)(torch.ones(2))


# --- errors, and ways that are not gone


def test_what_a_branch_raises_is_raised_when_it_is_taken() -> None:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        if loss.isnan():
            x = x.reshape(7)  # which raises, too
        if loss > 100:
            raise OverflowError(f"more than {100}")
        loss.backward()
        optimizer.step()
        return loss.detach()

    before = [p.clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        step(torch.full((4, 3), NAN))
    model[2].bias.data.fill_(1000)
    with pytest.raises(OverflowError):
        step(torch.ones(4, 3))
    model[2].bias.data.copy_(before[3])
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before)) and model[0].weight.grad is None
    step(torch.ones(4, 3))
    assert not any(torch.equal(p, was) for p, was in zip(model.parameters(), before))


def test_labels_are_checked_on_the_way_that_is_gone() -> None:
    layer = nn.Linear(3, 2)

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        logits = layer(x)
        if torch.isfinite(logits).all():
            return F.cross_entropy(logits, y)
        return logits.sum()

    assert torch.isfinite(step(torch.ones(2, 3), torch.tensor([0, 1])))
    assert torch.isnan(step(torch.full((2, 3), NAN), torch.tensor([0, 7])))
    with pytest.raises(IndexError, match="out of bounds"):
        step(torch.ones(2, 3), torch.tensor([0, 7]))


def test_a_hook_that_would_run_twice_is_refused() -> None:
    weight, noted = nn.Parameter(torch.ones(3)), []
    weight.register_hook(lambda g: g * 2 if noted.append(1) is None else g)  # type: ignore[func-returns-value]

    @torch.compile
    def step(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()
        if weight.grad.sum() > 0:
            weight.grad.neg_()
        return weight.grad

    with pytest.raises(CompileError, match=r"would run twice.*Let the step decide before the hook fires"):
        step(torch.ones(3))
    assert weight.grad is None and not noted


def test_decisions_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST", 32)

    @torch.compile
    def step(x: Any) -> Any:
        while x.sum() > 0:
            x = x * 1.5
        return x

    with pytest.raises(CompileError, match=r"test_decisions\.py:\d+.*more than 32 times"):
        step(torch.ones(2))


def test_a_report_lists_decisions() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x

    step(torch.ones(2))
    step(-torch.ones(2))
    facts = torch.compile.explain(step).data[0]
    assert sorted(program["decisions"][0]["answer"] for program in facts["programs"]) == [False, True]
    assert "x.sum() > 0" in facts["programs"][0]["decisions"][0]["where"]
    assert "the decision about a value" in facts["recompiles"][0] and "x.sum() > 0" in str(torch.compile.explain(step))


def test_a_decision_that_was_made_before_has_its_program() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        if x.sum() > 0:
            x = x * 2
        else:
            x = x * 3
        return x

    values = [1.0, -1.0, -2.0, 3.0, -1.0, 2.0]
    assert [step(torch.full((2,), value))[0].item() for value in values] == [2.0, -3.0, -6.0, 6.0, -3.0, 4.0]
    assert [len(programs) for programs in step.programs.values()] == [2]


# --- modules


def test_a_compiled_module_decides() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.a(x) if x.sum() > 0 else self.b(x).tanh()

    def build() -> Case:
        module, noted = Gated(), []
        module.a.register_forward_hook(lambda m, args, out: noted.append(out.sum().item()))
        module.b.weight.register_hook(lambda g: noted.append(g.sum().item()))
        compiled = torch.compile(module)
        used = {"module": module}

        def step(x: Any) -> Any:
            module.zero_grad()
            out = used["module"](x)
            out.sum().backward()
            return out.detach()

        case = Case(step, module, args=lambda turn: (torch.randn(2, 3),), look=lambda: list(noted))
        case.compiled = compiled
        case.use = lambda: used.update(module=compiled)  # type: ignore[attr-defined]
        return case

    def results(compiled: bool) -> Any:
        torch.manual_seed(0)
        case = build()
        if compiled:
            case.use()  # type: ignore[attr-defined]
        torch.manual_seed(1)
        return [(case.step(*case.args(turn)).tolist(), case.look()) for turn in range(6)]

    for eager, program in zip(results(False), results(True)):
        torch.testing.assert_close(program[0], eager[0])
        torch.testing.assert_close(program[1], eager[1])


def test_numbers_in_the_graph_of_a_compiled_module() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            scale = x.abs().mean().item()
            return self.layer(x) * scale + scale

    torch.manual_seed(0)
    module = Scaled()
    compiled = torch.compile(module)
    for size in (1.0, 3.0):
        grads = []
        for function in (module, compiled):
            module.zero_grad()
            function(torch.full((2, 3), size)).pow(2).sum().backward()
            grads.append(module.layer.weight.grad.clone())
        torch.testing.assert_close(grads[1], grads[0])


def test_code_that_says_torch_decides(tmp_path: Any) -> None:
    names: dict[str, Any] = {}
    with torch.pretend_torch():
        source = (
            "import math, torch\n"
            "model = torch.nn.Linear(2, 1)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "def step(x):\n"
            "    optimizer.zero_grad()\n"
            "    loss = model(x).pow(2).mean()\n"
            "    if not math.isfinite(loss.item()):\n"
            "        return False\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    return True\n"
        )
        (tmp_path / "train.py").write_text(source)
        exec(compile(source, str(tmp_path / "train.py"), "exec"), names)
        step = torch.compile(names["step"])
        before = names["model"].weight.detach().clone()
        assert step(torch.ones(1, 2)) is True
        after = names["model"].weight.detach().clone()
        assert step(torch.full((1, 2), NAN)) is False
        assert not torch.equal(before, after) and torch.equal(after, names["model"].weight)


def test_eager_and_compiled_leave_the_same_random_state() -> None:
    eager, compiled = (run(case["random_draws_in_a_branch"], each, 4) for each in (False, True))
    assert (eager["random"] == compiled["random"]).all()
