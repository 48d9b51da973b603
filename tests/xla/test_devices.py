"""Tensors on a JAX device. `xla` is whatever JAX takes by default, so these run where there is no GPU."""

from __future__ import annotations

import copy
import gc
import io
import math
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.jax import deferred, eager_programs, fused_steps
from undertow._src.compile.program_inputs import ProgramInputs

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


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"maximize": True}, "NAdam": {}, "RAdam": {}, "Adamax": {}, "Adagrad": {"lr_decay": 0.1}, "Adadelta": {},
    "RMSprop": {"centered": True, "momentum": 0.5}, "Rprop": {}, "ASGD": {"t0": 2}, "Adafactor": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_there_as_on_the_cpu(name: str) -> None:
    def trained(device: torch.device) -> torch.Tensor:
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)).to(device)
        groups = [{"params": [*model[0].parameters()]}, {"params": [*model[1].parameters()], "lr": 0.02}]
        optimizer = getattr(torch.optim, name)(groups, lr=0.05, **OPTIMIZERS[name])
        for turn in range(7):
            optimizer.zero_grad()
            if turn:
                model(torch.ones(2, 4, device=device) * turn).pow(2).sum().backward()
            else:  # one parameter is a step behind the others
                model[0].weight.pow(2).sum().backward()
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.step()
        state = [value for each in optimizer.state.values() for value in each.values()]
        return torch.cat([each.detach().flatten().to(device) for each in (*model.parameters(), *state)])

    assert_same(trained)


def test_the_first_state_of_an_infinite_weight_is_zero() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, math.inf], device=XLA))
    optimizer = torch.optim.Adam([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert optimizer.state[weight]["exp_avg"].tolist() == pytest.approx([0.1, 0.1])


def test_a_step_with_another_learning_rate_is_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_steps, "_programs", {})
    layer = torch.nn.Linear(3, 2).to(XLA)
    optimizer = torch.optim.AdamW(layer.parameters())
    for turn in range(5):
        optimizer.param_groups[0]["lr"] = 0.1 / (turn + 1)
        layer(torch.ones(1, 3, device=XLA)).sum().backward()
        optimizer.step()
    [program] = fused_steps._programs.values()
    assert program.jitted._cache_size() == 1


def test_a_step_there_counts_writes_and_leaves_kept_values() -> None:
    weight = torch.nn.Parameter(torch.ones(3, device=XLA))
    optimizer = torch.optim.Adam([weight])
    kept, version = weight.detach().clone(), weight._version
    result = weight.pow(2).sum()
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert torch.equal(kept.cpu(), torch.ones(3)) and weight._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


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


def test_an_argument_apart_is_refused_by_a_compiled_step() -> None:
    def run() -> None:
        weight = torch.ones(2, device=XLA)
        apart = torch.compile(lambda x: x * weight)
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            apart(torch.ones(2))
        assert apart(torch.tensor(2.0)).tolist() == [2.0, 2.0]
        assert torch.compile(lambda at: weight[at] * 3)(torch.tensor([0, 1, 1])).tolist() == [3.0, 3.0, 3.0]
        assert torch.compile(lambda x: x.to(XLA) * weight)(torch.ones(2)).device == XLA

    run()
    gc.collect()


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


def test_a_compiled_step_reads_a_view_of_what_it_writes() -> None:
    def run(device):
        whole = torch.zeros(4, device=device)
        part = whole[:2]

        @torch.compile
        def step():
            total = part.sum()
            whole.add_(1)
            return total

        return torch.stack([*[step() for _ in range(3)], *part])

    assert_same(run)


def test_what_another_thread_makes_there_is_no_part_of_a_program() -> None:
    def run() -> None:
        stop = threading.Event()
        made: list[torch.Tensor] = []

        def work() -> None:
            while not stop.is_set():
                made.append(torch.ones(2, device=XLA) * 3)
                del made[:-20]

        thread = threading.Thread(target=work)
        thread.start()
        try:
            double = torch.compile(lambda x: x * 2)
            double(torch.ones(2, device=XLA))
        finally:
            stop.set()
            thread.join()
        ((program,),) = double.programs.values()
        assert program.summary.written == 1

    run()
    gc.collect()


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


# --- programs that have to give on a device what they give on the CPU: values, dtypes, gradients, and where they are


def draws(device):
    x = torch.ones(2, 4, device=device, requires_grad=True)
    dropped = [torch.nn.functional.dropout(x), torch.nn.functional.alpha_dropout(x, training=True)]
    random = [torch.nn.functional.rrelu(-x, training=True), torch.nn.functional.gumbel_softmax(x, hard=True)]
    sum(each.sum() for each in (*dropped, *random)).backward()
    chances = torch.full((3,), 0.5, device=device)
    filled = [torch.empty(4, device=device).uniform_(), torch.empty(3, 2, device=device).t().normal_()]
    own = torch.rand(2, device=device, generator=torch.Generator(device).manual_seed(1))
    assert own[:1].data_ptr() == own.data_ptr() != chances.data_ptr()
    drawn = [torch.bernoulli(chances), torch.multinomial(chances, 2), torch.randn_like(chances), torch.poisson(chances)]
    return (
        *dropped,
        *random,
        x.grad,
        *filled,
        *drawn,
        own,
        torch.rand(2, device=device),
        torch.randperm(3, device=device),
    )


def recurrent_layers(device):
    x = torch.randn(3, 2, 2).to(device).requires_grad_()
    layer = torch.nn.LSTM(2, 2).to(device)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 3]), enforce_sorted=False)
    y, lengths = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
    assert lengths.device.type == "cpu"
    y.sum().backward()
    return y, x.grad, layer.weight_hh_l0.grad, packed.sorted_indices


