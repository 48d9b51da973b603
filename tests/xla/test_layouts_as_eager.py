"""How tensors lie in memory, as a compiled step finds it: strides, views and copies, several elements in one place."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

import undertow as torch
from undertow._src.compile.errors import CompileError

LAYOUTS = {
    "in order": lambda: torch.arange(6.0).reshape(3, 2),
    "strided": lambda: torch.arange(12.0).reshape(3, 4)[:, ::2],
    "transposed": lambda: torch.arange(6.0).reshape(2, 3).t(),
    "expanded": lambda: torch.ones(1, 2).expand(3, 2),
}


def outcome(step: Any, x: Any) -> Any:
    """What a step returns and leaves in its argument, or raises."""
    try:
        result = step(x)
    except RuntimeError as error:
        return type(error) if isinstance(error, CompileError) else str(error)
    return repr(result), x.tolist()


def facts(x: Any) -> Any:
    parts = [x, x[1:], x[:, :1], x.t(), x + 1, x.clone(), x.relu(), x.reshape(-1), x.contiguous(), torch.zeros_like(x)]
    return [(part.stride(), part.is_contiguous()) for part in parts]


def is_itself(x: Any) -> Any:
    return x.contiguous() is x


def flat_view(x: Any) -> Any:
    return x.view(-1) + 0


def reshaped(x: Any) -> Any:
    y = x.reshape(-1)
    return (y * 2).stride()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", [facts, is_itself, flat_view, reshaped])
def test_arguments_lie_as_they_do(step: Any, layout: str) -> None:
    make = LAYOUTS[layout]
    assert outcome(torch.compile(step), make()) == outcome(step, make())


def test_a_program_is_for_the_strides_it_was_made_for() -> None:
    strides = torch.compile(lambda x: x.stride())
    assert [strides(make()) for make in LAYOUTS.values()] == [make().stride() for make in LAYOUTS.values()]


def through_reshape(x: Any) -> None:
    x.reshape(-1).add_(1)


def through_transposed(x: Any) -> None:
    x.t().reshape(-1).add_(1)


def through_heads(x: Any) -> None:
    x.reshape(3, 2, 1).transpose(0, 1).flatten(1).mul_(0)


def through_ravel(x: Any) -> None:
    x[:, 1:].ravel().add_(1)
    x.t().ravel().add_(5)


@pytest.mark.parametrize("layout", ["in order", "strided", "transposed"])
@pytest.mark.parametrize("step", [through_reshape, through_transposed, through_heads, through_ravel])
def test_reshape_is_a_view_where_memory_allows_it(step: Any, layout: str) -> None:
    make = LAYOUTS[layout]
    assert outcome(torch.compile(step), make()) == outcome(step, make())


WRITES: dict[str, Any] = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(torch.zeros(3, 2)),
    "relu_": lambda x: x.relu_(),
    "uniform_": lambda x: x.uniform_(),
    "out": lambda x: torch.add(torch.ones(3, 2), 1, out=x),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([[0, 0]]), 1.0),
    "foreach": lambda x: torch._foreach_add_([x], 1.0),
    "column": lambda x: x[:, 1].add_(1),
    "row": lambda x: x[0].add_(1),
    "fill_": lambda x: x.fill_(3),
    "item": lambda x: x.__setitem__(0, 5.0),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(2.0)),
}


@pytest.mark.filterwarnings("ignore:Use of index_put_")
@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_elements_in_one_place_is_refused(name: str) -> None:
    """As eager mode refuses it; where that goes on, a program could not, and says so."""
    make = LAYOUTS["expanded"]
    eager, compiled = outcome(WRITES[name], make()), outcome(torch.compile(WRITES[name]), make())
    assert compiled in (eager, CompileError)
    assert isinstance(eager, str) == (compiled == eager)


def test_a_write_through_what_the_step_expands_is_refused() -> None:
    def rows(x: Any) -> None:
        x[:1].expand(3, 2)[0].add_(1)

    def windows(x: Any) -> None:
        x.reshape(-1).unfold(0, 2, 1).add_(1)

    for step in (rows, windows):
        with pytest.raises(CompileError, match="whose elements share memory"):
            torch.compile(step)(torch.ones(3, 2))


def test_offsets() -> None:
    made = torch.compile(lambda x: [(part := (x * 2)[1:, 1:]).storage_offset(), part.t()[0].storage_offset()])
    assert made(torch.ones(3, 2)) == [3, 3]
    with pytest.raises(CompileError, match="storage_offset"):
        torch.compile(lambda x: x[1:].storage_offset())(torch.ones(3, 2))


def second_order(weight: Any, x: Any) -> Any:
    """Strides of gradients that are recorded themselves, and draws in the order of one of them."""
    torch.manual_seed(3)
    loss = (x @ weight.t()).tanh().pow(2).mean() + torch.nn.functional.linear(x, weight, weight[:, 0]).sum()
    gradients = torch.autograd.grad(loss, (weight, x), create_graph=True)
    noise = [torch.randn_like(each) for each in gradients]
    again = torch.autograd.grad(sum(each.pow(2).sum() for each in gradients), (weight, x))
    return [(each.stride(), each.is_contiguous()) for each in (*gradients, *again)], noise


@pytest.mark.parametrize("layout", ["in order", "transposed"])
def test_gradients_of_products_lie_as_they_do(layout: str) -> None:
    weight, x = LAYOUTS[layout]().requires_grad_(), torch.ones(4, 2, requires_grad=True)
    assert repr(torch.compile(second_order)(weight, x)) == repr(second_order(weight, x))


def described(result: Any, wanted: list[Any]) -> list[Any]:
    """How results, first gradients (plain, and recorded) and second gradients lie in memory."""
    made = [each for each in (result if isinstance(result, tuple) else (result,)) if each.dtype.is_floating_point]
    loss = sum((each * each).sum() for each in made)
    plain = torch.autograd.grad(loss, wanted, retain_graph=True)
    recorded = torch.autograd.grad(loss, wanted, create_graph=True)
    second = torch.autograd.grad(sum((each * each).sum() for each in recorded), wanted, allow_unused=True)
    return [[None if each is None else each.stride() for each in group] for group in (made, plain, recorded, second)]


def columns(*shape: int) -> Any:
    """Numbers that lie in memory with the first dim as the innermost one."""
    made = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(*shape[::-1]) / 7
    return made.permute(*range(len(shape))[::-1]).detach()


def rows(*shape: int) -> Any:
    return columns(*shape).contiguous()


OPERATIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "sum": (lambda a: a.sum(), (3, 4)),
    "sum_of_rows": (lambda a: a.sum(1, keepdim=True), (3, 4)),
    "mean": (lambda a: a.mean(0), (2, 3, 4)),
    "max": (lambda a: a.amax(1), (3, 4)),
    "cat": (lambda a: torch.cat([a, a * 2], 1), (3, 4)),
    "stack": (lambda a: torch.stack([a, a * 2]), (3, 4)),
    "split": (lambda a: a.split(2, 1), (3, 4)),
    "transpose": (lambda a: a.transpose(0, 1) * 2, (3, 4)),
    "permute": (lambda a: a.permute(2, 0, 1).exp(), (2, 3, 4)),
    "select": (lambda a: a[1] * a[:, 1:2].sum(), (3, 4)),
    "expand": (lambda a: a[:1].expand(5, 4).tanh(), (3, 4)),
    "matmul": (lambda a: a @ a.t(), (3, 4)),
    "batched": (lambda a: a @ a.transpose(1, 2), (2, 3, 4)),
    "einsum": (lambda a: torch.einsum("bij,bkj->bik", a, a), (2, 3, 4)),
    "softmax": (lambda a: a.softmax(0), (3, 4)),
    "relu": (lambda a: a.t().relu(), (3, 4)),
    "inverse": (lambda a: torch.linalg.inv(a @ a.mT + torch.eye(3)), (3, 4)),
    "cholesky": (lambda a: torch.linalg.cholesky(a @ a.mT + torch.eye(3)), (3, 4)),
    "qr": (lambda a: torch.linalg.qr(a.cos()), (4, 3)),
    "det": (lambda a: torch.linalg.det(a @ a.mT + torch.eye(3)), (2, 3, 4)),
    "flip": (lambda a: a.flip(0) * a, (3, 4)),
    "where": (lambda a: torch.where(a > 1, a.t().t(), a * 2), (3, 4)),
    "cast": (lambda a: a.double().float(), (3, 4)),
    "layer_norm": (lambda a: torch.nn.functional.layer_norm(a, (4,)), (3, 4)),
}


@pytest.mark.parametrize("lie", [rows, columns])
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_and_gradients_lie_as_they_do(name: str, lie: Any) -> None:
    operation, shape = OPERATIONS[name]

    def step(a: Any) -> Any:
        return described(operation(a), [a])

    given = lie(*shape).requires_grad_()
    assert torch.compile(step)(given) == step(given)


def test_hooks_are_shown_gradients_that_lie_as_they_do() -> None:
    """A draw like such a gradient, and what may be a view of it."""

    def step(a: Any, b: Any) -> Any:
        torch.manual_seed(2)
        notes: list[Any] = []

        def noisy(g: Any) -> Any:
            notes.append((g.stride(), g.is_contiguous(), g.t().is_contiguous()))
            return g + torch.randn_like(g)

        handles = [each.register_hook(noisy) for each in (a, b)]
        found = torch.autograd.grad(torch.cat([a.t(), b]).pow(2).sum() + a.sum(), (a, b))
        for handle in handles:
            handle.remove()
        return notes, found

    def given() -> list[Any]:
        return [torch.ones(3, 4).mul(2).requires_grad_(), torch.ones(2, 3).requires_grad_()]

    assert repr(torch.compile(step)(*given())) == repr(step(*given()))


# --- what a program leaves


def transposed(*sizes: int) -> Any:
    return torch.randn(*reversed(sizes)).t().requires_grad_()


def images() -> Any:
    layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)

    def step() -> Any:
        y = layer(x).relu()
        y.sum().backward()
        return y.detach()

    return step, lambda y: [y, layer.weight.grad, layer.bias.grad]


def views_of_one_result() -> Any:
    x = torch.randn(4, 6)

    def step() -> Any:
        y = x * 2
        return y.t(), y[1:, ::2], y.reshape(2, 12).t(), y.expand(2, 4, 6), y[:, 0]

    return step, list


def kept_in_a_dict() -> Any:
    w, kept = transposed(4, 3), dict[str, Any]()

    def step() -> Any:
        y = w * w
        kept.update(y=y.detach(), turned=y.t().detach())
        y.sum().backward()
        return y

    return step, lambda y: [y.detach(), w.grad, *kept.values()]


def optimizer_state() -> Any:
    w = transposed(4, 3).detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([w])

    def step() -> None:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    return step, lambda _: [w.grad, w.detach(), optimizer.state[w]["exp_avg"], optimizer.state[w]["exp_avg_sq"]]


def backward_outside() -> Any:
    w = transposed(4, 3)

    def look(y: Any) -> list[Any]:
        gradients = [torch.autograd.grad(y, w, seed, retain_graph=True)[0] for seed in (torch.ones(4, 3), y.detach())]
        return [y.detach(), *gradients, *torch.autograd.grad(y.sum(), w, create_graph=True)]

    return (lambda: (w * w).t().contiguous().t()), look


def factorizations() -> Any:
    a, b = transposed(4, 3), torch.randn(3, 5, requires_grad=True)

    def step() -> Any:
        a.grad = b.grad = None
        y = a @ b
        y.pow(2).sum().backward()
        return y.detach(), torch.linalg.qr(y.detach())[0]

    return step, lambda found: [*found, a.grad, b.grad]


@pytest.mark.parametrize(
    "make", [images, views_of_one_result, kept_in_a_dict, optimizer_state, backward_outside, factorizations]
)
def test_what_a_program_leaves_lies_as_in_eager_mode(make: Any) -> None:
    """Also to what eager code does with it afterwards: draws, copies, NumPy's view of it."""

    def noted(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        step, look = make()
        call = torch.compile(step) if compiled else step
        notes: list[Any] = []
        for _ in range(3):
            for left in look(call()):
                noise = torch.randn_like(left.detach()).flatten()[:3].tolist()
                again = [(left * 2).stride(), left.detach().clone().stride(), left.detach().numpy().strides]
                notes.append((left.stride(), left.is_contiguous(), left.storage_offset(), noise, again))
        return notes

    assert noted(compiled=True) == noted(compiled=False)


def test_hooks_on_the_host_are_shown_gradients_that_lie_as_they_do() -> None:
    def noted(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.2), torch.nn.Linear(3, 2))
        model[2].register_forward_hook(lambda module, inputs, output: output.t().contiguous().t())
        log: list[Any] = []

        def noisy(g: Any) -> Any:
            log.append((g.stride(), round(g.mean().item(), 4)))
            g = g + torch.randn_like(g.t()).t() * 0.01
            log.append(g.stride())
            return g

        def step(x: Any) -> None:
            y = model(x)
            y.register_hook(noisy)
            y.backward(torch.ones_like(y) * 0.1)

        call = torch.compile(step) if compiled else step
        for _ in range(3):
            call(torch.randn(3, 2))
            log.append(model[2].bias.grad.tolist())
        return log

    for eager, compiled in zip(noted(compiled=False), noted(compiled=True), strict=True):
        assert compiled == (pytest.approx(eager) if isinstance(eager, list) else eager)


