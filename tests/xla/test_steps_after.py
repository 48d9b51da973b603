"""Tensors after a compiled step: whatever is done with them eagerly, they behave as NumPy-backed tensors do."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import undertow as torch
from undertow import nn, optim
from undertow._src.compile import CompileError


def stepped() -> tuple[nn.Module, optim.Optimizer, Callable[[Any], Any]]:
    """A model after two compiled steps, so that its state is where the program left it."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(torch.ones(4, 3))
    return model, optimizer, step


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    model, optimizer, step = stepped()
    assert type(model.weight._array).__name__ == "DeviceArray"  # or these tests would show nothing
    values = {"weight": np.array(model.weight._array), "grad": np.array(model.weight.grad._array)}
    step(torch.ones(4, 3))
    return values | {"next": model.weight.detach().numpy().copy()}


USES: dict[str, Callable[[Any], Any]] = {
    "repr": lambda w: repr(w) and w.detach().numpy(),
    "tolist": lambda w: np.array(w.tolist(), np.float32),
    "item": lambda w: np.array([[each.item() for each in row] for row in w], np.float32),
    "numpy": lambda w: w.detach().numpy(),
    "asarray": lambda w: np.asarray(w.detach()),
    "deepcopy": lambda w: copy.deepcopy(w).detach().numpy(),
    "copy": lambda w: copy.copy(w).detach().numpy(),
    "pickle": lambda w: pickle.loads(pickle.dumps(w)).detach().numpy(),
    "save": lambda w: _saved(w).detach().numpy(),
    "clone": lambda w: w.clone().detach().numpy(),
    "float64": lambda w: w.double().float().detach().numpy(),
    "view": lambda w: w.view(3, 2).view(2, 3).detach().numpy(),
    "index": lambda w: torch.stack([w[0], w[1]]).detach().numpy(),
    "storage": lambda w: np.array(w.untyped_storage().tolist(), np.uint8).view(np.float32).reshape(2, 3),
    "data": lambda w: w.data.numpy(),
    "dlpack": lambda w: np.from_dlpack(w.detach()),
    "iteration": lambda w: np.array([row.tolist() for row in w], np.float32),
    "format": lambda w: np.array([[float(f"{w[i, j].item():.9g}") for j in range(3)] for i in range(2)], np.float32),
    "as_tensor": lambda w: torch.as_tensor(w).detach().numpy(),
    "new": lambda w: (w.new_zeros(2, 3) + w.detach()).numpy(),
    "contiguous": lambda w: w.contiguous().detach().numpy(),
    "as_strided": lambda w: w.as_strided((2, 3), (3, 1)).detach().numpy(),
    "transposed": lambda w: w.t().t().detach().numpy(),
    "expanded": lambda w: w.expand(4, 2, 3)[0].detach().numpy(),
    "split": lambda w: torch.cat(list(w.split(1))).detach().numpy(),
    "sorted": lambda w: w.reshape(-1).sort()[0].detach().numpy(),
    "mask": lambda w: w[w > -100].detach().numpy(),
    "max": lambda w: w.max(dim=1)[0].detach().numpy(),
    "einsum": lambda w: torch.einsum("ij->ij", w).detach().numpy(),
    "cat": lambda w: torch.cat([w, w])[:2].detach().numpy(),
    "out": lambda w: torch.add(w.detach(), 0, out=torch.zeros(2, 3)).numpy(),
    "where": lambda w: torch.where(w > 0, w, w).detach().numpy(),
    "func": lambda w: torch.func.vmap(lambda row: row * 1)(w).detach().numpy(),
}


