"""`why` on compiled steps."""

from __future__ import annotations

import pytest

import undertow as torch
from undertow import why
from undertow.compiler import CompileError


def test_why_says_where_hooks_run_in_a_compiled_step() -> None:
    layer = torch.nn.Linear(2, 1)
    log: list[float] = []
    clip = layer.weight.register_hook(lambda grad: grad.clamp(-1, 1))
    count = layer.bias.register_hook(lambda grad: log.append(grad.item()))

    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = layer(x).sum()
        loss.backward()
        return loss

    step(torch.ones(3, 2))
    assert "in the program" in str(why.hook(clip))
    said = " ".join(str(why.hook(count)).split())  # lines are broken where a terminal ends
    assert "in the program" in said and "run on the host" in said
    listed = str(why.hooks(layer))
    assert "runs in the program" in listed and "run on the host" in listed
    said = str(why.compiled(step))
    assert "reads 2 tensors" in said and "after the program" in said
    assert len(log) == 1
    (facts,) = why.compiled(step).data()["steps"]
    assert facts["name"].endswith("step") and len(facts["programs"]) == 1
    assert "after the program" in why.compiled(step)._repr_html_()


def test_a_step_that_was_refused_says_why() -> None:
    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        return x.unique()

    assert "not called yet" in str(why.compiled(step))
    with pytest.raises(CompileError):
        step(torch.ones(3))
    assert "none compiled" in str(why.compiled(step)) and "refused: " in str(why.compiled(step))
    assert "depends on the values" in why.compiled(step).notes()[0]


def test_what_made_a_step_compile_again_is_what_the_program_can_see() -> None:
    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # notes in the optimizer that it has stepped

    @torch.compile
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    step(torch.ones(3, 2))
    step(torch.ones(3, 2))
    (note,) = why.compiled(step).notes()
    assert "optimizer.state" in note and "_opt_called" not in note
