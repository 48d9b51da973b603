"""Compiled steps in half precision round where eager mode rounds: once for each operation, and numbers as it does."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch

F = torch.nn.functional


def _draw(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


OPERATIONS: dict[str, tuple[Any, list[Any]]] = {
    "linear": (F.linear, [_draw(8, 6), _draw(16, 6), _draw(16)]),
    "linear of a batch": (F.linear, [_draw(2, 8, 6), _draw(16, 6), _draw(16)]),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w, beta=0.5, alpha=1.7), [_draw(8, 16), _draw(8, 6), _draw(6, 16)]),
    "baddbmm": (torch.baddbmm, [_draw(3, 8, 16), _draw(3, 8, 6), _draw(3, 6, 16)]),
    "conv1d": (F.conv1d, [_draw(2, 4, 9), _draw(6, 4, 3), _draw(6)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [_draw(2, 4, 7, 7), _draw(6, 4, 3, 3), _draw(6)]),
    "numbers": (lambda x, n: torch.add(x + n, x, alpha=n) > n - x, [_draw(20, 30), 0.3]),
    "in place": (lambda x, n: x.clone().sub_(n).mul_(n).add_(x, alpha=-n), [_draw(20, 30), 0.3]),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str, dtype: Any) -> None:
    function, given = OPERATIONS[name]
    compiled = torch.compile(function)
    for scale in (1, 3):  # the second call of a number that is an input
        given = [each.to(dtype) * scale if isinstance(each, torch.Tensor) else each / scale for each in given]
        expected, found = function(*given), compiled(*given)
        # XLA adds products up in another order, which changes what a sum is rounded to once in some hundred times.
        assert (expected != found).double().mean() < 0.01


@pytest.mark.parametrize("kind", ["SGD", "RMSprop", "Adagrad", "Rprop"])
def test_optimizer(kind: str) -> None:
    def trained(wrap: Any) -> Any:
        param = torch.nn.Parameter(_draw(20, 30).bfloat16())
        optimizer = getattr(torch.optim, kind)([param], lr=0.1)

        def step(gradient: Any) -> None:
            param.grad = gradient
            optimizer.step()

        called = wrap(step)
        for seed in range(4):
            called(_draw(20, 30, seed=seed).bfloat16())
        assert called is step or torch.compile.explain(called).data[0]["programs"]
        return param.detach()

    assert torch.equal(trained(torch.compile), trained(lambda step: step))
