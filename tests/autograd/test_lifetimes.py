"""A graph dies with its last reference: no reference cycle waits for the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import undertow as torch
from undertow._src.engine import accumulate, backward_hooks


def leaf(*values: float) -> Any:
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


class Witness:
    """A hook that does nothing: it lives as long as the node that it is registered on."""

    def __call__(self, *_: Any) -> None:
        pass


def watch(tensor: Any) -> list[weakref.ref[Any]]:
    """Weak references to a tensor and, by a hook, to its node and to each node that the node leads to."""
    references: list[weakref.ref[Any]] = [weakref.ref(tensor)]
    for node in (tensor.grad_fn, *(node for node, _ in tensor.grad_fn.next_functions)):
        if node is not None and not hasattr(node, "variable"):
            witness = Witness()
            node.register_prehook(witness)
            references.append(weakref.ref(witness))
    return references


@pytest.fixture
def no_gc() -> Iterator[None]:
    """Whatever dies in the test dies by reference counts alone."""
    gc.disable()
    yield
    gc.enable()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        b = a * a
        ctx.save_for_backward(a, b)
        ctx.note = "anything"
        return b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def written(action: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that applies an in-place `action` to a fresh non-leaf and returns that."""

    def function(x: Any) -> Any:
        y = x * 1
        action(y)
        return y

    return function


def hooked(x: Any) -> Any:
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.grad_fn.register_hook(lambda inputs, outputs: None)
    y.grad_fn.register_prehook(lambda outputs: None)
    return y


def multi_hooked(x: Any) -> Any:
    y, z = x.exp(), x.sin()
    torch.autograd.graph.register_multi_grad_hook([y, z], lambda grads: None)
    torch.autograd.graph.register_multi_grad_hook([y, z], lambda grad: None, mode="any")
    return y * z


def through_numbers(x: Any) -> Any:
    kept: list[Any] = []

    def pack(tensor: Any) -> int:
        kept.append(tensor.detach())
        return len(kept) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
        return x.exp() * x


def twice_differentiated(x: Any) -> Any:
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return g


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: ((x * x + x.exp()) / (x + 3)).tanh(),
    "saved output": lambda x: x.exp().sigmoid().sqrt(),
    "reductions": lambda x: x.sum() + x.mean() + x.prod() + x.max() + x.var(),
    "matmul": lambda x: (x.view(1, 2) @ x.view(2, 1)).sum() + x.dot(x),
    "views": lambda x: (x * 1).view(2, 1).t().unsqueeze(0)[0, :, :1].expand(3, 1),
    "parts": lambda x: sum((x * 1).unbind()) + (x * 1).chunk(2)[1].sum(),
    "sort": lambda x: x.sort().values * x.max(0).values,
    "index": lambda x: x[torch.tensor([0, 1, 1])].cumsum(0),
    "cat": lambda x: torch.stack([torch.cat([x, x]), torch.cat([x, x.exp()])]),
    "softmax": lambda x: x.softmax(0).log_softmax(0),
    "in place": written(lambda y: y.mul_(2).add_(1)),
    "in place with a saved output": written(lambda y: y.exp_()),
    "in place on a view": written(lambda y: y[0].mul_(3)),
    "in place through views": written(lambda y: y.view(2, 1)[1:].sin_()),
    "setitem": written(lambda y: y.__setitem__(0, y[1] * 2)),
    "custom function": Square.apply,
    "in-place custom function": lambda x: Double.apply(x * 1),
    "hooks": hooked,
    "multi-grad hooks": multi_hooked,
    "saved-tensor hooks": through_numbers,
    "double backward": twice_differentiated,
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), x, use_reentrant=False),
    "reentrant checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda a: a.exp(), x, use_reentrant=True),
}


def backward(y: Any) -> None:
    y.backward(torch.ones_like(y))


def failed_backward(y: Any) -> None:
    def fail(_: Any) -> None:
        raise ValueError("on purpose")

    y.register_hook(fail)
    try:
        y.backward(torch.ones_like(y))
    except ValueError:
        pass


def refused_backward(y: Any) -> None:
    for _ in range(2):
        try:
            y.backward(torch.ones_like(y))
        except RuntimeError:
            pass


def differentiated(y: Any) -> None:
    total = (y * y).sum()
    torch.autograd.grad(total, y, create_graph=True)


FATES: dict[str, Callable[[Any], None]] = {
    "dropped": lambda y: None,
    "backward": backward,
    "a hook that raises": failed_backward,
    "two backwards": refused_backward,
    "grad with create_graph": differentiated,
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_dies_with_its_last_reference(name: str, fate: str, no_gc: None) -> None:
    x = leaf(0.5, 1.5)
    y = GRAPHS[name](x)
    watched = watch(y)
    FATES[fate](y)
    del y
    assert [reference() for reference in watched] == [None] * len(watched)
    seen = weakref.ref(x)
    del x
    assert seen() is None


def test_saved_tensors_die_at_backward(no_gc: None) -> None:
    x = leaf()
    middle = x * 2
    root = (middle.sin() * middle.exp()).sum()
    seen = weakref.ref(middle)
    del middle
    assert seen() is not None
    root.backward()
    assert seen() is None


def test_gradients_die_with_their_leaf(no_gc: None) -> None:
    x = leaf()
    (x * x).sum().backward()
    seen = weakref.ref(x.grad)
    del x
    assert seen() is None


def test_a_removed_hook_dies(no_gc: None) -> None:
    x = leaf()
    y = x * 2
    for register in (
        x.register_hook,
        y.register_hook,
        x.register_post_accumulate_grad_hook,
        y.grad_fn.register_hook,
        y.grad_fn.register_prehook,
    ):
        hook = Witness()
        seen, handle = weakref.ref(hook), register(hook)
        del hook
        assert seen() is not None
        handle.remove()
        assert seen() is None


# --- whose array a gradient is -------------------------------------------------------------------------------------------


def test_a_gradient_that_nobody_holds_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate, "copy_like", lambda g, leaf_array: pytest.fail("copied"))
    x, w = leaf(), leaf(3.0, 4.0)
    ((x * w).exp() * x).sum().backward()
    assert x.grad is not None and w.grad is not None


def test_nor_is_that_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight's gradient is transposed twice, a bias's is a sum."""
    monkeypatch.setattr(accumulate, "copy_like", lambda g, leaf_array: pytest.fail("copied"))
    layer = torch.nn.Linear(3, 4)
    layer(torch.ones(5, 3)).exp().sum().backward()
    assert layer.weight.grad.shape == (4, 3) and layer.weight.grad._array.base is None


@pytest.mark.parametrize("own", [0, 1, backward_hooks.own_references])
def test_gradients_stay_apart_whatever_the_interpreter_counts(monkeypatch: pytest.MonkeyPatch, own: int) -> None:
    monkeypatch.setattr(backward_hooks, "own_references", own)
    a, b, direction = leaf(), leaf(), torch.ones(2)
    (a + b).backward(direction)
    a.grad.mul_(5)
    assert (direction.tolist(), a.grad.tolist(), b.grad.tolist()) == ([1.0, 1.0], [5.0, 5.0], [1.0, 1.0])
