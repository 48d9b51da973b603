"""Deep graphs, interrupted hooks, and backward passes in many threads."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import undertow as torch
from undertow.utils.checkpoint import checkpoint

LONG = 250_000  # nodes: many times what recursion in Python or in C would stand


def leaf(*values: float) -> Any:
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


# --- deep and wide graphs ------------------------------------------------------------------------------------------------


@pytest.fixture
def shallow() -> Iterator[None]:
    """A recursion limit that no walk over a deep graph would survive."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(min(before, 400))
    yield
    sys.setrecursionlimit(before)


def test_a_very_long_chain(shallow: None) -> None:
    x = torch.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(LONG):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y  # freeing the chain must not recurse either


def test_a_deep_chain_is_freed_without_a_backward(shallow: None) -> None:
    x = torch.tensor(1.0, requires_grad=True)
    y = x.exp()  # saves its result, so that only the far end of the chain keeps it
    first = weakref.ref(y)
    y = y * y
    for _ in range(100_000):
        y = y * 0.5
    assert first() is not None
    del y
    assert first() is None


def test_a_deep_chain_through_hooks_grad_and_create_graph(shallow: None) -> None:
    x = torch.tensor(0.5, requires_grad=True)
    fired: list[object] = []
    y = x
    for _ in range(20_000):
        y = y * 1.0
        y.register_hook(fired.append)
    (g,) = torch.autograd.grad(y * y, x, create_graph=True)
    assert g.item() == 1.0
    assert len(fired) == 20_000
    g.backward()
    assert x.grad.item() == 2.0
    del y, g, fired


def test_a_deep_chain_of_in_place_writes_and_views(shallow: None) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    for step in range(5_000):
        y[step % 3] *= 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    del y


def test_a_deep_chain_of_custom_functions(shallow: None) -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_a_node_with_many_uses_and_many_leaves() -> None:
    leaves = [torch.ones(1, requires_grad=True) for _ in range(5_000)]
    torch.cat(leaves).sum().backward()
    assert all(tensor.grad.item() == 1.0 for tensor in leaves)
    x = torch.ones(1, requires_grad=True)
    torch.cat([x * 1 for _ in range(5_000)]).sum().backward()
    assert x.grad.item() == 5_000.0


# --- interruptions -------------------------------------------------------------------------------------------------------

INTERRUPTIONS = [ValueError("on purpose"), KeyboardInterrupt(), SystemExit(3), MemoryError()]


@pytest.mark.parametrize("error", INTERRUPTIONS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["tensor", "leaf", "node pre", "node post", "post-accumulate", "unpack", "function"])
def test_an_interrupted_backward_leaves_everything_usable(place: str, error: BaseException) -> None:
    armed = [True]

    def interrupt(*_: Any) -> None:
        if armed[0]:
            raise error

    def unpack(tensor: Any) -> Any:
        interrupt()
        return tensor

    class Passing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            interrupt()
            return g

    x, w = leaf(), leaf(3.0, 4.0)
    if place == "unpack":
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            y = x * w
    else:
        y = Passing.apply(x) * w if place == "function" else x * w
    if place == "tensor":
        y.register_hook(interrupt)
    elif place == "leaf":
        x.register_hook(interrupt)
    elif place == "node pre":
        y.grad_fn.register_prehook(interrupt)
    elif place == "node post":
        y.grad_fn.register_hook(interrupt)
    elif place == "post-accumulate":
        x.register_post_accumulate_grad_hook(interrupt)
    root = y.sum()
    with pytest.raises(type(error)):
        root.backward(retain_graph=True)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert (leaf() * 2).requires_grad
    armed[0] = False
    x.grad = w.grad = None
    root.backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert w.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("error", INTERRUPTIONS, ids=lambda error: type(error).__name__)
def test_an_interrupted_inner_backward(error: BaseException) -> None:
    x, w = leaf(), leaf()

    def stop(_: Any) -> None:
        raise error

    handle = w.register_hook(stop)

    def run_inner(g: Any) -> None:
        with torch.enable_grad():
            (w * 2).sum().backward()

    y = x * 3
    y.register_hook(run_inner)
    with pytest.raises(type(error)):
        y.sum().backward(retain_graph=True)
    assert torch.is_grad_enabled()
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert w.grad.tolist() == [2.0, 2.0]


