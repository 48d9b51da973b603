"""`why` on compiled steps."""

from __future__ import annotations

import undertow as torch
from undertow import why


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
    assert "after the program" in str(why.hook(count)) and "appends to `log`" in str(why.hook(count))
    listed = str(why.hooks(layer))
    assert "runs in the program" in listed and "runs after the program" in listed
    said = str(why.compiled(step))
    assert "reads 2 tensors" in said and "after the program" in said
    assert len(log) == 1