def indices_on_the_cpu(device):
    x = torch.arange(6.0, device=device).reshape(3, 2).requires_grad_()
    rows, mask = torch.tensor([0, 2]), torch.tensor([True, False, True])
    parts = [x[rows], x[mask], x[[1]], x[rows.to(device)], x[x > 1]]
    sum(part.sum() for part in parts).backward()
    y = x.detach().clone()
    y[rows] = 1.0
    y[mask, 0] = torch.tensor(7.0)
    y[y > 6] = 0
    y.index_put_((rows,), torch.ones(2, device=device), accumulate=True)
    return *parts, x.grad, y, y.nonzero(), y.isclose(y), torch.nn.functional.one_hot(rows.to(device))


def out_and_new_tensors(device):
    x, out = torch.arange(3.0, device=device), torch.empty(0, device=device)
    torch.exp(x, out=out)
    with torch.device(device):
        here = torch.zeros(2)
        assert torch.from_numpy(np.ones(2)).device.type == "cpu"
        assert torch.zeros_like(torch.ones(1, device="cpu")).device.type == "cpu"
    lazy = torch.nn.LazyLinear(2).to(device)
    torch.randn(3, out=(drawn := torch.empty(3, device=device)))
    grown = torch.ones(1, device=device).resize_(2)[:1]
    with torch.autocast("cpu", torch.bfloat16, enabled=device.type != "cpu"):  # not for tensors of this device
        product = x.view(1, 3) @ x
    made = torch.tril_indices(2, 2, device=device), torch.asarray([1.0], device=device)
    return out, here, drawn, grown, product, *made, lazy(x)


def a_graph_across_devices(device):
    x, number = torch.tensor([-1.0, 2.0], requires_grad=True), torch.tensor(2.0, requires_grad=True)
    there = torch.nn.functional.relu(x).to(device)
    back = torch.nn.functional.relu(there * number - 1).cpu()
    torch.nn.functional.relu(back * x).sum().backward()
    assert x.grad.device.type == number.grad.device.type == "cpu"
    return x.grad.to(device), number.grad.to(device)


def recorded_gradients(device):
    x = torch.tensor([0.5, 2.0], device=device, requires_grad=True)
    y = torch.where(x > 1, x * x, x).cumprod(0) * x[0] + torch.nn.functional.softmax(x, 0) * x.max()
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (first * first).sum().backward()
    return first, x.grad


def hooks_of_saved_values(device):
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.to(device)):
        y = x.exp() * x
    y.sum().backward()
    return x.grad


