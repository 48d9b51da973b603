"""register_parameters_ready_hook: fires once a pass has brought all parameters of a module their gradients."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import undertow as torch

nn = torch.nn


def model() -> Any:
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def watch(module: Any) -> tuple[list[Any], Any]:
    log: list[Any] = []
    return log, module.register_parameters_ready_hook(
        lambda m: log.append([p.grad is not None for p in m.parameters()])
    )


def run(module: Any) -> None:
    module(torch.ones(1, 2)).sum().backward()


def test_fires_once_when_all_have_arrived() -> None:
    module = model()
    log, _ = watch(module)
    run(module)
    assert log == [[True] * 4]
    run(module)
    assert len(log) == 2


def test_layers_are_ready_from_the_last_to_the_first() -> None:
    module, order = model(), []
    for name, layer in module.named_children():
        layer.register_parameters_ready_hook(lambda m, name=name: order.append(name))
    run(module)
    assert order == ["2", "0"]  # Tanh has no parameters


def test_gradients_are_complete() -> None:
    """Also where a parameter is used several times, and after accumulation."""
    layer = nn.Linear(2, 2)
    seen: list[Any] = []
    layer.register_parameters_ready_hook(lambda m: seen.append(m.weight.grad.tolist()))
    layer(layer(torch.ones(1, 2))).sum().backward()
    assert seen == [layer.weight.grad.tolist()]
    run(layer)
    assert seen[1] == layer.weight.grad.tolist()


def test_what_the_pass_does_not_reach_is_not_waited_for() -> None:
    module = model()
    module[0].requires_grad_(False)
    log, _ = watch(module)
    run(module)
    assert log == [[False, False, True, True]]
    module[0].requires_grad_(True)
    module.zero_grad()
    run(module)
    assert log[1] == [True] * 4
    module.zero_grad()
    module(torch.ones(1, 2)).sum().backward(inputs=[module[2].bias])
    assert log[2] == [False, False, False, True]


def test_functional_gradients_do_not_fire_it() -> None:
    module = model()
    log, _ = watch(module)
    torch.autograd.grad(module(torch.ones(1, 2)).sum(), list(module.parameters()))
    assert log == []


def test_tied_parameters_count_once() -> None:
    module = model()
    module.again = module[0]
    log, _ = watch(module)
    run(nn.Sequential(module[0], module[1], module[2]))
    assert log == [[True] * 4]


def test_the_handle_takes_it_off() -> None:
    module = model()
    log, handle = watch(module)
    with handle:
        run(module)
    run(module)
    assert len(log) == 1
    assert not module._parameters_ready_hooks
    assert all(not parameter._post_accumulate_grad_hooks for parameter in module.parameters())


def test_copies_have_it_too() -> None:
    module = model()
    log, handle = watch(module)
    twin = copy.deepcopy(module)
    handle.remove()
    run(twin)
    assert len(log) == 1
    run(module)
    assert len(log) == 1


def test_a_hook_that_raises_leaves_no_trace() -> None:
    module, fail = model(), [True]

    def hook(m: Any) -> None:
        if fail.pop():
            raise ValueError("not yet")

    module.register_parameters_ready_hook(hook)
    try:
        run(module)
    except ValueError:
        fail.append(False)
    run(module)
    assert fail == []


def test_several_threads() -> None:
    module = model()
    log, _ = watch(module)
    threads = [threading.Thread(target=run, args=(module,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log) == 6


def test_it_does_not_keep_the_module_alive() -> None:
    module = model()
    watch(module)
    alive = weakref.ref(module)
    del module
    gc.collect()
    assert alive() is None
