"""A hook takes hooks out in the same call in which one raises: the error comes where eager mode raises it."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn


@pytest.mark.parametrize("answers", [False, True], ids=["without an answer", "with an answer"])
@pytest.mark.parametrize("takes_out", ["itself", "another", "itself and raises"])
def test_an_error_after_a_hook_was_taken_out(takes_out: str, answers: bool) -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), list[Any]()
        times, raising = [0], [0]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        handles: list[Any] = []

        def once(g: Any) -> Any:
            times[0] += 1
            log.append("once")
            if times[0] == 3:
                handles[0].remove()
            if times[0] == 3 and takes_out == "itself and raises":
                raise ValueError("early")
            return g * 2 if answers else None

        def other(g: Any) -> None:
            log.append("other")

        def raises(p: Any) -> None:
            log.append("raises")
            raising[0] += 1
            if raising[0] == 6:
                raise ValueError("late")

        if takes_out == "another":
            handles.append(model[1].bias.register_hook(other))
            model[0].weight.register_hook(once)
        else:
            handles.append(model[1].bias.register_hook(once))
        model[1].weight.register_post_accumulate_grad_hook(raises)
        model[0].bias.register_post_accumulate_grad_hook(raises)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            try:
                loss.backward()
            except ValueError:
                return None
            optimizer.step()
            return loss

        def look() -> Any:
            return [*log], [*times, *raising], [len(p._backward_hooks or ()) for p in model.parameters()]

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), look=look)

    agree(build, steps=5)
