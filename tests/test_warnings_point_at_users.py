"""Every warning points at the line of the program that caused it, whichever wrappers lie between."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch

F = torch.nn.functional
x = torch.ones(2, requires_grad=True)


class Asked:
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return 1


WARNING: dict[str, Callable[[], Any]] = {
    "a graph in .grad": lambda: (x * x).sum().backward(create_graph=True),
    "the same, as a function": lambda: torch.autograd.backward((x * x).sum(), create_graph=True),
    ".grad of a result": lambda: (x * x).grad,
    "a property": lambda: torch.ones(2, 3, 4).T,
    "an index": lambda: torch.ones(2)[torch.ones(2).byte()],
    "a module's forward": lambda: torch.nn.Dropout2d()(torch.ones(2, 2)),
    "a module's function": lambda: torch.nn.Softmax()(torch.ones(2)),
    "a module's making": lambda: torch.nn.Linear(0, 2),
    "out=": lambda: torch.add(torch.ones(2), torch.ones(2), out=torch.ones(3)),
    "a function": lambda: F.mse_loss(torch.ones(2), torch.ones(1)),
    "a distribution": lambda: torch.distributions.Wishart(torch.tensor(1.5), torch.eye(2)),
    "an override": lambda: torch.add(torch.ones(2), Asked()),
    "a default of another module": lambda: F.softmax(torch.ones(2)),
}


@pytest.mark.parametrize("case", WARNING)
def test_the_users_line(case: str) -> None:
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            WARNING[case]()
    finally:
        torch.set_warn_always(False)
    x.grad = None
    assert [each.filename for each in caught] == [__file__]
    assert caught[0].lineno == WARNING[case].__code__.co_firstlineno
