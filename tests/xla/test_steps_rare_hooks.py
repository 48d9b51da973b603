"""Hooks that are seldom hung in compiled steps: on saved tensors, on all modules and optimizers, on several gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, differences, run
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.autograd import graph
from undertow.nn.modules import module as modules
from undertow.optim import optimizer as optimizers
from undertow.overrides import TorchFunctionMode

case = Cases()
handles: list[Any] = []


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    yield
    _remove_handles()


def _remove_handles() -> None:
    while handles:
        handles.pop().remove()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    eager = run(case[name], False, 2)
    _remove_handles()  # those on all modules would fire in the twin as well
    assert not differences(eager, run(case[name], True, 2))


def test_a_store_that_the_step_makes_for_packed_tensors_is_refused() -> None:
    # The step calls code that undertow cannot follow, which might read the store.
    saving(packs_into_a_store)
    twin = case.pop("packs_into_a_store")()
    with pytest.raises(CompileError, match="which the step itself has made and reads"):
        torch.compile(twin.step)(torch.ones(5, 3))


def trained(body: Any = None, hang: Any = None, between: Any = None) -> Case:
    """A small training step: `body(model, x, log)` gives the loss, `hang(model, log)` hangs hooks before the first."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    log: list[Any] = []
    if hang is not None:
        hang(model, log)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) if body is None else body(model, x, log)).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    def after(turn: int) -> None:
        if between is not None and turn == 0:
            between(log)

    return Case(step, model, optimizer, args=lambda turn: (torch.randn(5, 3),), log=log, between=after)


# --- hooks on saved tensors


def saving(make: Any) -> Any:
    """A step whose forward runs under the pack and unpack hooks that `make(log)` gives."""

    def build() -> Case:
        def body(model: Any, x: Any, log: Any) -> Any:
            with graph.saved_tensors_hooks(*make(log)):
                return model(x).sigmoid()

        return trained(body)

    build.__name__ = make.__name__
    return case(build)


@saving
def packs_what_is_computed(log: Any) -> Any:
    return lambda t: t * 2, lambda t: t / 2


@saving
def packs_in_half_precision(log: Any) -> Any:
    return lambda t: (t.dtype, t.half()), lambda packed: packed[1].to(packed[0])


@saving
def packs_and_notes(log: Any) -> Any:
    def pack(t: Any) -> Any:
        log.append(("pack", t.sum().item()))
        return t

    def unpack(t: Any) -> Any:
        log.append(("unpack", list(t.shape)))
        return t

    return pack, unpack


@saving
def only_unpacking_is_noted(log: Any) -> Any:
    def unpack(packed: Any) -> Any:
        log.append(packed[1].sum().item())
        return packed[1].float()

    return lambda t: (t.shape, t.double()), unpack


@saving
def packs_into_numpy(log: Any) -> Any:
    return lambda t: t.detach().numpy().copy(), torch.tensor


def packs_into_a_store(log: Any) -> Any:
    store: dict[int, Any] = {}
    count = itertools.count()

    def pack(t: Any) -> int:
        key = next(count)
        store[key] = np.array(t.detach().numpy())
        return key

    return pack, lambda key: torch.from_numpy(store.pop(key))


@saving
def one_function_packs_and_unpacks(log: Any) -> Any:
    def note(t: Any) -> Any:
        log.append(t.sum().item())
        return t

    return note, note


@case
def waits_on_the_cpu() -> Case:
    def body(model: Any, x: Any, log: Any) -> Any:
        with graph.save_on_cpu():
            return model(x)

    return trained(body)


def test_hooks_on_saved_tensors_around_a_call_are_part_of_it() -> None:
    layer = nn.Linear(2, 2)
    log: list[Any] = []

    @torch.compile
    def step(x: Any) -> Any:
        layer.zero_grad()
        loss = layer(x).exp().sum()
        loss.backward()
        return loss

    def pack(t: Any) -> Any:
        log.append(t.sum().item())
        return t * 0

    for _ in range(2):
        step(torch.ones(1, 2))
    plain = layer.weight.grad.clone()
    with graph.saved_tensors_hooks(pack, lambda t: t):
        step(torch.ones(1, 2))
    assert log and layer.weight.grad.abs().max() == 0
    step(torch.ones(1, 2))
    assert torch.equal(layer.weight.grad, plain)


def test_a_host_hook_that_unpacks_another_shape_is_named() -> None:
    layer = nn.Linear(2, 2)

    @torch.compile
    def step(x: Any) -> Any:
        with graph.saved_tensors_hooks(lambda t: t.numpy(), lambda a: torch.zeros(7)):
            loss = layer(x).exp().sum()
        loss.backward()
        return loss

    with pytest.raises(CompileError, match=r"test_steps_rare_hooks.py:\d+, registered at .* shape \[7\]"):
        step(torch.ones(1, 2))


# --- hooks on all modules and on all optimizers


def note_sums(log: Any, *given: Any) -> None:
    tensors = given[-1] if isinstance(given[-1], tuple) else (given[-1],)
    log.append((type(given[0]).__name__, [t.sum().item() for t in tensors if t is not None]))


def halve(log: Any, *given: Any) -> Any:
    if isinstance(given[1], tuple) and len(given) == 3 and isinstance(given[2], torch.Tensor):
        return given[2] / 2  # the output of a module
    return tuple(None if t is None else t / 2 for t in given[1])


