"""Steps as users write them, which were once silently different: hooks that raise, and hooks that the program waits for."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim


class Stop(Exception):
    """What hooks raise, and the step handles."""


STOPS = False  # read by a hook only


@pytest.mark.parametrize("where", ["gradient", "leaf", "forward", "backward"])
def test_what_a_hook_reads_before_it_raises(where: str) -> None:
    """The step handles the error, so there is a program, which depends on what made the hook raise."""

    def build() -> Case:
        global STOPS
        STOPS = False
        model, counts = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), {"stopped": 0}
        optimizer = optim.SGD(model.parameters(), 0.1)

        def raises(*given: Any) -> None:
            if STOPS:
                raise Stop

        if where == "gradient":
            model[0].weight.register_hook(raises)
        elif where == "leaf":
            model[0].weight.register_post_accumulate_grad_hook(raises)
        elif where == "forward":
            model[0].register_forward_hook(raises)
        else:
            model[1].register_full_backward_hook(raises)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            try:
                loss = model(x).pow(2).mean()
                loss.backward()
            except Stop:
                counts["stopped"] += 1
                optimizer.zero_grad()
                return None
            optimizer.step()
            return loss.detach()

        def between(turn: int) -> None:
            global STOPS
            STOPS = turn in (1, 2, 4)

        args = lambda turn: (torch.full((2, 3), 0.1 + turn),)
        return Case(step, model, args=args, between=between, look=lambda: dict(counts))

    agree(build, steps=6)


@pytest.mark.parametrize("kept", ["entry", "attribute", "cell"])
def test_hook_that_the_program_waits_for_reads_what_the_step_has_set(kept: str) -> None:
    """Nothing but the hook reads the pointer, and the hook has no effects: it decides by a value, and writes."""

    def build() -> Case:
        model, bank = nn.Linear(3, 2), torch.zeros(3, 2)
        entries, holder, pointer = {"at": 0}, Case(lambda: None), 0
        holder.at = 0  # type: ignore[attr-defined]

        def here() -> int:
            if kept == "entry":
                return entries["at"]
            return holder.at if kept == "attribute" else pointer  # type: ignore[attr-defined, no-any-return]

        def decides(g: Any) -> Any:
            bank[here()] = g.detach().mean()
            return torch.ones_like(g) * 0.01 if g.norm() > 0 else None

        model.weight.register_hook(decides)

        def step(x: Any) -> None:
            nonlocal pointer
            if kept == "entry":
                entries["at"] = (entries["at"] + 1) % 3
            elif kept == "attribute":
                holder.at = (holder.at + 1) % 3  # type: ignore[attr-defined]
            else:
                pointer = (pointer + 1) % 3
            model(x).pow(2).mean().backward()

        args = lambda turn: (torch.full((2, 3), 0.1 + turn),)
        return Case(step, model, bank, args=args, look=lambda: [bank.clone(), here()])

    agree(build, steps=4)
