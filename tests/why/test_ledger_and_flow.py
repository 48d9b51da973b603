"""`why.ledger` enters what hooks did to gradients, `why.flow` what gradients looked like over steps."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest

from tests.why.engines import both, line_here
from undertow import why


@both
def test_a_ledger_tells_what_each_hook_did_in_order(torch: Any) -> None:
    x = torch.ones(4, requires_grad=True)
    with why.ledger() as ledger:
        x.register_hook(lambda grad: grad / 2)
        registered = line_here() - 1
        x.register_hook(lambda grad: None)

        def write(grad: Any) -> None:
            grad.mul_(3)

        doubled = x * 1
        doubled.register_hook(write)
        x.register_post_accumulate_grad_hook(lambda tensor: tensor.grad.zero_())
        handle = doubled.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        with pytest.raises(RuntimeError, match="should return None"):
            (doubled * 1).sum().backward()  # a post-accumulate hook may return nothing
    norms = [(entry.before, entry.after, entry.changed) for entry in ledger.entries]
    assert norms == [(2, 6, True), (6, 12, True), (12, 6, True), (6, 6, False), (6, 0, True)]
    assert [entry.kind for entry in ledger.entries] == [
        "tensor", "node-pre" if torch.__name__ == "undertow" else "node", "tensor", "tensor", "post-accumulate",
    ]  # fmt: skip
    assert ledger.entries[2].registered is not None and ledger.entries[2].registered.line == registered
    assert ledger.entries[2].hook == "<lambda>" and ledger.entries[0].hook == "write"
    handle.remove()
    assert all(type(hook).__name__ == "function" for hook in x._backward_hooks.values())  # as they were
    assert len(json.dumps(ledger.data())) > 100


@both
def test_a_ledger_of_a_model_knows_the_hooks_from_before(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    order = []

    def clear(grad: Any) -> Any:
        order.append("weight")
        return grad * 0

    net[0].weight.register_hook(clear)
    net[1].register_full_backward_hook(lambda module, inputs, outputs: order.append("module"))
    net[1].register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))
    with why.ledger(net) as ledger:
        net(torch.ones(1, 2)).sum().backward()
    assert order == ["module", "weight"]
    assert [(entry.kind, entry.owner, entry.changed) for entry in ledger.entries] == [
        ("full-backward-pre", "1", True),
        ("full-backward", "1", False),
        ("tensor", "0.weight", True),
    ]
    assert ledger.entries[0].before == 1 and ledger.entries[0].after == 2
    assert ledger.entries[2].after == 0
    net(torch.ones(1, 2)).sum().backward()
    assert len(ledger.entries) == 3


@both
def test_a_ledger_counts_for_the_list_of_hooks(torch: Any) -> None:
    layer = torch.nn.Linear(1, 1)
    with why.ledger():
        layer.weight.register_hook(lambda grad: None)
        for _ in range(3):
            layer(torch.ones(1, 1)).sum().backward()
    (entry,) = why.hooks(layer)
    assert entry.fired == 3 and entry.registered is not None


class Halve:
    """A hook that is an object, so that deepcopy makes another one of it."""

    def __call__(self, module: Any, grad_output: Any) -> Any:
        return (grad_output[0] / 2,)


@both
def test_models_are_copied_and_pickled_inside_a_ledger(torch: Any) -> None:
    layer = torch.nn.Linear(1, 1)
    layer.register_full_backward_pre_hook(Halve())
    with why.ledger(layer) as ledger:
        twin = copy.deepcopy(layer)
        twin(torch.ones(1, 1, requires_grad=True)).sum().backward()
        loaded = pickle.loads(pickle.dumps(layer))
    assert [(entry.hook, entry.after) for entry in ledger.entries] == [("Halve", 0.5)]
    assert [type(hook) for hook in loaded._backward_pre_hooks.values()] == [Halve]
    twin(torch.ones(1, 1, requires_grad=True)).sum().backward()
    assert twin.weight.grad.item() == 1 and len(ledger.entries) == 1


@both
def test_a_hook_that_raises_is_entered(torch: Any) -> None:
    x = torch.ones(1, requires_grad=True)
    with why.ledger() as ledger:
        x.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            x.sum().backward()
    assert ledger.entries[0].error == "ZeroDivisionError: division by zero"


@both
def test_flow_over_steps(torch: Any) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = torch.nn.Linear(2, 2)
            self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
            self.unused = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.frozen(self.used(x))

    net = Net()
    net.used.bias.register_hook(lambda grad: grad * 0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with why.flow(net) as flow:
        for scale in (1.0, 2.0, math.nan):
            optimizer.zero_grad()
            (net(torch.ones(1, 2)) * scale).sum().backward()
            optimizer.step()
    states = {name: [sample.state for sample in samples] for name, samples in flow.samples.items()}
    assert states["used.weight"] == ["ok", "ok", "nan"]
    assert states["used.bias"][:2] == ["zero", "zero"]
    assert states["frozen.weight"] == ["frozen"] * 3
    assert states["unused.bias"] == ["none"] * 3
    first, second, _ = (sample.norm for sample in flow.samples["used.weight"])
    assert first is not None and second is not None and second == pytest.approx(2 * first)
    assert [sample.edited for sample in flow.samples["used.bias"]] == [True] * 3
    assert [sample.edited for sample in flow.samples["used.weight"]] == [False] * 3
    assert flow.modules()["used"][0] == pytest.approx(first)
    assert flow.title() == "gradients of Net over 3 steps"
    assert "used.weight" in str(flow) and "used.weight" in flow._repr_html_()
    json.dumps(flow.data(), allow_nan=False)
    optimizer.step()
    assert flow.steps == 3


@both
def test_a_ledger_enters_hooks_on_every_module(torch: Any) -> None:
    register = torch.nn.modules.module.register_module_full_backward_hook
    with why.ledger() as ledger:
        handle = register(lambda module, grad_input, grad_output: None)
        registered = line_here() - 1
        torch.nn.Linear(2, 1)(torch.ones(1, 2, requires_grad=True)).sum().backward()
    handle.remove()
    assert [(entry.kind, entry.owner) for entry in ledger.entries] == [("global full-backward", "every module")]
    assert ledger.entries[0].registered is not None and ledger.entries[0].registered.line == registered


@both
def test_flow_by_hand(torch: Any) -> None:
    layer = torch.nn.Linear(2, 1)
    flow = why.flow(layer)
    assert str(flow) == "gradients of Linear over 0 steps"
    layer(torch.zeros(1, 2)).sum().backward()
    flow.step()
    assert [sample.zeros for sample in flow.samples["weight"]] == [1.0]
    assert [sample.norm for sample in flow.samples["bias"]] == [1.0]


def test_a_compiled_step_runs_as_it_was_written_under_a_ledger() -> None:
    import undertow as torch

    net, seen = torch.nn.Linear(2, 1), []
    net.weight.register_hook(lambda grad: seen.append(1))

    @torch.compile
    def step(x: Any) -> None:
        net.zero_grad()
        net(x).sum().backward()

    with why.ledger(net) as ledger:
        for _ in range(3):
            step(torch.ones(1, 2))
    assert len(seen) == len(ledger.entries) == 3
    step(torch.ones(1, 2))
    assert len(seen) == 4 and len(ledger.entries) == 3