def files(device):
    layer, file = torch.nn.Linear(2, 2).to(device), io.BytesIO()
    torch.save({"state": layer.state_dict(), "x": torch.ones(2, device=device)}, file)
    loaded = []
    for where in (None, device, "cpu"):
        file.seek(0)
        loaded.append(torch.load(file, map_location=where))
    assert loaded[2]["x"].device.type == "cpu"
    copied, unpickled = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    return loaded[0]["state"]["weight"], loaded[1]["x"], copied.weight, unpickled.bias, loaded[0]["x"].numpy(force=True)


def deep_copies(device):
    whole, row = copy.deepcopy((lambda x: [x, x[0]])(torch.arange(6.0).reshape(2, 3).to(device)))
    row.add_(1)
    return whole, row, copy.deepcopy(torch.nn.BatchNorm1d(2).to(device)).running_mean


PROGRAMS = [
    draws, recurrent_layers, indices_on_the_cpu, out_and_new_tensors, a_graph_across_devices, recorded_gradients,
    hooks_of_saved_values, files, deep_copies,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_does_there_what_it_does_here(program) -> None:
    here, there = on_both(program)
    for expected, found in zip(*[each if isinstance(each, tuple) else (each,) for each in (here, there)], strict=True):
        if isinstance(found, torch.Tensor):
            assert found.device == XLA and found.requires_grad == expected.requires_grad
            expected, found = expected.detach(), found.detach().cpu()
        torch.testing.assert_close(found, expected)


def training(device):
    """Return what a training loop leaves, with hooks, a view of a parameter and a write in place."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3)).to(device)
    seen = []
    net[0].weight.register_hook(lambda g: seen.append(g) or g.clamp(-0.1, 0.1))
    net[2].bias.register_hook(lambda g: g * 0.5 + g.mul_(0.5))
    net[1].register_forward_hook(lambda module, args, out: seen.append(out.detach().square().mean()))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x, row = torch.randn(5, 4).to(device), net[0].weight[1]
    for step in range(6):
        optimizer.zero_grad()
        y = net(x)
        parts = y.split(1, 1)
        loss = (parts[0] * y * y + (y.t() @ y).sum() + parts[2]).mean()
        kept = loss.detach()
        loss.backward()
        optimizer.step()
        if step == 3:
            seen.append(row.clone())
            with torch.no_grad():
                net[0].weight.mul_(0.9)
                x[0] += kept
    del loss, y, parts
    return *seen, row, kept, *net.parameters(), *[p.grad for p in net.parameters()]


@pytest.mark.parametrize("many", [48, 5])
def test_calls_that_are_put_off_give_what_they_give_at_once(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for name, small in (("at once", 0), ("together", deferred.SMALL)):
        with monkeypatch.context() as patch:
            patch.setattr(deferred, "SMALL", small)
            patch.setattr(deferred, "MANY", many)
            eager_programs._formulas.clear()
            torch.manual_seed(0)
            found[name] = [each.detach().cpu().numpy() for each in training(XLA)]
    torch.manual_seed(0)
    for at_once, together, here in zip(*found.values(), training(torch.device("cpu")), strict=True):
        np.testing.assert_array_equal(together, at_once)  # to the last bit
        np.testing.assert_allclose(together, here.detach().numpy(), rtol=1e-4, atol=1e-6)
    gc.collect()  # hooks and what they keep


def test_a_training_step_there_is_one_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    sequence = deferred._sequence

    def noted(calls: Any, kept: Any) -> Any:
        ran.append(sequence(calls, kept))
        return ran[-1]

    monkeypatch.setattr(deferred, "_sequence", noted)
    layer, x = torch.nn.Linear(7, 7).to(XLA), torch.ones(2, 7, device=XLA)
    layer.weight.register_hook(lambda g: g.clamp(-1, 1))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(2):  # adds to gradients, where branches join and in `.grad`
            (layer(x) + layer(x.relu()).mul_(2)).square().mean().backward()
        optimizer.step()

    for _ in range(6):
        step()
    assert len(ran) >= 5 and ran[-1] is ran[-2] is not None
    del ran[:]
    step()
    assert len(ran) == 1


def test_an_error_of_a_call_that_was_put_off_is_raised_where_its_value_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.ones(3, device=XLA)
    for _ in range(2):
        y = (x * 3).exp()

    def fail(*_: object) -> None:
        raise MemoryError("the device is full")

    with monkeypatch.context() as patch:
        patch.setattr(deferred, "_run_each", fail)
        patch.setattr(deferred, "_together", lambda steps, kept: fail)
        with pytest.raises(MemoryError):
            y.sum().item()
    with pytest.raises(MemoryError):
        y.tolist()
    assert (x * 3).tolist() == [3, 3, 3]
    del y
    gc.collect()  # the error


def test_an_error_of_a_call_that_was_put_off_is_raised_only_by_what_depends_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.arange(3.0, device=XLA)
    for _ in range(2):
        ((x * 2 + 1).cos(), x.sin())

    def fail(*_: object) -> None:
        raise MemoryError("the device is full")

    deferred.run()
    twice = x * 2
    failed = twice + 1
    with monkeypatch.context() as patch:
        patch.setattr(deferred._queue.calls[-1].callee, "jitted", fail)
        patch.setattr(deferred, "_together", lambda steps, kept: fail)
        after, independent = failed.cos(), x.sin()
        assert len(deferred._queue.calls) == 4
        torch.testing.assert_close(independent.cpu(), torch.arange(3.0).sin())
    assert twice.tolist() == [0, 2, 4]
    depths = []
    for each in (failed, failed, failed, after):
        with pytest.raises(MemoryError, match="the device is full") as caught:
            each.tolist()
        depths.append(len(caught.traceback))
    assert len({*depths}) == 1
    failed.zero_()
    assert failed.tolist() == [0, 0, 0]
    del failed, after, each, caught
    gc.collect()  # the errors


def test_a_step_runs_after_a_call_that_another_thread_has_put_off_and_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p = torch.nn.Parameter(torch.ones(3, device=XLA))
    eager = torch.optim.SGD([torch.nn.Parameter(torch.ones(3, device=XLA))], 0.5)
    x = torch.ones(3, device=XLA)

    @torch.compile
    def step() -> None:
        with torch.no_grad():
            p.mul_(2)

    def step_eagerly() -> None:
        eager.param_groups[0]["params"][0].grad = x
        eager.step()

    for _ in range(3):
        step()
        step_eagerly()
        x * 7 - 1
    deferred.run()
    found: list[Any] = []

    def work() -> None:
        y = x * 7
        deferred._queue.calls[-1].callee.jitted = fail
        found.append(y)

    def fail(*_: object) -> None:
        raise RuntimeError("deleted")

    x * 7
    callee = deferred._queue.calls[-1].callee
    deferred.run()
    monkeypatch.setattr(callee, "jitted", callee.jitted)
    monkeypatch.setattr(deferred, "_together", lambda steps, kept: fail)
    for run in (step, step_eagerly):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(deferred._queue.calls) == 1
        run()
        with pytest.raises(RuntimeError, match="deleted"):
            found[-1].cpu()
    assert p.tolist() == [16, 16, 16]
    assert eager.param_groups[0]["params"][0].tolist() == [-1, -1, -1]
    found.clear()
    del step, run
    gc.collect()  # the step


def test_a_step_overwrites_nothing_that_a_call_that_was_put_off_has_yet_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gather, found = ProgramInputs.gather, list[Any]()

    def values() -> list[list[float]]:
        p = torch.nn.Parameter(torch.ones(3, device=XLA))

        @torch.compile
        def step() -> None:
            with torch.no_grad():
                p.mul_(2)

        def gather_late(*args: Any) -> Any:
            values = gather(*args)
            found.append(p.detach() * 7)  # as another thread may
            return values

        for _ in range(3):
            step()
            p.detach() * 7
        with monkeypatch.context() as patch:
            patch.setattr(ProgramInputs, "gather", gather_late)
            step()
        return [p.tolist(), found.pop().tolist()]

    assert values() == [[16, 16, 16], [56, 56, 56]]
    gc.collect()  # the step


def test_threads_share_what_is_put_off() -> None:
    x = torch.linspace(0, 1, 8, device=XLA)
    y = (x * 2).sin()
    expected, found = y.tolist(), []

    def work() -> None:
        for _ in range(50):
            found.append((x * 2).sin())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each.tolist() == expected for each in found)
    found.clear()


def test_what_is_refused_there() -> None:
    x = torch.ones(3, 2, device=XLA)
    refused = [
        (IndexError, "index 3 is out of bounds for dimension 0 with size 3", lambda: x[torch.tensor([3])]),
        (RuntimeError, "indices should be either on cpu or on the same device", lambda: torch.ones(3)[x[:, 0].long()]),
        (RuntimeError, "The size of tensor a", lambda: x + torch.ones(2, 3, device=XLA)),
        (RuntimeError, "Expected all tensors to be on the same device", lambda: torch.nn.Linear(2, 2)(x)),
    ]
    for error, words, program in refused:
        with pytest.raises(error, match=words):
            program()


@pytest.fixture
def compiles() -> Iterator[list[str]]:
    """The programs that XLA compiles, as they are compiled."""
    import jax

    seen: list[str] = []

    def note(event: str, *_: object, **__: object) -> None:
        if "backend_compile" in event:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield seen
    jax.monitoring.unregister_event_duration_listener(note)


def test_a_rule_and_a_node_are_one_program_each(compiles: list[str]) -> None:
    x, w, b = (torch.rand(*shape, device="xla").requires_grad_() for shape in ((5, 11), (13, 11), (13,)))

    def loss() -> torch.Tensor:
        return torch.nn.functional.gelu(torch.addmm(b, x, w.t().contiguous())).sum()

    first = loss()
    compiles.clear()
    first.backward()  # a seed, and nodes of the sum, gelu, addmm, clone and t
    assert 0 < len(compiles) <= 6
    compiles.clear()
    loss().backward()  # adds to three gradients
    assert len(compiles) <= 3


def test_a_step_there_reads_no_values_back(monkeypatch: pytest.MonkeyPatch) -> None:
    net = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 5)).to(XLA)
    words, labels = torch.tensor([1, 6, 3], device=XLA), torch.tensor([[4, 0, 2]]).to(XLA)
    with monkeypatch.context() as patch:
        patch.setattr(DeviceArray, "numpy", lambda array: pytest.fail("a check of labels waits for the device"))
        torch.nn.functional.cross_entropy(net(words), labels[0]).backward()
    assert net[1].weight.grad.device == XLA


def test_labels_that_were_in_range_are_checked_again_once_written() -> None:
    labels, scores = torch.tensor([4, 0, 2]).to(XLA), torch.zeros(3, 5, device=XLA)
    torch.nn.functional.cross_entropy(scores, labels)
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        torch.nn.functional.cross_entropy(scores[:, :4], labels)
    labels[1] = 9
    with pytest.raises(IndexError, match="Target 9 is out of bounds"):
        torch.nn.functional.cross_entropy(scores, labels)
    labels.copy_(torch.tensor([0, -1, 1]))
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        torch.nn.functional.cross_entropy(scores, labels)


def test_the_type_of_a_tensor_names_its_device() -> None:
    x = torch.ones(2, device="xla", dtype=torch.float64)
    assert x.type() == "torch.xla.DoubleTensor"
    as_x, back = torch.arange(2).type_as(x), x.type_as(torch.arange(2))
    assert (str(as_x.device), as_x.dtype, str(back.device), back.dtype) == ("xla", torch.float64, "cpu", torch.int64)


def test_a_hook_may_not_answer_with_a_gradient_on_another_device() -> None:
    x = torch.ones(2, device="xla", requires_grad=True)
    x.register_hook(lambda gradient: gradient.cpu())
    with pytest.raises(
        RuntimeError, match=r"has changed the type of value \(was torch.xla.FloatTensor got torch.Float"
    ):
        (x * 2).sum().backward()


BATCHED = {
    "product": lambda x: x @ x.T,
    "classes": lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 2], device=x.device), reduction="none"),
    "maxima": lambda x: x.max(1).values,
    "deviations": lambda x: x.std(1),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", BATCHED)
def test_a_backward_pass_for_many_gradients_ends(name: str, create_graph: bool) -> None:
    def gradients(device):
        x = torch.arange(6.0, device=device).sin().reshape(2, 3).requires_grad_()
        out = BATCHED[name](x)
        many = torch.stack([torch.ones_like(out), 2 * torch.ones_like(out)])
        return torch.autograd.grad(out, x, many, is_grads_batched=True, create_graph=create_graph)[0].detach()

    assert_same(gradients)
    assert_same(lambda device: torch.func.jacrev(BATCHED[name])(torch.arange(6.0, device=device).sin().reshape(2, 3)))
