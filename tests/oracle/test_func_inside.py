"""What a function may do inside a transform: gradients are the transform's affair there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from undertow.func import _batched

TRANSFORMS: dict[str, Any] = {
    "grad": lambda torch, f, x: torch.func.grad(lambda v: f(v).sum())(x),
    "vjp": lambda torch, f, x: torch.func.vjp(f, x)[0],
    "jvp": lambda torch, f, x: torch.func.jvp(f, (x,), (x,)),
    "vmap": lambda torch, f, x: torch.func.vmap(f)(x.expand(2, 3)),
    "functionalize": lambda torch, f, x: torch.func.functionalize(f)(x),
    "grad_of_vmap": lambda torch, f, x: torch.func.grad(lambda v: torch.func.vmap(f)(v).sum())(x.expand(2, 3)),
    "vmap_of_grad": lambda torch, f, x: torch.func.vmap(torch.func.grad(lambda v: f(v).sum()))(x.expand(2, 3)),
}

INSIDE = """
v.requires_grad_(); (v * 2).requires_grad_(); v.requires_grad_(False); (v * 2).retain_grad(); v.retain_grad()
(v * 2).sum().backward(); torch.ones(3).requires_grad_(); leaf.requires_grad_(); leaf.retain_grad()
(leaf * 2).sum().backward(); torch.autograd.functional.vjp(torch.sin, v, torch.ones(3)); torch.nn.Parameter(torch.ones(3))
torch.autograd.functional.jacobian(torch.sin, v); torch.ones(3, requires_grad=True); torch.tensor([1.0], requires_grad=True)
v.is_leaf and 3; v.requires_grad and 3; v.grad_fn and 3; (v * 2).is_leaf and 3; (v * 2).requires_grad and 3
(v * 2).grad_fn and 3
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("text", [text.strip() for text in INSIDE if text.strip()])
def test_calls_inside(transform: str, text: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        leaf = torch.ones(3, requires_grad=True)

        def function(v: Any) -> Any:
            found = eval(text, {"torch": torch, "v": v, "leaf": leaf})
            log(isinstance(found, int) and found)
            return v * (2 + (isinstance(found, int) and found))

        return TRANSFORMS[transform](torch, function, torch.arange(3.0))

    agree(program)


@pytest.mark.parametrize("transform", ["grad", "vmap", "jvp"])
def test_data_and_flags_inside(transform: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        def function(v: Any) -> Any:
            v.requires_grad = True
            try:
                v.data = v * 2
            except RuntimeError as error:
                log(str(error)[:30])
            return v * 2

        return TRANSFORMS[transform](torch, function, torch.arange(3.0))

    agree(program)


def test_functionalize() -> None:
    def program(torch: Any, log: Any) -> Any:
        def write(x: Any, by: int = 1) -> Any:
            return x.view(-1).add_(by)

        x = torch.zeros(2, 2)
        log(torch.func.functionalize(write)(x, by=2), x, torch.func.functionalize(write).__name__)
        log(torch.func.vmap(torch.func.functionalize(write, remove="mutations_and_views"))(x))
        torch.func.functionalize(write, remove="everything")

    agree(program)


CLASSES = (
    """
one_hot(i); one_hot(i, 3); one_hot(i, num_classes=4); x.masked_select(x > 2); x.masked_select(torch.tensor([True, False]))
torch.ones(2).masked_select(x > 2); x.masked_select(mask=torch.tensor([False, False]))
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in CLASSES])
def test_numbers_of_results_that_depend_on_values(text: str) -> None:
    def program(torch: Any) -> Any:
        def function(x: Any, i: Any) -> Any:
            return eval(text, {"torch": torch, "one_hot": torch.nn.functional.one_hot, "x": x, "i": i})

        return torch.func.vmap(function)(torch.arange(4.0).reshape(2, 2), torch.tensor([[0, 1], [2, 1]]))

    agree(program)


LOSSES = ["cross_entropy(x, i)", "nll_loss(x, i, reduction='sum')", "mse_loss(x, y)", "smooth_l1_loss(x, y)"]


@pytest.mark.parametrize("text", LOSSES)
def test_losses_of_all_examples_at_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss hands on the options that it was not given, too: they are no reason to take one example after the other."""
    monkeypatch.delattr(_batched, "one_by_one")

    def program(torch: Any) -> Any:
        def function(x: Any, y: Any, i: Any) -> Any:
            return eval("F." + text, {"F": torch.nn.functional, "x": x, "y": y, "i": i})

        x, i = torch.arange(12.0).reshape(2, 3, 2), torch.tensor([[0, 1, 1], [1, 0, 1]])
        return torch.func.vmap(torch.func.grad(function))(x, x.flip(0), i)

    agree(program)
