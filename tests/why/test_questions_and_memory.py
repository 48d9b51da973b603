"""`why.grad` and `why.hook` answer from objects alone; `why.memory` counts what a graph holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.why.engines import both, line_here
from undertow import why


def leaf(torch: Any, size: int = 2) -> Any:
    return torch.ones(size, requires_grad=True)


@both
def test_a_gradient_that_is_there(torch: Any) -> None:
    w = leaf(torch)
    loss = (w * 3).sum()
    loss.backward()
    answer = why.grad(w, loss, name="w")
    assert answer.code == "healthy" and answer.finding is None
    assert str(answer) == "w: the gradient is there, with norm 4.243"


@both
@pytest.mark.parametrize("case", range(13))
def test_the_cause_of_a_missing_or_zero_gradient(torch: Any, case: int) -> None:
    w, other = leaf(torch), leaf(torch)
    wanted, loss, code = w, (w * other).sum(), ""
    if case == 0:
        wanted, code = w * 2, "not-leaf"
        loss = wanted.sum()
        loss.backward()
    elif case == 1:
        w, code = torch.ones(2), "no-requires-grad"
        wanted, loss = w, (w * other).sum()
    elif case == 2:
        loss, code = (w.detach() * other).sum(), "detached"
        loss.backward(retain_graph=True)
    elif case == 3:
        loss, code = other.sum(), "unused"
        loss.backward()
    elif case == 4:
        code = "no-backward"
    elif case == 5:
        loss.backward(inputs=[other])
        code = "excluded-by-inputs"
    elif case == 6:
        loss.backward()
        w.grad = other.grad = None
        code = "cleared"
    elif case == 7:
        loss = (w - 5).relu().sum()
        loss.backward()
        code = "zero-by-math"
    elif case == 8:
        w.register_hook(lambda grad: grad * 0)
        loss.backward()
        code = "zeroed-by-hook"
    elif case == 9:
        loss = (w - 1).sqrt().sum()
        loss.backward()
        code = "nan-born"
    elif case == 10:
        loss, code = (w * other).sum().detach(), "detached"
    elif case == 11:
        loss, code = w.argmax(), "not-differentiable"
    elif case == 12:
        copy = torch.nn.Parameter(w.data)
        loss, code = (copy * 2).sum(), "detached"
        loss.backward()
    answer = why.grad(wanted, loss, name="w")
    assert answer.code == code
    finding = answer.finding
    assert finding is not None and finding.subject == "w" and finding.message and finding.cure and finding.evidence
    assert code in str(answer) and finding.message[:40] in str(answer)
    json.dumps(answer.data())


@both
def test_the_way_to_the_loss_is_evidence(torch: Any) -> None:
    w = leaf(torch)
    finding = why.grad(w, (w * 3).exp().sum()).finding
    assert finding is not None
    assert "AccumulateGrad → MulBackward0 → ExpBackward0 → SumBackward0" in finding.evidence[0].text


@both
def test_a_frozen_parameter(torch: Any) -> None:
    layer = torch.nn.Linear(2, 1).requires_grad_(False)
    answer = why.grad(layer.weight, layer(leaf(torch)).sum())
    assert answer.code == "no-requires-grad" and "frozen" in answer.message


@both
def test_a_deep_graph_is_no_problem(torch: Any) -> None:
    w, other = leaf(torch), leaf(torch)
    value = w
    for _ in range(5000):
        value = value + 1
    assert why.grad(other, value.sum()).code == "unused"
    assert why.grad(w, value.sum()).code == "no-backward"


@both
def test_a_hook_by_its_handle(torch: Any) -> None:
    w = leaf(torch)
    unwatched = w.register_hook(lambda grad: None)
    assert why.hook(unwatched).code == "healthy" and "not counted" in why.hook(unwatched).message
    with why.ledger():
        handle = w.register_hook(lambda grad: None)
        registered = line_here() - 1
        removed = w.register_hook(lambda grad: None)
        removed.remove()
        w.sum().backward()
        w.sum().backward()
    assert str(why.hook(handle)).startswith(f"hook at line {registered}: it fired 2 times")
    answer = why.hook(removed)
    # The removal.
    assert answer.code == "hook-removed" and answer.finding is not None and answer.finding.line == registered + 3
    gone = leaf(torch).register_hook(lambda grad: None)
    assert why.hook(gone).code == "healthy" and "freed" in why.hook(gone).message  # it may have fired before
    with why.ledger():
        gone = leaf(torch).register_hook(lambda grad: None)
        kept = leaf(torch)
        waiting = kept.register_hook(lambda grad: None)
    assert why.hook(waiting).message == "it is in place; it never fired while it was watched"


@both
def test_memory_counts_each_piece_once(torch: Any) -> None:
    w, data = leaf(torch, 64), torch.ones(64)
    hidden = (w * data).exp()
    report = why.memory((hidden * hidden).sum())
    assert report.by_op() == {"MulBackward0": 64 * 4 * 2}  # hidden, which exp saved too, and data
    assert report.bytes == 512
    layer = torch.nn.Linear(8, 8)
    report = why.memory(layer(torch.ones(2, 8, requires_grad=True)).sum())
    assert report.leaf_bytes == 2 * 8 * 4 + 8 * 8 * 4 and report.bytes == 0


@both
def test_memory_by_line_in_anomaly_mode(torch: Any) -> None:
    w = leaf(torch, 256)
    with torch.autograd.set_detect_anomaly(True):
        first = w.exp()
        line = line_here() - 1
        loss = (first + 1).tanh().sum()
    report = why.memory(loss)
    assert report.by_line() == {(__file__, line): 1024, (__file__, line + 2): 1024}
    assert "lines" in report.data()
    loss.backward()
    after = why.memory(loss)
    assert after.bytes == 0 and "freed" in after.notes()[0]


@both
def test_memory_of_a_custom_function(torch: Any) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x * 2)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    report = why.memory(Twice.apply(leaf(torch, 16)).sum())
    assert report.by_op() == {"TwiceBackward": 64}
