"""Python numbers beside tensors of half precision: which of them PyTorch rounds to the tensor's dtype first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import undertow

VALUES = np.random.default_rng(0).standard_normal((20, 30)).astype("f")
POWERS = np.exp2(np.random.default_rng(1).integers(-2, 3, (20, 30))).astype("f")  # products with these are exact

FUNCTIONS: dict[str, Any] = {
    "x + n": lambda t, x, y: x + 0.3,
    "n - x": lambda t, x, y: 0.3 - x,
    "x % n": lambda t, x, y: x.abs() % 0.3,
    "x > n": lambda t, x, y: x > 0.3,
    "x == n": lambda t, x, y: t.full_like(x, 0.3) == 0.3,
    "maximum": lambda t, x, y: x.clamp(min=0.3),
    "x * n": lambda t, x, y: x * 0.3,
    "x / n": lambda t, x, y: x / 0.3,
    "n / x": lambda t, x, y: 0.3 / x,
    "add, alpha": lambda t, x, y: t.add(x, y, alpha=0.3),
    "add_, alpha": lambda t, x, y: x.clone().add_(y, alpha=0.3),
    "sub, alpha": lambda t, x, y: t.sub(x, y, alpha=0.3),
    "rsub, alpha": lambda t, x, y: t.rsub(y, x, alpha=0.3),
    "add a number, alpha": lambda t, x, y: t.add(x, 2, alpha=0.3),
    "foreach, alpha": lambda t, x, y: t._foreach_add([x], [y], alpha=0.3)[0],
    "in place": lambda t, x, y: x.clone().sub_(0.3).mul_(0.7).add_(y, alpha=-0.1),
}


def _values(module: Any, function: Any, dtype: str) -> list[Any]:
    x, y = (module.tensor(each).to(getattr(module, dtype)) for each in (VALUES, POWERS))
    return function(module, x, y).double().tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_number(name: str, dtype: str) -> None:
    assert _values(undertow, FUNCTIONS[name], dtype) == _values(torch, FUNCTIONS[name], dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_factors_gradient_is_not_rounded(dtype: str) -> None:
    def gradient(module: Any) -> Any:
        x, y = (module.tensor(each).to(getattr(module, dtype)).requires_grad_() for each in (VALUES, POWERS))
        module.add(x, y, alpha=0.3).backward(x.detach())
        return y.grad.double().tolist()

    assert gradient(undertow) == gradient(torch)


def test_steps_of_sgd() -> None:
    def trained(module: Any) -> Any:
        param = module.nn.Parameter(module.tensor(VALUES).bfloat16())
        optimizer = module.optim.SGD([param], lr=0.1)
        for _ in range(3):
            param.grad = module.tensor(POWERS).bfloat16()
            optimizer.step()
        return param.double().tolist()

    assert trained(undertow) == trained(torch)