# --- a program is for the layouts that it was made for


def replacing(compile: Any) -> list[Any]:
    weight, other, found = torch.ones(3, 4, requires_grad=True), torch.zeros(2), []
    step = compile(lambda x: (x @ weight, weight.shape, weight.stride(), x * len(other), other.stride(), other.dtype))
    changes: dict[int, Any] = {
        1: lambda: setattr(weight, "data", torch.ones(3, 5)),
        2: lambda: setattr(weight, "data", torch.ones(5, 3).t()),
        3: lambda: setattr(weight, "data", torch.ones(3, 10)[:, ::2]),
        4: lambda: other.resize_(4, 2),
        5: lambda: other.set_(torch.zeros(2, 4).t()),
        6: lambda: setattr(other, "data", torch.zeros(4, 2, dtype=torch.int64)),
    }
    for turn in range(8):
        changes.get(turn, lambda: None)()
        found.append([repr(each) if isinstance(each, torch.Tensor) else each for each in step(torch.ones(2, 3))])
        found[-1][0] = found[-1][0].split("grad_fn")[0]
    return found


def test_a_program_is_for_the_layout_of_the_steps_own_tensors() -> None:
    assert replacing(torch.compile) == replacing(lambda step: step)


def test_explain_says_that_a_tensor_has_another_shape() -> None:
    weight = torch.ones(3, 4)
    step = torch.compile(lambda x: x @ weight)
    step(torch.ones(2, 3))
    weight.data = torch.ones(3, 5)
    assert step(torch.ones(2, 3)).shape == (2, 5)
    assert "changed from (3, 4) to (3, 5)" in str(torch.compile.explain(step))


