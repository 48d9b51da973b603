"""Tensors that come to share memory between calls, or cease to; graphs that are half used up; rare arguments."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow._src.compile import CompileError
from undertow.autograd.graph import Node


def two_layers(between: Any, tied: bool = False) -> Any:
    def build() -> Case:
        first, second = nn.Linear(3, 2), nn.Linear(3, 2)
        if tied:
            second.weight.data = first.weight.data
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (first(x) * second(x)).sum()
            loss.backward()
            optimizer.step()
            return loss

        def change(turn: int) -> None:
            if turn == 1:
                between(first.weight, second.weight)

        batch = [torch.full((2, 3), 0.1 + turn) for turn in range(4)]
        return Case(step, first, second, args=lambda turn: (batch[turn],), between=change, look=lambda: None)

    return build


def tie(a: Any, b: Any) -> None:
    b.data = a.data


def untie(a: Any, b: Any) -> None:
    b.data = a.data.clone()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("between", [tie, untie])
def test_weights_are_tied_and_untied(between: Any, tied: bool) -> None:
    agree(two_layers(between, tied), steps=4)


def test_an_argument_in_the_memory_of_another_one() -> None:
    def step(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 1

    def build() -> Case:
        memory = torch.arange(3.0)

        def arguments(turn: int) -> tuple[Any, ...]:
            return (torch.ones(3), torch.ones(3)) if turn < 2 else (memory, memory.detach())

        return Case(step, args=arguments, look=lambda: memory.clone())

    agree(build, steps=3)


def test_a_parameters_memory_as_an_argument() -> None:
    model = nn.Linear(3, 2)

    @torch.compile
    def step(x: Any, other: Any) -> Any:
        with torch.no_grad():
            other.add_(1)
        return model(x).detach()

    x = torch.ones(1, 3)
    step(x, torch.zeros(2, 3))
    before = model(x).detach()
    assert torch.allclose(step(x, model.weight.data), before + 3)
    with pytest.raises(CompileError, match="shares memory"):
        step(x, model.weight.data[0])


def test_a_graph_that_is_used_up_in_part_says_so() -> None:
    first, second = nn.Linear(3, 2), nn.Linear(2, 2)

    @torch.compile
    def step(x: Any) -> Any:
        hidden = first(x).tanh()
        used, left, apart = hidden.pow(2).sum(), second(hidden).pow(2).sum(), second(x[:, :2]).sum()
        used.backward()
        return left, apart

    for _ in range(3):
        first.zero_grad()
        second.zero_grad()
        left, apart = step(torch.ones(1, 3))
        assert isinstance(left.grad_fn, Node) and left.grad_fn.name() == "SumBackward0"
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            left.backward()
        apart.backward()
        assert second.weight.grad.tolist() == [[1.0, 1.0]] * 2


def test_hooks_on_a_leafs_node_come_and_go() -> None:
    weight = torch.ones(3, requires_grad=True)
    node = weight.view_as(weight).grad_fn.next_functions[0][0]

    @torch.compile
    def step() -> Any:
        weight.grad = None
        (weight * 2).sum().backward()

    seen = []
    for doubled in (False, True, False):
        handle = node.register_prehook(lambda gradients: (gradients[0] * 2,)) if doubled else None
        step()
        seen.append(weight.grad.tolist())
        if handle is not None:
            handle.remove()
    assert seen == [[2.0] * 3, [4.0] * 3, [2.0] * 3]


def test_signs_of_zero_and_nan_are_values_of_their_own() -> None:
    step = torch.compile(lambda x, zero: x / torch.tensor(zero))
    assert [step(torch.ones(1), zero).item() for zero in (0.0, -0.0, 0.0)] == [
        float("inf"),
        -float("inf"),
        float("inf"),
    ]
    for _ in range(3):
        step(torch.ones(1), float("nan"))
    assert len(torch.compile.explain(step).data[0]["programs"]) == 3


def test_results_under_inference_mode() -> None:
    step = torch.compile(lambda x: x * 2)
    for inference in (True, True, False):
        with torch.inference_mode(inference):
            assert step(torch.ones(3)).is_inference() is inference


def test_parts_of_data_that_the_step_only_reads() -> None:
    data = torch.arange(12.0).view(4, 3)

    @torch.compile
    def step(row: Any) -> Any:
        return (row * data).sum()

    for turn in range(4):
        assert step(data[turn]).item() == (data[turn] * data).sum().item()
    assert len(torch.compile.explain(step).data[0]["recompiles"]) == 0


def test_strides_of_memory_that_a_program_does_not_have_are_refused() -> None:
    step = torch.compile(lambda x: x.as_strided((2, 2), (1, 2)))
    whole = torch.arange(9.0).view(3, 3)
    assert step(whole).tolist() == whole.as_strided((2, 2), (1, 2)).tolist()
    with pytest.raises(CompileError, match=r"as_strided.*contiguous\(\)"):
        step(whole.t())


def test_draws_of_another_thread_are_its_own() -> None:
    drawn: list[Any] = []
    running, done = threading.Event(), threading.Event()

    def draw() -> None:
        while not done.is_set():
            drawn.append(torch.rand(3).tolist())
            running.set()

    def step(x: Any) -> Any:
        for _ in range(300):  # so that the thread has time to draw during the trace
            x = x + 0
        return x * 2

    thread = threading.Thread(target=draw)
    thread.start()
    running.wait()
    compiled = torch.compile(step)
    try:
        assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    finally:
        done.set()
        thread.join()
    assert len(drawn[-1]) == 3 and torch.compile.explain(compiled).data[0]["programs"][0]["draws"] == 0


def one_tensor(a: Any, b: Any) -> None:
    a.grad = b.grad = torch.zeros(3)


def overlapping(a: Any, b: Any) -> None:
    memory = torch.zeros(5)
    a.grad, b.grad = memory[:3], memory[2:]


def each_its_own(a: Any, b: Any) -> None:
    a.grad, b.grad = torch.ones(3), torch.ones(3)


def the_leafs_own_memory(a: Any, b: Any) -> None:
    a.grad = a.data


@pytest.mark.parametrize("changes", [(one_tensor, each_its_own), (overlapping, overlapping), (the_leafs_own_memory,)])
def test_gradients_that_come_to_share_their_memory(changes: Any) -> None:
    def build() -> Case:
        a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

        def step(x: Any) -> None:
            ((a * x + b) ** 2).sum().backward()
            with torch.no_grad():
                a.sub_(a.grad, alpha=0.1)
                b.sub_(b.grad, alpha=0.1)

        def between(turn: int) -> None:
            if 0 < turn <= len(changes):
                changes[turn - 1](a, b)

        return Case(
            step, a, b, args=lambda turn: (torch.arange(3.0) + turn,), between=between,
            look=lambda: [a.grad._version, b.grad._version],
        )  # fmt: skip

    agree(build, steps=5)


def exchanged(a: Any, b: Any) -> None:
    a.data, b.data = b.data, a.data


def turned(*tensors: Any) -> None:
    held = [each.data for each in tensors]
    for each, other in zip(tensors, [*held[1:], held[0]]):
        each.data = other


def exchanged_and_written(a: Any, b: Any) -> None:
    a.data, b.data = b.data, a.data
    a.add_(1)


@pytest.mark.parametrize("exchange", [exchanged, turned, exchanged_and_written])
def test_tensors_exchange_their_memory(exchange: Any) -> None:
    def build() -> Case:
        a, b = torch.full((2,), 1.0), torch.full((2,), 2.0)

        def step(x: Any) -> Any:
            exchange(a, b)
            return x * a

        return Case(step, a, b, args=lambda turn: (torch.ones(2),), look=lambda: [a, b])

    agree(build, steps=3)


def test_a_ring_of_three() -> None:
    def build() -> Case:
        ring = [torch.full((2,), float(number)) for number in range(3)]
        return Case(lambda x: turned(*ring), args=lambda turn: (torch.ones(2),), look=lambda: ring)

    agree(build, steps=4)


def test_a_tensor_that_gets_the_memory_of_another_one_is_refused() -> None:
    a, b = torch.zeros(2), torch.ones(2)

    def step(x: Any) -> Any:
        a.data = b.data  # from now on writes to one are writes to both
        return x * 1

    with pytest.raises(CompileError, match=r"the memory of another .* Copy it: `a.data.copy_\(b\)`"):
        torch.compile(step)(torch.ones(2))


@pytest.mark.parametrize("held", [False, True], ids=["alone", "with an array over it"])
@pytest.mark.parametrize("kind", ["data", "detach", "view"])
def test_an_alias_that_the_step_leaves_of_a_tensor_from_outside(kind: str, held: bool) -> None:
    def build() -> Case:
        tensor, left = torch.ones(2), dict[str, Any]()
        array = tensor.numpy() if held else None

        def step(x: Any) -> Any:
            if not left:
                left["alias"] = {"data": tensor.data, "detach": tensor.detach(), "view": tensor[:]}[kind]
            return x * 1

        def change(turn: int) -> None:
            (tensor if turn % 2 else left["alias"]).add_(1)

        look = lambda: [tensor, left, None if array is None else array.copy()]
        return Case(step, args=lambda turn: (torch.ones(2),), between=change, look=look)

    agree(build, steps=4)


@pytest.mark.parametrize("alias", ["detach", "view", "data", "itself"])
@pytest.mark.parametrize("reads", ["one", "all"])
def test_hooks_on_the_host_fill_entries_that_shared_memory(alias: str, reads: str) -> None:
    """Two hooks store aliases of one output; a hook is added that has them and their reader run on the host."""
    aliases = {
        "detach": lambda t: t.detach(), "view": lambda t: t.detach().view(-1), "data": lambda t: t.data,
        "itself": lambda t: t,
    }  # fmt: skip

    def build() -> Case:
        model, notes, counts = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), dict[str, Any](), [0]
        model[0].register_forward_hook(lambda module, args, out: notes.update(a=out.detach()))

        def stores(module: Any, args: Any, out: Any) -> None:
            notes["b"] = aliases[alias](out.detach())

        def adds(g: Any) -> Any:
            if reads == "all":
                return g + sum(each.mean() for each in notes.values() if isinstance(each, torch.Tensor))
            return g + notes["b"].mean() if "b" in notes else g

        def counting(g: Any) -> None:
            notes["c"] = [g.detach().sum()]
            counts[0] += 1

        model[2].weight.register_hook(adds)

        def step(x: Any) -> None:
            model.zero_grad()
            model(x).pow(2).mean().backward()

        def between(turn: int) -> None:
            if turn == 0:
                model[0].register_forward_hook(stores)
            if turn == 2:
                model[2].weight.register_hook(counting)

        batch = torch.randn(5, 3, 2)
        look = lambda: [dict(notes), counts[0]]
        return Case(step, model, args=lambda turn: (batch[turn],), between=between, look=look)

    agree(build, steps=5)


@pytest.mark.parametrize("source", ["a parameter", "another argument", "another module"])
@pytest.mark.parametrize("asks", ["grad", "unused", "backward"])
def test_graphs_behind_arguments_and_named_inputs(source: str, asks: str) -> None:
    """A backward pass to named inputs goes back through an argument's graph if that leads to them: a program can't."""

    def build() -> Case:
        model, other = nn.Linear(2, 2), nn.Linear(2, 2)

        def step(x: Any, feature: Any) -> Any:
            target = x if source == "another argument" else model.weight
            loss = (model(x) * feature).sum()
            if asks == "backward":
                loss.backward(inputs=[target])
                return None
            if asks == "unused":
                return torch.autograd.grad(loss, [target, model.bias], allow_unused=True)
            return torch.autograd.grad(loss, [target])[0]

        def arguments(turn: int) -> tuple[Any, ...]:
            x = torch.full((3, 2), 0.5 + turn, requires_grad=True)
            makers = {"a parameter": model, "another argument": lambda x: x * 2, "another module": other}
            return x, makers[source](x if source == "another argument" else x.detach())

        return Case(step, model, other, args=arguments)

    if source == "another module":
        agree(build, steps=3)
    else:
        with pytest.raises(CompileError, match="reaches argument 1, which was computed outside"):
            agree(build, steps=1)


def test_a_later_argument_whose_graph_leads_to_a_named_input() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)

    @torch.compile
    def step(x: Any, feature: Any) -> Any:
        return torch.autograd.grad((model(x) * feature).sum(), [model.weight])[0]

    x = torch.ones(3, 2)
    step(x, other(x))
    step(x, other(x) * 2)
    assert len(torch.compile.explain(step).data[0]["programs"]) == 1
    with pytest.raises(CompileError, match="reaches argument 1, which was computed outside"):
        step(x, model(x))