def test_an_interrupted_context_restores_the_mode() -> None:
    for context in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        with pytest.raises(KeyboardInterrupt), context():
            raise KeyboardInterrupt
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    with pytest.raises(KeyboardInterrupt), torch.autograd.graph.saved_tensors_hooks(abs, abs):
        raise KeyboardInterrupt
    leaf().exp().sum().backward()


# --- threads -------------------------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work(number)` in `count` threads that start together; re-raise what one of them raised."""
    start, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # change threads as often as possible
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def test_threads_accumulate_into_shared_leaves() -> None:
    x, w = leaf(), leaf(3.0, 4.0)

    def work(number: int) -> None:
        for _ in range(100):
            (x * w).sum().backward()

    in_threads(8, work)
    assert x.grad.tolist() == [3.0 * 800, 4.0 * 800]
    assert w.grad.tolist() == [800.0, 1600.0]


def test_threads_share_a_retained_graph() -> None:
    x = leaf()
    shared = (x * x).exp()
    roots = [shared.sum() * (number + 1) for number in range(6)]
    expected = torch.autograd.grad(roots[0], x, retain_graph=True)[0] * 21

    def work(number: int) -> None:
        for _ in range(20):
            roots[number].backward(retain_graph=True)

    in_threads(6, work)
    assert torch.allclose(x.grad, expected * 20, rtol=1e-4)


def test_threads_share_a_checkpointed_graph() -> None:
    x = leaf()
    shared = checkpoint(lambda a: (a.sin() * a.cos()).exp(), x, use_reentrant=False)
    expected = torch.autograd.grad(shared.sum(), x, retain_graph=True)[0] * 80

    def work(number: int) -> None:
        for _ in range(20):
            shared.sum().backward(retain_graph=True)

    in_threads(4, work)
    assert torch.allclose(x.grad, expected, rtol=1e-4)


def test_threads_with_hooks_lose_no_call() -> None:
    x = leaf()
    calls: list[int] = []
    x.register_hook(lambda g: calls.append(1))
    x.register_post_accumulate_grad_hook(lambda t: calls.append(1))

    def work(number: int) -> None:
        for _ in range(50):
            (x * 2).sum().backward()

    in_threads(6, work)
    assert len(calls) == 2 * 6 * 50
    assert x.grad.tolist() == [600.0, 600.0]


def test_threads_keep_their_modes_and_saved_hooks() -> None:
    x = leaf()
    packed: dict[int, int] = dict.fromkeys(range(4), 0)

    def work(number: int) -> None:
        def pack(tensor: Any) -> Any:
            packed[number] += 1
            return tensor

        for _ in range(30):
            assert torch.is_grad_enabled()
            with torch.no_grad():
                assert not (x * 2).requires_grad
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                x.exp().sum().backward()

    in_threads(4, work)
    assert set(packed.values()) == {30}


def test_threads_registering_and_removing_hooks() -> None:
    x = leaf()
    x.register_hook(lambda g: None)

    def work(number: int) -> None:
        for _ in range(50):
            handle = x.register_hook(lambda g: None)
            (x * 2).sum().backward()
            handle.remove()

    in_threads(4, work)
    assert x.grad.tolist() == [400.0, 400.0]
    assert len(x._backward_hooks) == 1


def test_threads_that_are_the_first_to_use_a_leaf_share_its_accumulator() -> None:
    for _ in range(150):
        x = leaf()
        found: list[Any] = []

        def work(number: int, x: Any = x, found: list[Any] = found) -> None:
            y = x * 2
            found.append(y.grad_fn.next_functions[0][0])
            y.sum().backward()

        in_threads(4, work)
        assert len(set(found)) == 1
        assert x.grad.tolist() == [8.0, 8.0]


def test_threads_that_are_the_first_to_take_views_share_the_version() -> None:
    for _ in range(150):
        x = torch.zeros(4)
        views: list[Any] = []

        def work(number: int, x: Any = x, views: list[Any] = views) -> None:
            views.append(x[number:])

        in_threads(4, work)
        before = x._version
        views[0].add_(1)
        assert {view._version for view in (x, *views)} == {before + 1}
