"""`why.watch`: everything at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.why.engines import both, line_here
from undertow import why


@both
def test_one_block_watches_all(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with why.watch(net) as seen:
        net[0].weight.register_hook(lambda grad: grad * 0)
        registered = line_here() - 1
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert not seen.trace.problems
    assert seen.trace.engine == torch.__name__ and len(seen.trace.backwards) == 2
    (record,) = [hook for hook in seen.trace.hooks if hook.kind == "tensor"]
    assert len(record.firings) == 2
    assert record.place is not None and record.place.line == registered
    assert [(entry.owner, entry.after) for entry in seen.ledger.entries] == [("0.weight", 0.0)] * 2
    assert [sample.state for sample in seen.flows[0].samples["0.weight"]] == ["zero", "zero"]
    assert [sample.edited for sample in seen.flows[0].samples["0.weight"]] == [True, True]
    (entry,) = seen.hooks()
    assert entry.fired == 2 and entry.name == "<lambda>"
    assert entry.registered is not None and entry.registered.line == registered
    json.dumps(seen.data())
    assert "0.weight" in str(seen) and "<table>" in seen._repr_html_()
    assert all(type(hook).__name__ in ("function", "WatchedHook") for hook in net[0].weight._backward_hooks.values())


@both
def test_an_exception_leaves_everything_as_it_was(torch: Any) -> None:
    before = (torch.nn.Module.__call__, torch.Tensor.backward, torch.Tensor.register_hook, torch.autograd.grad)
    with pytest.raises(KeyError), why.watch(engine=torch):
        raise KeyError
    after = (torch.nn.Module.__call__, torch.Tensor.backward, torch.Tensor.register_hook, torch.autograd.grad)
    assert before == after


@both
def test_findings_have_lines(torch: Any) -> None:
    w, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    layer = torch.nn.Linear(2, 2)
    with why.watch(engine=torch) as seen:
        handle = layer.register_forward_hook(lambda *_: None)
        silent = layer.register_full_backward_hook(lambda *_: None)
        silent.remove()
        removed = line_here() - 1
        cut = w.detach()
        line = line_here() - 1
        loss = (layer(cut) * other).sum()
        loss.backward()
        print(w.grad)
        assert cut.grad is None  # which says that none is wanted
    answer = seen.grad(w, loss)
    assert answer.code == "detached" and answer.finding is not None and answer.finding.line == line
    assert answer.subject == "w"
    assert seen.grad(other, loss).code == "healthy"
    answer = seen.grad(cut, loss)
    assert answer.code == "detached" and answer.finding is not None and answer.finding.line == line
    assert seen.hook(handle).message == "it fired 1 time"
    answer = seen.hook(silent)
    assert answer.code == "hook-removed" and answer.finding is not None and answer.finding.line == removed
    assert {finding.code for finding in seen.findings()} == {"detached", "hook-removed"}
    assert "findings" in str(seen)


@both
def test_a_healthy_block_has_no_findings(torch: Any) -> None:
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with why.watch(net) as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).sum().backward()
            optimizer.step()
    assert not len(seen.findings()), str(seen.findings())


def test_the_name_is_the_function() -> None:
    import undertow.why.watch.watcher  # noqa: F401

    assert why.watch.__name__ == "watch" and callable(why.watch)