def _saved(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


@pytest.fixture(scope="module")
def ready() -> Any:
    return stepped()


@pytest.mark.parametrize("use", USES)
def test_use(use: str, expected: dict[str, np.ndarray]) -> None:
    """Each on a tensor of its own that holds what the program left."""
    import jax.numpy as jnp

    from undertow._src.arrays.device.array import DeviceArray

    weight = nn.Parameter(torch.zeros(2, 3))
    weight._array = DeviceArray(jnp.asarray(expected["weight"]))
    plain = nn.Parameter(torch.tensor(expected["weight"]))
    np.testing.assert_allclose(USES[use](weight), USES[use](plain), rtol=1e-6)
    assert weight.data_ptr() == weight.data_ptr()
    assert weight.stride() == (3, 1) and weight.is_contiguous() and weight.storage_offset() == 0


WRITES: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda w: w.detach().numpy().__setitem__(0, 5.0),
    "item": lambda w: w.data.__setitem__((0, 1), 5.0),
    "fill": lambda w: w.data.fill_(3.0),
    "zero": lambda w: w.data.zero_(),
    "add": lambda w: w.data.add_(1.0),
    "copy": lambda w: w.data.copy_(torch.ones(2, 3)),
    "view": lambda w: w.data.view(-1)[1:3].mul_(2.0),
    "mask": lambda w: w.data.masked_fill_(w.data > 0, 9.0),
    "random": lambda w: (torch.manual_seed(3), w.data.normal_()),
    "set_data": lambda w: setattr(w, "data", torch.full((2, 3), 7.0)),
    "init": lambda w: nn.init.constant_(w, 0.5),
    "storage": lambda w: w.data.untyped_storage().copy_(torch.ones(2, 3).untyped_storage()),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_between_steps_is_seen_by_the_next(write: str) -> None:
    model, optimizer, step = stepped()
    WRITES[write](model.weight)
    twin = copy.deepcopy(model)
    again = optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(torch.ones(4, 3))
    again.zero_grad()
    twin(torch.ones(4, 3)).pow(2).sum().backward()
    again.step()
    for a, b in zip(model.parameters(), twin.parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_state_dicts_round_trip() -> None:
    model, optimizer, step = stepped()
    kept = _saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    step(torch.ones(4, 3))
    after = model.weight.detach().numpy().copy()
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    step(torch.ones(4, 3))
    np.testing.assert_allclose(model.weight.detach().numpy(), after, rtol=1e-6)


def test_a_numpy_view_goes_on_showing_the_parameter() -> None:
    model, _, step = stepped()
    shown = model.weight.detach().numpy()
    before = shown.copy()
    step(torch.ones(4, 3))
    assert not np.array_equal(shown, before)
    np.testing.assert_array_equal(shown, model.weight.detach().numpy())


def test_memory_given_by_numpy_is_written_to() -> None:
    memory = np.ones((2, 3), np.float32)
    shared = torch.from_numpy(memory)

    @torch.compile
    def step(x: Any) -> None:
        x.mul_(2)

    step(shared)
    step(shared)
    np.testing.assert_array_equal(memory, np.full((2, 3), 4.0))


def test_results_of_calls_are_tensors_of_their_own() -> None:
    _, _, step = stepped()
    losses = [step(torch.full((4, 3), float(scale))) for scale in (1, 2, 3)]
    assert len({loss.item() for loss in losses}) == 3


def test_gradients_that_somebody_keeps_stay_as_they_were() -> None:
    model, _, step = stepped()
    kept, values = [], []
    for scale in (1.0, 2.0, 3.0):
        step(torch.full((4, 3), scale))
        kept.append(model.weight.grad)
        values.append(model.weight.grad.numpy().copy())
    for grad, value in zip(kept, values):
        np.testing.assert_array_equal(grad.numpy(), value)


def test_copies_of_state_survive_later_steps() -> None:
    model, optimizer, step = stepped()

    @torch.compile
    def look() -> Any:
        return model.weight.detach().clone(), optimizer.state[model.weight]["momentum_buffer"].clone()

    copies = look()
    step(torch.ones(4, 3))
    step(torch.ones(4, 3))
    assert all(np.isfinite(each.numpy()).all() for each in copies)
    assert not np.array_equal(copies[0].numpy(), model.weight.detach().numpy())


def test_an_exception_in_the_step_leaves_what_eager_mode_leaves() -> None:
    def left(compiled: bool) -> list[Any]:
        model, optimizer, _ = stepped()

        def step(x: Any, fail: bool) -> None:
            optimizer.zero_grad()
            (model(x) * torch.rand(2)).sum().backward()
            optimizer.step()
            if fail:
                raise KeyError("stop")

        call = torch.compile(step) if compiled else step
        with pytest.raises(KeyError, match="stop"):
            call(torch.ones(4, 3), True)
        assert type(optimizer.param_groups[0]["lr"]) is float
        found = [*map(torch.clone, model.state_dict().values()), torch.get_rng_state()]
        call(torch.ones(4, 3), False)
        return [*found, *model.state_dict().values(), torch.get_rng_state()]

    assert all(map(torch.allclose, left(True), left(False)))


def test_threads_take_turns() -> None:
    model, _, step = stepped()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                step(torch.ones(4, 3))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert np.isfinite(model.weight.detach().numpy()).all()


def test_eager_work_in_another_thread_while_a_step_is_traced() -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        x = torch.ones(3, requires_grad=True)
        while not stop.is_set():
            x.grad = None
            y = (x * 2).sum()
            x.register_hook(lambda g: g * 2).remove()
            y.backward()
            if x.grad.tolist() != [2.0, 2.0, 2.0]:
                wrong.append(x.grad)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        stepped()
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_partly_shared_memory_is_refused_when_written() -> None:
    memory = np.arange(6, dtype=np.float32)
    first, second = torch.from_numpy(memory[:4]), torch.from_numpy(memory[2:])

    @torch.compile
    def step(a: Any, b: Any) -> Any:
        a.add_(1)
        return b.sum()

    with pytest.raises(CompileError, match="shares memory"):
        step(first, second)
    np.testing.assert_array_equal(memory, np.arange(6))


def test_compiled_steps_are_freed() -> None:
    model, _, step = stepped()
    alive = weakref.ref(model)
    del model, step, _
    torch.compiler.reset()
    gc.collect()
    assert alive() is None


def test_a_trace_that_is_given_up_is_freed() -> None:
    def step() -> Any:
        product = torch.ones(3) * torch.rand(3)
        return product.unique()

    def traced() -> int:
        gc.collect()
        return sum(issubclass(type(each), jax.core.Tracer) for each in gc.get_objects())

    before = traced()
    with pytest.raises(CompileError):
        torch.compile(step)()
    assert traced() <= before


def test_a_global_with_the_name_of_an_attribute_is_not_the_step_s() -> None:
    """`norm = step()` beside `x.norm()` in the step: each call made another one of what the step was said to read."""
    names: dict[str, Any] = {"torch": torch, "norm": None}
    exec("def step(x):\n    return (x * 2).norm()\n", names)
    step = torch.compile(names["step"])
    for _ in range(3):
        names["norm"] = step(torch.ones(3))
    assert [len(programs) for programs in step.programs.values()] == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda given, y: given.append(y.detach()),
        lambda given, y: given.append(y.item()),
        lambda given, y: given.__setitem__(0, y),
        lambda given, y: given.clear(),
    ],
)
def test_a_list_among_the_arguments_is_not_changed_in_silence(change: Any) -> None:
    @torch.compile
    def step(x: Any, given: list[Any]) -> Any:
        y = x.sum()
        change(given, y)
        return y

    with pytest.raises(CompileError, match="a list among its arguments"):
        step(torch.ones(3), [1.0])


def test_a_copy_of_a_dict_among_the_arguments_may_be_changed() -> None:
    @torch.compile
    def step(batch: dict[str, Any]) -> Any:
        batch = dict(batch)
        return batch.pop("x").sum() * len(batch)

    batch = {"x": torch.ones(3), "y": torch.ones(2)}
    assert step(batch).item() == step(batch).item() == 3.0 and len(batch) == 2


def test_a_program_keeps_no_tensor_that_was_an_argument() -> None:
    weight = torch.ones(2, requires_grad=True)

    @torch.compile
    def step(x: torch.Tensor, batch: dict[str, Any]) -> float:
        (weight * x * batch["parts"][0]).sum().backward()
        return x.sum().item()

    x, y = torch.ones(2), torch.ones(2)
    seen = weakref.ref(x), weakref.ref(y)
    step(x, {"parts": [y, 2]})
    del x, y
    gc.collect()
    assert [each() for each in seen] == [None, None]