def note_parameters(log: Any, optimizer: Any, args: Any, kwargs: Any) -> None:
    log.append(optimizer.param_groups[0]["params"][0].sum().item())


def hang_everywhere(log: Any) -> None:
    for register in (
        modules.register_module_forward_pre_hook, modules.register_module_forward_hook,
        modules.register_module_full_backward_pre_hook, modules.register_module_full_backward_hook,
    ):  # fmt: skip
        handles.append(register(lambda *given: halve(log, *given)))
        handles.append(register(lambda *given: note_sums(log, *given)))
    handles.append(optimizers.register_optimizer_step_pre_hook(lambda *given: note_parameters(log, *given)))
    handles.append(optimizers.register_optimizer_step_post_hook(lambda *given: note_parameters(log, *given)))


@case
def everywhere() -> Case:
    return trained(hang=lambda model, log: hang_everywhere(log))


@case
def everywhere_after_the_first_calls() -> Case:
    return trained(between=hang_everywhere)


@case
def on_all_optimizers_after_the_first_calls() -> Case:
    def hang(log: Any) -> None:
        handles.append(optimizers.register_optimizer_step_post_hook(lambda *given: note_parameters(log, *given)))

    return trained(between=hang)


@case
def parameters_and_buffers_registered_in_the_step() -> Case:
    def note(log: Any) -> Any:
        return lambda module, name, value: log.append((name, list(value.shape)))

    def hang(model: Any, log: Any) -> None:
        handles.append(modules.register_module_parameter_registration_hook(note(log)))
        handles.append(modules.register_module_buffer_registration_hook(note(log)))

    def body(model: Any, x: Any, log: Any) -> Any:
        nn.Linear(2, 2)
        model[1].register_buffer("seen", x.detach().sum())
        return model(x)

    return trained(body, hang)


# --- hooks on several gradients, and on nodes


def on_all(hook: Any, mode: str = "all") -> Any:
    def build() -> Case:
        def hang(model: Any, log: Any) -> None:
            graph.register_multi_grad_hook(list(model.parameters()), lambda grads: hook(log, grads), mode=mode)

        return trained(hang=hang)

    build.__name__ = f"multi_grad_{hook.__name__}"
    return case(build)


def notes(log: Any, grads: Any) -> None:
    log.append([g.sum().item() for g in grads])


def notes_the_first(log: Any, grad: Any) -> None:
    log.append(grad.sum().item())


def halves_in_place(log: Any, grads: Any) -> None:
    for g in grads:
        g.mul_(0.5)


def notes_and_halves(log: Any, grads: Any) -> None:
    log.append(len(grads))
    for g in grads:
        g.mul_(0.5)


for _hook in (notes, halves_in_place, notes_and_halves):
    on_all(_hook)
on_all(notes_the_first, "any")


@case
def multi_grad_in_the_step() -> Case:
    def body(model: Any, x: Any, log: Any) -> Any:
        hidden = model[0](x)
        result = model[1](hidden)
        graph.register_multi_grad_hook([hidden, result], lambda grads: notes(log, grads))
        return result

    return trained(body)


@case
def before_and_after_a_node() -> Case:
    def body(model: Any, x: Any, log: Any) -> Any:
        def before(grads: Any) -> Any:
            log.append(grads[0].sum().item())
            return (grads[0] * 2,)

        def after(grads: Any, outgoing: Any) -> Any:
            log.append(outgoing[0].sum().item())
            return tuple(None if g is None else g * 2 for g in grads)

        result = model(x)
        result.grad_fn.register_prehook(before)
        result.grad_fn.register_hook(after)
        result.tanh().grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
        return result

    return trained(body)


def test_a_function_mode_around_a_step_is_refused() -> None:
    class Seeing(TorchFunctionMode):
        def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    layer = nn.Linear(2, 2)
    step = torch.compile(lambda x: layer(x).sum())
    step(torch.ones(1, 2))
    with Seeing(), pytest.raises(CompileError, match="Seeing is active around a compiled step"):
        step(torch.ones(1, 2))


def test_what_a_hook_saves_is_packed_as_in_eager_mode() -> None:
    def counted(compiled: bool) -> list[tuple[int, int]]:
        torch.manual_seed(0)
        model, log, packed = nn.Linear(3, 2), list[Any](), {"n": 0}

        def pack(tensor: Any) -> Any:
            packed["n"] += 1
            return tensor

        def note(module: Any, args: Any, output: Any) -> None:
            if output.norm() > 0.5:
                log.append("large")

        model.register_forward_hook(note)

        def step(x: Any) -> Any:
            with graph.saved_tensors_hooks(pack, lambda saved: saved):
                return model(x).sum().detach()

        run, counts = torch.compile(step) if compiled else step, []
        for turn in range(4):
            run(torch.ones(1, 3) * turn)
            counts.append((packed["n"], len(log)))
        return counts

    assert counted(True) == counted(False)


def test_a_hook_that_reads_the_first_state_of_an_optimizer() -> None:
    """Each trace makes that state anew; waiting until all of it is known took for ever. So the call runs as written."""

    def logged(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        model, log = nn.Linear(4, 2), list[float]()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        optimizer.register_step_post_hook(
            lambda optimizer, args, kwargs: log.append(optimizer.state[model.weight]["exp_avg"].norm().item())
        )

        def step(x: Any) -> None:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()

        run = torch.compile(step) if compiled else step
        for _ in range(4):
            run(torch.ones(3, 4))
        return log

    assert logged(True) == pytest.approx(logged(False), rel=1e-5)
