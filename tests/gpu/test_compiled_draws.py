"""Compiled steps that draw on a GPU: the program computes the numbers from a seed and an offset, its only input."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.gpu.pretend import pretended_gpu
from undertow._src.compile.tracing.host_inputs import Draw, Reservation
from undertow._src.random.cuda_stream import CudaStream

F, nn = torch.nn.functional, torch.nn


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with pretended_gpu():
        yield


Body = Callable[[Any, Any], Any]


def trained(body: Body, compiled: bool) -> tuple[list[float], Any, Any]:
    """Return the losses of a few steps, and the states of both generators afterwards."""
    result = _trained(body, compiled)
    gc.collect()  # while tensors live on a device, every op takes its general path
    return result


def _trained(body: Body, compiled: bool) -> tuple[list[float], Any, Any]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 4)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.rand(6, 8, device="cuda")

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = body(model, x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step) if compiled else step
    return [run(x).item() for _ in range(3)], torch.cuda.get_rng_state(), torch.get_rng_state()


def noise(model: Any, x: Any) -> Any:
    return model(x + torch.randn_like(x)) * torch.rand(4, device="cuda")


def seeded(model: Any, x: Any) -> Any:
    torch.manual_seed(7)
    return model(x + torch.randn_like(x))


def drawn_again(model: Any, x: Any) -> Any:
    state = torch.cuda.get_rng_state()
    y = model(x)
    torch.cuda.set_rng_state(state)
    return y + model(x) + torch.rand(6, 4, device="cuda")


def on_both_devices(model: Any, x: Any) -> Any:
    return model(x) + torch.rand(6, 4).to("cuda") + torch.rand(6, 4, device="cuda") + torch.rand(6, 4).to("cuda")


def checkpointed(model: Any, x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)


def of_many_kinds(model: Any, x: Any) -> Any:
    y = model(x)
    chances = y.detach().softmax(1)
    y = y * torch.multinomial(chances, 4) + torch.randperm(4, device="cuda") + torch.bernoulli(chances)
    y = y + torch.normal(chances, 1.5) + torch.randint(0, 9, (6, 4), device="cuda")
    return y + torch.multinomial(chances, 4, True) + F.rrelu(y, training=True) + F.alpha_dropout(y, 0.2, True)


def with_host_draws(model: Any, x: Any) -> Any:
    y = model(x)
    return y + torch.poisson(y.detach().abs()) + torch.rand(6, 4, device="cuda")


@pytest.mark.parametrize(
    "body", [noise, seeded, drawn_again, on_both_devices, checkpointed, of_many_kinds, with_host_draws]
)
def test_a_compiled_step_draws_what_eager_mode_draws(body: Body) -> None:
    eager, compiled = trained(body, False), trained(body, True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-5)
    assert torch.equal(compiled[1], eager[1]) and torch.equal(compiled[2], eager[2])


def test_a_generator_of_the_steps_own() -> None:
    def run(compiled: bool) -> Any:
        generator = torch.Generator("cuda").manual_seed(5)
        x = torch.zeros(10, device="cuda")
        step = lambda x: x + torch.rand(10, device="cuda", generator=generator)
        step = torch.compile(step) if compiled else step
        return torch.stack([step(x) for _ in range(3)]).cpu(), generator.get_offset()

    eager, compiled = run(False), run(True)
    gc.collect()
    assert torch.equal(eager[0], compiled[0]) and eager[1] == compiled[1] == 12


def test_no_numbers_travel_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws of a step take one input of 16 bytes."""
    inputs: list[np.ndarray] = []
    again = Reservation.again

    def noted(self: Reservation, drawn: list[Any]) -> Any:
        inputs.append(again(self, drawn))
        return inputs[-1]

    monkeypatch.setattr(Draw, "again", lambda self, drawn: pytest.fail("a draw on the host"))
    monkeypatch.setattr(CudaStream, "_draw", _only_traced(CudaStream._draw))
    x = torch.ones(1000, device="cuda")
    step = torch.compile(lambda x: F.dropout(x) + torch.randn(1000, device="cuda") + torch.rand_like(x))
    torch.manual_seed(1)
    step(x)
    monkeypatch.setattr(Reservation, "again", noted)  # now: compiling a step refuses other code's unread effects
    step(x)
    assert [(each.dtype, each.tolist()) for each in inputs] == [(np.uint64, [1, 12])]
    assert torch.cuda.get_rng_state()[8] == 24


def _only_traced(draw: Any) -> Any:
    def checked(self: CudaStream, *args: Any, **kwargs: Any) -> Any:
        assert type(self) is not CudaStream, "an eager draw"
        return draw(self, *args, **kwargs)

    return checked


def test_a_report_counts_the_draws() -> None:
    x = torch.ones(1000, device="cuda")
    step = torch.compile(lambda x: F.dropout(x) + torch.randn(1000, device="cuda"))
    step(x)
    assert "2 random draws" in str(torch.compiler.explain(step))