def test_a_view_of_a_result_is_an_argument() -> None:
    turned = torch.compile(lambda x: x.t() * 2)
    part = turned(torch.arange(6.0).reshape(3, 2))[0]
    assert torch.compile(lambda x: (x + 1, x.stride()))(part)[1] == (turned(torch.ones(3, 2)) * 1)[0].stride() == (2,)


# --- copies


def saved(left: Any) -> Any:
    stream = io.BytesIO()
    torch.save(left, stream)
    stream.seek(0)
    return torch.load(stream)


@pytest.mark.parametrize("copy", [saved, deepcopy])
def test_copies_of_what_a_program_leaves_share_memory_as_it_does(copy: Any) -> None:
    flat = torch.zeros(6)
    part = flat[2:]
    step = torch.compile(lambda x: (flat.add_(x), x * 2)[1].split(3))
    for _ in range(2):
        parts = step(torch.ones(6))
    copied_flat, copied_part, (first, second) = copy((flat, part, parts))
    copied_flat.fill_(7)
    first.fill_(5)
    assert copied_part.tolist() == [7.0] * 4 and part.tolist() == [2.0] * 4
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr() and second.tolist() == [2.0] * 3
    step(torch.ones(6))
    assert part.tolist() == [3.0] * 4
    assert [each.tolist() for each in pickle.loads(pickle.dumps(parts))] == [[2.0] * 3] * 2


ON_DEVICE: dict[str, Callable[[Any], Any]] = {
    "draws like a transposed tensor": lambda x: torch.randn_like(x.transpose(0, 1)),
    "a transposed tensor": lambda x: x.transpose(0, 1).is_contiguous(),
    "a contiguous copy": lambda x: x.permute(0, 2, 3, 1).contiguous().is_contiguous(),
    "channels last": lambda x: x.to(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last),
    "computed from channels last": lambda x: (x.to(memory_format=torch.channels_last) * 2).is_contiguous(),
}


@pytest.mark.parametrize("name", ON_DEVICE)
def test_layouts_on_a_device_are_those_of_eager_mode(name: str) -> None:
    function, found = ON_DEVICE[name], []
    for step in (function, torch.compile(function)):
        torch.manual_seed(0)
        result = step(torch.ones(2, 3, 4, 5, device="xla"))
        found.append(result.cpu().tolist() if isinstance(result, torch.Tensor) else result)
    assert found[0] == found[1]
    expected = function(torch.ones(2, 3, 4, 5))
    assert isinstance(expected, torch.Tensor) or found[0] == expected
