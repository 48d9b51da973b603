"""A hook that runs on the host during `functional_call` finds what stands in for parameters, as in eager mode."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("what", ["grad", "value", "leaf", "parameters", "of the module"])
def test_a_hook_on_the_host_finds_what_stands_in(what: str) -> None:
    def build() -> Case:
        model, log, notes = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), list[Any](), dict[str, Any]()

        def finds_grad(module: Any, inputs: Any) -> None:
            log.append(1)
            notes["last"] = model[2].weight.grad

        def finds_value(module: Any, inputs: Any) -> None:
            log.append(model[2].weight.sum().item())

        def finds_leaf(module: Any, inputs: Any) -> None:
            log.append(model[2].weight.is_leaf)

        def finds_all(module: Any, inputs: Any) -> None:
            log.append([p.detach().sum().item() for p in model.parameters()])

        def finds_own(module: Any, inputs: Any) -> None:
            log.append(module[2].weight.sum().item())

        hooks = [finds_grad, finds_value, finds_leaf, finds_all, finds_own]
        names = ["grad", "value", "leaf", "parameters", "of the module"]

        def step(x: Any) -> Any:
            scaled = {name: p * 0.9 for name, p in model.named_parameters()}
            loss = torch.func.functional_call(model, scaled, (x,)).pow(2).mean()
            loss.backward()
            return loss

        def between(turn: int) -> None:
            if turn == 1:
                model.register_forward_pre_hook(hooks[names.index(what)])

        return Case(
            step, model, args=lambda turn: (torch.full((4, 2), 0.5 + turn),), between=between,
            look=lambda: ([*log], dict(notes)),
        )  # fmt: skip

    agree(build, steps=4)
