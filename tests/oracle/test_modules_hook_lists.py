"""Hooks of modules: when their lists are read, what happens when they change meanwhile, and the old backward hooks."""

from __future__ import annotations

from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt
from tests.oracle.test_modules_hooks import ask, layer

cases = Table()


# --- when the lists are read


@cases
def lists_read_at_forward(torch, log):
    module, x = layer(torch), ask(torch)
    first = module.register_full_backward_hook(lambda m, gi, go: log("first"))
    out = module(x)
    first.remove()
    module.register_full_backward_hook(lambda m, gi, go: log("late"))
    out.sum().backward()
    module(x).sum().backward()


@cases
def hooks_that_change_the_lists(torch, log):
    module, x = layer(torch), ask(torch)

    def add_and_remove(m: Any, *_: Any) -> None:
        log("adds")
        handle.remove()
        m.register_full_backward_hook(lambda m, gi, go: log("added backward"))

    handle = module.register_full_backward_hook(add_and_remove)
    module(x).sum().backward()
    module(x).sum().backward()


@cases
def backward_hooks_added_in_forward(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_forward_pre_hook(
        lambda m, args: (
            None if m._backward_hooks else log(m.register_full_backward_hook(lambda *_: log("hook")) is None)
        )
    )
    module(x).sum().backward()
    log("second")
    module(x).sum().backward()


@cases
def tools_edit_the_maps(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_forward_hook(lambda m, args, out: log("a"))
    module.register_forward_hook(lambda m, args, out: log("b"))
    log(type(module._forward_hooks).__name__, len(module._forward_hooks))
    module._forward_hooks.popitem()
    module._forward_hooks[1000] = lambda m, args, out: log("put")
    module(x)
    module._forward_hooks.clear()
    module._backward_hooks[2000] = lambda m, gi, go: log("backward put")
    module(x).sum().backward()
    module._is_full_backward_hook = True
    module(x).sum().backward()


# --- the old kind


@cases
def old_backward_hooks(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_backward_hook(lambda m, gi, go: log("old", m is module, [g is None for g in gi], go))
    module(x).sum().backward()
    tanh = torch.nn.Tanh()
    tanh.register_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    y = ask(torch)
    tanh(y).sum().backward()
    log(y.grad)


@cases
def old_and_full_do_not_mix(torch, log):
    module = layer(torch)
    module.register_backward_hook(lambda *_: None)
    attempt(log, "full", lambda: module.register_full_backward_hook(lambda *_: None))
    other = layer(torch)
    other.register_full_backward_hook(lambda *_: None)
    attempt(log, "old", lambda: other.register_backward_hook(lambda *_: None))


@cases
def old_hooks_warn(torch, log):
    class Gives(torch.nn.Module):
        def __init__(self, make: Any) -> None:
            super().__init__()
            self.make = make

        def forward(self, *args: Any) -> Any:
            return self.make(*args)

    x = ask(torch)
    for make, args in (
        (lambda x: {"a": x * 2}, (x,)), (lambda x: [x * 2], (x,)), (lambda x, n: x * n, (x, 2)),
        (lambda x: (x * 2, x * 3), (x,)), (lambda x: x * 2 + 1, (x,)), (lambda x: (x * 2, 3), (x,)),
    ):  # fmt: skip
        module = Gives(make)
        module.register_backward_hook(lambda m, gi, go: log("old", gi, go))
        out = module(*args)
        first = out["a"] if isinstance(out, dict) else out if isinstance(out, torch.Tensor) else out[0]
        first.sum().backward()


@cases.test
def test_lists_of_module_hooks(program: Any) -> None:
    agree(program, warns=True, raises=False)
