"""Tensors on a JAX device. `xla` is whatever JAX takes by default, so these run where there is no GPU."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import undertow as torch

XLA = torch.device("xla")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def on_both(function):
    """A function's results on the CPU, and those on the device brought back."""
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        results.append(function(torch.device(device)))
    gc.collect()  # compiled steps: while tensors live on a device, ops look where they are
    return results


def assert_same(function) -> None:
    here, there = on_both(function)
    assert here.device.type == "cpu" and there.device == XLA
    torch.testing.assert_close(there.cpu(), here)


def test_a_tensor_goes_there_and_back() -> None:
    x = torch.randn(3, 4)
    there = x.to("xla")
    assert there.device == XLA and not there.is_cpu and not there.is_cuda
    assert torch.equal(there.cpu(), x)
    assert there.to("xla") is there
    assert there.to("cpu", torch.float64).dtype is torch.float64


def test_a_tensor_there_does_not_see_later_writes_to_the_memory_that_it_came_from() -> None:
    memory = np.zeros(1024 * 4 + 64, np.uint8)  # JAX shares memory that begins at a multiple of 64
    start = -memory.ctypes.data % 64
    x = torch.from_numpy(memory[start : start + 4096].view(np.float32))
    there, filled = x.to("xla"), torch.ones(1024).to("xla")
    filled.copy_(x)
    x.add_(1)
    found = there.sum().item(), filled.sum().item()
    del there, filled
    gc.collect()
    assert found == (0, 0)


def test_factories_make_tensors_there() -> None:
    assert torch.zeros(2, device=XLA).device == XLA
    assert torch.arange(3, device="xla").tolist() == [0, 1, 2]
    x = torch.tensor([1.0, 2.0], device=XLA, requires_grad=True)
    assert x.is_leaf and torch.ones_like(x).device == XLA and x.new_zeros(3).device == XLA


def test_gradients_flow_back_across_devices() -> None:
    x = torch.randn(3, requires_grad=True)
    (x.to("xla") * 2).sum().backward()
    assert x.grad is not None and x.grad.device.type == "cpu" and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_layer_and_its_gradient() -> None:
    def run(device):
        layer = torch.nn.Linear(4, 3).to(device)
        x = torch.randn(5, 4).to(device)
        layer(x).tanh().sum().backward()
        return layer.weight.grad

    assert_same(run)


def test_an_optimizer_step() -> None:
    def run(device):
        layer = torch.nn.Linear(4, 3).to(device)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(2, 4, device=device)).pow(2).sum().backward()
            optimizer.step()
        return layer.weight.detach()

    assert_same(run)


def test_writes_and_views() -> None:
    def run(device):
        x = torch.zeros(3, 4, device=device)
        x[0] = 1
        x.t()[1].add_(2)
        x[:, 2:].mul_(0).add_(torch.arange(3.0, device=device)[:, None])
        return x

    assert_same(run)


def test_tensors_apart_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device=XLA) + torch.ones(2)
    assert (torch.ones(2, device=XLA) + torch.tensor(1.0)).tolist() == [2.0, 2.0]


def test_numpy_needs_a_copy() -> None:
    with pytest.raises(TypeError, match="can't convert xla device type tensor to numpy"):
        torch.ones(2, device=XLA).numpy()


def test_printing_says_where() -> None:
    assert repr(torch.ones(2, device=XLA)) == "tensor([1., 1.], device='xla')"


def test_a_compiled_step_runs_there() -> None:
    def run(device):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        compiled = torch.compile(step)
        for _ in range(3):
            loss = compiled(torch.randn(6, 4).to(device))
        assert loss.device.type == device.type
        return model[0].weight.detach()

    assert_same(run)


def test_what_a_compiled_step_makes_on_the_cpu_stays_there():
    def train():
        model = torch.nn.Linear(4, 3).to(XLA)
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.ones(2, 4).to(XLA)

        @torch.compile
        def step():
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        for count in (1, 2, 3):
            step()
            state = optimizer.state[model.weight]
            assert state["step"].device.type == "cpu" and state["step"].item() == count
            assert state["exp_avg"].device == XLA

    train()
    gc.collect()  # while tensors live on a device, ops look where they are
