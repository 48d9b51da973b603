"""XLA may still be at work when a call returns, or several threads may call. Nobody notices, except by the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as ut


def slow(x: ut.Tensor) -> ut.Tensor:
    """Takes a while, and reads `x` at the end."""
    y = ut.ones(100, 100)
    for _ in range(10):
        y = (y @ y) * 1e-3
    return (y * 0).sum() + x.sum()


def aligned(values: np.ndarray) -> np.ndarray:
    """The same values where JAX would not copy them."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def test_a_program_is_given_copies_of_numpys_memory() -> None:
    memories = [aligned(np.ones(1000, np.float32)) for _ in range(2)]
    x, held = map(ut.from_numpy, memories)
    step = ut.compile(lambda x: x.sum() + held.sum())
    step(x)
    ((program,),) = step.programs.values()
    given: list[Any] = []
    jitted = program.jitted

    def watched(*values: Any) -> Any:
        given.extend(values)
        return jitted(*values)

    program.jitted = watched
    step(x)
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    assert arrays and not any(np.shares_memory(array, memory) for array in arrays for memory in memories)


def test_an_argument_may_be_written_to_after_the_call() -> None:
    memory = aligned(np.ones(1000, np.float32))
    x = ut.from_numpy(memory)
    step = ut.compile(slow)
    step(x)
    for value in range(2, 12):
        memory[...] = value
        result = step(x)
        memory[...] = -1
        assert result.item() == 1000 * value


def test_a_tensor_that_the_step_reads_may_be_written_to_after_the_call() -> None:
    memory = aligned(np.ones(1000, np.float32))
    x = ut.from_numpy(memory)
    step = ut.compile(lambda: slow(x))
    step()
    for value in range(2, 12):
        memory[...] = value
        result = step()
        memory[...] = -1
        assert result.item() == 1000 * value


def test_a_parameter_that_is_looked_at_may_be_written_to_after_the_call() -> None:
    weight = ut.nn.Parameter(ut.ones(1000))
    optimizer = ut.optim.SGD([weight], lr=1.0)

    @ut.compile
    def step() -> ut.Tensor:
        optimizer.zero_grad()
        loss = slow(weight)
        loss.backward()
        optimizer.step()
        return loss

    step()
    looked_at = weight.detach().numpy()
    for value in range(2, 12):
        looked_at[...] = value
        loss = step()
        assert looked_at[0] == value - 1
        looked_at[...] = -1
        assert loss.item() == 1000 * value


@pytest.mark.parametrize(
    "read",
    [
        lambda device, host: device[host],
        lambda device, host: device.clone().copy_(host),
        lambda device, host: device + host.sum().to("xla"),
    ],
)
def test_what_an_eager_op_on_a_device_reads_may_be_written_to_after_it(
    read: Callable[[ut.Tensor, ut.Tensor], ut.Tensor],
) -> None:
    x = ut.arange(1000).to("xla")
    memory = aligned(np.arange(1000))
    index = ut.from_numpy(memory)
    expected = read(x, index).tolist()
    for _ in range(20):
        slow(ut.ones(1000).to("xla"))
        result = read(x, index)
        memory[...] = 0
        assert result.tolist() == expected
        memory[...] = np.arange(1000)


def test_a_thread_that_computes_while_another_one_compiles() -> None:
    """What it reads is what it is: stand-ins are not seen, the thread waits until they are gone."""
    model, x = ut.nn.Sequential(*[ut.nn.Linear(3, 3) for _ in range(20)]), ut.ones(2, 3)
    with ut.no_grad():
        expected = model(x)
    stop, wrong = threading.Event(), list[Any]()

    def compute() -> None:
        while not stop.is_set():
            try:
                with ut.no_grad():
                    if not ut.equal(model(x), expected):
                        wrong.append("values")
            except Exception as error:
                wrong.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        ut.compile(lambda x: model(x).sum())(x).backward()
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_calls_from_several_threads_are_in_order() -> None:
    weight = ut.nn.Parameter(ut.zeros(1000))

    @ut.compile
    def step(x: ut.Tensor) -> ut.Tensor:
        with ut.no_grad():
            weight.add_(x)
        return slow(weight)

    def work() -> None:
        for _ in range(25):
            step(ut.ones(1000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert weight.tolist() == [100.0] * 1000


def test_a_hook_that_a_program_waits_for_may_call_another_compiled_step() -> None:
    length = ut.compile(lambda gradient: gradient.norm())
    weights = [ut.ones(300, 300, requires_grad=True) for _ in range(12)]  # so many that XLA takes a thread of its own
    lengths: list[float] = []

    def shortened(gradient: ut.Tensor) -> ut.Tensor:
        lengths.append(length(gradient).item())
        return gradient / lengths[-1]

    weights[0].register_hook(shortened)

    @ut.compile
    def step() -> None:
        for weight in weights:
            weight.grad = None
        y = weights[0]
        for weight in weights:
            y = (y @ weight / 300).sin()
        y.sum().backward()

    for _ in range(5):
        step()
    assert weights[0].grad is not None and weights[0].grad.norm().item() == pytest.approx(1)
    assert len(lengths) == 5
