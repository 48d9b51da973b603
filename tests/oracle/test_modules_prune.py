"""nn.utils.prune: masks, repeated pruning, removal, and what is refused."""

from __future__ import annotations

import copy
import importlib
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()
importlib.import_module("torch.nn.utils.prune")  # which torch.nn does not import by itself


def show(log: Any, module: Any) -> None:
    log(module.state_dict(), module.weight, len(module._forward_pre_hooks), [n for n, _ in module.named_parameters()])


@cases
def every_method(torch, log):
    nn, prune = torch.nn, torch.nn.utils.prune
    for act in (
        lambda m: prune.identity(m, "weight"),
        lambda m: prune.random_unstructured(m, "weight", 0.3),
        lambda m: prune.random_unstructured(m, "weight", 5),
        lambda m: prune.l1_unstructured(m, "weight", amount=0.5),
        lambda m: prune.l1_unstructured(m, "weight", 3, importance_scores=-m.weight.abs()),
        lambda m: prune.random_structured(m, "weight", 1, 0),
        lambda m: prune.random_structured(m, "weight", 0.5, -1),
        lambda m: prune.ln_structured(m, "weight", 2, n=2, dim=0),
        lambda m: prune.ln_structured(m, "weight", 0.3, n=float("-inf"), dim=1),
        lambda m: prune.l1_unstructured(m, "weight", 0),
        lambda m: prune.ln_structured(m, "weight", 0, n=1, dim=1),
        lambda m: prune.custom_from_mask(m, "weight", (m.weight > 0).float()),
    ):
        module = nn.Linear(4, 3)
        log(act(module) is module, prune.is_pruned(module))
        show(log, module)
        module(torch.ones(2, 4)).sum().backward()
        log(module.weight_orig.grad)
        with torch.no_grad():
            module.weight_orig.mul_(2)
        module(torch.ones(2, 4))
        show(log, module)
        log(prune.remove(module, "weight") is module, prune.is_pruned(module))
        show(log, module)


@cases
def again_and_again(torch, log):
    nn, prune = torch.nn, torch.nn.utils.prune
    module = nn.Conv2d(2, 4, 2)
    prune.l1_unstructured(module, "weight", 0.2)
    prune.random_unstructured(module, "weight", 0.2)
    prune.ln_structured(module, "weight", 0.25, n=2, dim=0)
    prune.random_structured(module, "weight", 1, 1)
    prune.l1_unstructured(module, "bias", 1)
    show(log, module)
    container = next(iter(module._forward_pre_hooks.values()))
    log(type(container).__name__, len(container), [type(method).__name__ for method in container])
    log(module(torch.ones(1, 2, 3, 3)))
    twin = nn.Conv2d(2, 4, 2)
    prune.identity(twin, "weight")
    prune.identity(twin, "bias")
    log(repr(twin.load_state_dict(module.state_dict())), twin(torch.ones(1, 2, 3, 3)))
    prune.remove(module, "weight")
    show(log, module)


@cases
def together(torch, log):
    nn, prune = torch.nn, torch.nn.utils.prune
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    listed = [(model[0], "weight"), (model[1], "weight"), (model[1], "bias")]
    prune.global_unstructured(listed, pruning_method=prune.L1Unstructured, amount=0.4)
    log(model.state_dict())
    prune.global_unstructured(listed, pruning_method=prune.RandomUnstructured, amount=3)
    log(model.state_dict(), prune.is_pruned(model))


@cases
def tensors_of_no_module(torch, log):
    prune = torch.nn.utils.prune
    t = torch.tensor([1.0, -3.0, 2.0, 0.5])
    log(prune.L1Unstructured(amount=2).prune(t), prune.L1Unstructured(amount=1).prune(t, importance_scores=-t))
    log(
        prune.LnStructured(amount=1, n=2, dim=0).prune(
            t.view(2, 2), default_mask=torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        )
    )


@cases
def refused(torch, log):
    nn, prune = torch.nn, torch.nn.utils.prune

    def linear() -> Any:
        return nn.Linear(3, 2)

    for label, act in {
        "negative": lambda: prune.random_unstructured(linear(), "weight", -1),
        "too large": lambda: prune.random_unstructured(linear(), "weight", 1.5),
        "text": lambda: prune.random_unstructured(linear(), "weight", "a"),
        "too many": lambda: prune.random_unstructured(linear(), "weight", 100),
        "vector": lambda: prune.ln_structured(linear(), "bias", 0.5, n=2, dim=0),
        "dim": lambda: prune.ln_structured(linear(), "weight", 0.5, n=2, dim=5),
        "channels": lambda: prune.random_structured(linear(), "weight", 100, 0),
        "remove": lambda: prune.remove(linear(), "weight"),
        "mask": lambda: prune.custom_from_mask(linear(), "weight", torch.ones(3)),
        "nothing": lambda: prune.global_unstructured([], prune.L1Unstructured, amount=1),
        "number": lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
        "structured": lambda: prune.global_unstructured([(linear(), "weight")], prune.LnStructured, amount=1, n=2),
        "scores": lambda: prune.l1_unstructured(linear(), "weight", 1, importance_scores=torch.ones(3)),
        "name": lambda: prune.l1_unstructured(linear(), "foo", 1),
        "abstract": lambda: prune.BasePruningMethod(),
    }.items():
        attempt(log, label, act)
    module = linear()
    attempt(log, "put back", lambda: prune.custom_from_mask(module, "weight", torch.ones(3)))
    log(list(module._parameters), len(module._forward_pre_hooks))


@cases
def copies(torch, log):
    prune = torch.nn.utils.prune
    module = prune.remove(prune.l1_unstructured(torch.nn.Linear(2, 2), "weight", 1), "weight")
    log(copy.deepcopy(module).weight, type(module.weight).__name__)


@cases.test
def test_pruning(program: Any) -> None:
    agree(program, warns=True, raises=False)
