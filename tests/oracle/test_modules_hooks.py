"""Forward and backward hooks of modules: order, arguments, results, flags."""

from __future__ import annotations

from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def layer(torch: Any) -> Any:
    """A linear layer with round numbers."""
    made = torch.nn.Linear(2, 2)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, -1.0]]))
        made.bias.copy_(torch.tensor([0.5, -0.5]))
    return made


def ask(torch: Any) -> Any:
    return torch.tensor([[1.0, 2.0]], requires_grad=True)


class Everything:
    """Registers one hook of each kind on a module and globally, each logging its name and arguments."""

    def __init__(self, torch: Any, log: Any, module: Any, only: str = "") -> None:
        space = torch.nn.modules.module
        self.handles = [
            space.register_module_forward_pre_hook(lambda m, args: log("global pre", args)),
            space.register_module_forward_hook(lambda m, args, out: log("global forward", args, out)),
            space.register_module_full_backward_pre_hook(lambda m, go: log("global backward pre", go)),
            space.register_module_full_backward_hook(lambda m, gi, go: log("global backward", gi, go)),
            module.register_forward_pre_hook(lambda m, args: log("pre", m is module, args)),
            module.register_forward_hook(lambda m, args, out: log("forward", m is module, args, out)),
            module.register_full_backward_pre_hook(lambda m, go: log("backward pre", m is module, go)),
            module.register_full_backward_hook(lambda m, gi, go: log("backward", m is module, gi, go)),
        ]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        for handle in self.handles:
            handle.remove()


# --- order


@cases
def all_kinds_on_one_module(torch, log):
    module, x = layer(torch), ask(torch)
    with Everything(torch, log, module):
        module(x).sum().backward()
    log(x.grad, module.weight.grad)
    module(x).sum().backward()


@cases
def all_kinds_in_a_nest(torch, log):
    inner = layer(torch)
    outer = torch.nn.Sequential(inner, torch.nn.Tanh(), layer(torch))
    x = ask(torch)
    for name, module in (("outer", outer), ("inner", inner), ("last", outer[2])):
        module.register_forward_pre_hook(lambda m, args, name=name: log(name, "pre", args))
        module.register_forward_hook(lambda m, args, out, name=name: log(name, "forward", out))
        module.register_full_backward_pre_hook(lambda m, go, name=name: log(name, "backward pre", go))
        module.register_full_backward_hook(lambda m, gi, go, name=name: log(name, "backward", gi, go))
    for name, parameter in outer.named_parameters():
        parameter.register_hook(lambda g, name=name: log(name, "grad", g))
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: log(name, "accumulated", p.grad))
    x.register_hook(lambda g: log("x", g))
    out = outer(x)
    out.register_hook(lambda g: log("out", g))
    out.sum().backward()


@cases
def prepended(torch, log):
    module, x = layer(torch), ask(torch)
    for name, first in (("a", False), ("b", True), ("c", False), ("d", True)):
        module.register_forward_pre_hook(lambda m, args, name=name: log("pre", name), prepend=first)
        module.register_forward_hook(lambda m, args, out, name=name: log("forward", name), prepend=first)
        module.register_full_backward_pre_hook(lambda m, go, name=name: log("backward pre", name), prepend=first)
        module.register_full_backward_hook(lambda m, gi, go, name=name: log("backward", name), prepend=first)
    module(x).sum().backward()


@cases
def module_hooks_between_tensor_and_node_hooks(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_full_backward_pre_hook(lambda m, go: log("module pre", go))
    module.register_full_backward_hook(lambda m, gi, go: log("module", gi, go))
    out = module(x)
    out.retain_grad()
    out.register_hook(lambda g: log("tensor", g))
    out.grad_fn.register_prehook(lambda g: log("node pre", g))
    out.grad_fn.register_hook(lambda gi, go: log("node post", gi, go))
    out.sum().backward()
    log(out.grad, out.grad_fn.name(), out.grad_fn.next_functions[0][0].name())


# --- what a result does


@cases
def replaced_arguments_and_outputs(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)  # not a tuple: made one
    module.register_forward_pre_hook(lambda m, args: log("sees", args))
    module.register_forward_hook(lambda m, args, out: out * 3)
    module.register_forward_hook(lambda m, args, out: log("sees", args, out))
    module.register_forward_hook(lambda m, args, out: [out, "second"])
    log(module(x))


@cases
def replaced_gradients(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    module.register_full_backward_pre_hook(lambda m, go: log("pre sees", go))
    module.register_full_backward_pre_hook(lambda m, go: [go[0] + 1])
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    module.register_full_backward_hook(lambda m, gi, go: log("sees", gi, go))
    module(x).sum().backward()
    log(x.grad, module.weight.grad, module.bias.grad)


@cases
def refused_results(torch, log):
    wrong = {
        "two": lambda g: (g[0], g[0]), "tensor": lambda g: g[0][0], "number": lambda g: 3, "size": lambda g: (g[0][0],),
        "none": lambda g: (None,), "number inside": lambda g: (1.0,), "dtype": lambda g: (g[0].double(),),
        "empty": lambda g: (),
    }  # fmt: skip
    for label, answer in wrong.items():
        for kind in ("register_full_backward_hook", "register_full_backward_pre_hook"):
            module, x = layer(torch), ask(torch)
            getattr(module, kind)(lambda m, *grads: answer(grads[0]))
            attempt(log, (label, kind), lambda: module(x).sum().backward(), words=6)
            log(x.grad, module.weight.grad)
    module = layer(torch)
    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    attempt(log, "pre", lambda: module(ask(torch)))


# --- flags


class Scaled:
    @staticmethod
    def of(torch: Any) -> Any:
        class Module(torch.nn.Module):
            def forward(self, x: Any, *, by: Any = 1) -> Any:
                return x * by

        return Module()


@cases
def keyword_arguments(torch, log):
    module, x = Scaled.of(torch), ask(torch)
    module.register_forward_pre_hook(lambda m, args: log("pre", args))
    module.register_forward_pre_hook(lambda m, args, kwargs: log("pre kw", args, kwargs), with_kwargs=True)
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: log("forward", args, out))
    module.register_forward_hook(lambda m, args, kwargs, out: log("forward kw", args, kwargs, out), with_kwargs=True)
    space = torch.nn.modules.module
    with space.register_module_forward_hook(lambda m, args, kwargs, out: log("global", args, kwargs), with_kwargs=True):
        log(module(x, by=2), module(x, by=x))


@cases
def always_called(torch, log):
    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("forward")

    module = Fails()
    module.register_forward_hook(lambda m, args, out: log("never"))
    module.register_forward_hook(lambda m, args, out: log("always", args, out), always_call=True)
    module.register_forward_hook(
        lambda m, args, kwargs, out: log("always kw", args, kwargs, out), with_kwargs=True, always_call=True
    )
    space = torch.nn.modules.module
    with space.register_module_forward_hook(lambda m, args, out: log("global", out), always_call=True):
        attempt(log, "call", lambda: module(1))


@cases
def always_called_after_a_hook_raised(torch, log):
    def fail(*_: Any) -> None:
        raise KeyError("hook")

    for place in ("before", "after"):
        module = layer(torch)
        if place == "before":
            module.register_forward_hook(fail)
        module.register_forward_hook(lambda m, args, out: log("first", out), always_call=True)
        module.register_forward_hook(lambda m, args, out: out * 2, always_call=True)
        if place == "after":
            module.register_forward_hook(fail)
        module.register_forward_hook(lambda m, args, out: log("last", out), always_call=True)
        attempt(log, place, lambda: module(ask(torch)))


@cases
def always_called_sees_changed_arguments(torch, log):
    module = layer(torch)

    def fail(m: Any, args: Any) -> None:
        raise KeyError("pre")

    module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    module.register_forward_pre_hook(fail)
    module.register_forward_hook(lambda m, args, out: log("always", args, out), always_call=True)
    attempt(log, "call", lambda: module(ask(torch)))


@cases
def always_called_hook_that_raises(torch, log):
    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("forward")

    def fail(*_: Any) -> None:
        log("raising")
        raise KeyError("hook")

    module = Fails()
    module.register_forward_hook(fail, always_call=True)
    module.register_forward_hook(lambda m, args, out: log("next", out), always_call=True)
    attempt(log, "call", lambda: module(1))
    good = torch.nn.Identity()
    good.register_forward_hook(fail, always_call=True)
    attempt(log, "good", lambda: good(1))


# --- when there is little to differentiate


@cases
def no_input_asks(torch, log):
    module = layer(torch)
    module.register_full_backward_pre_hook(lambda m, go: log("pre", go))
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    module(torch.ones(1, 2)).sum().backward()
    log(module.weight.grad)


@cases
def no_input_asks_but_the_hook_answers(torch, log):
    for answer in (None, (None,), (torch.ones(1),), 3):
        module = layer(torch)
        module.register_full_backward_hook(lambda m, gi, go: answer)
        attempt(log, "answer", lambda: module(torch.ones(1, 2)).sum().backward())


@cases
def nothing_asks(torch, log):
    module = layer(torch).requires_grad_(False)
    with Everything(torch, log, module):
        log(module(torch.ones(1, 2)))
        with torch.no_grad():
            log(layer(torch)(ask(torch)))


@cases
def only_some_inputs_ask(torch, log):
    class Sums(torch.nn.Module):
        def forward(self, a: Any, n: Any, b: Any, c: Any = None) -> Any:
            return a * n + b

    module = Sums()
    module.register_full_backward_hook(lambda m, gi, go: log(gi, go))
    a, b = ask(torch), ask(torch)
    module(a, 3, torch.ones(1, 2)).sum().backward()
    module(a, 3, b, c=a).sum().backward()
    module(torch.ones(1, 2), 3, b).sum().backward()
    log(a.grad, b.grad)


@cases
def several_outputs(torch, log):
    class Several(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2, 7, x.detach(), x * 3

    module, x = Several(), ask(torch)
    module.register_full_backward_pre_hook(lambda m, go: log("pre", go))
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    out = module(x)
    log([type(part).__name__ for part in out], out[2].requires_grad, out[3].output_nr)
    out[3].sum().backward(retain_graph=True)
    (out[0].sum() + out[3].sum()).backward(retain_graph=True)
    out[0].sum().backward()
    log(x.grad)


@cases
def named_tuples(torch, log):
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")

    class Pairs(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return Pair(x * 2, "text")

    module, x = Pairs(), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    out = module(x)
    log(type(out).__name__, out.b)
    out.a.sum().backward()


@cases
def outputs_that_are_no_tensors(torch, log):
    class Gives(torch.nn.Module):
        def __init__(self, make: Any) -> None:
            super().__init__()
            self.make = make

        def forward(self, x: Any) -> Any:
            return self.make(x)

    for make in (lambda x: {"a": x * 2}, lambda x: [x * 2], lambda x: 3, lambda x: None):
        module, x = Gives(make), ask(torch)
        module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
        module.register_full_backward_pre_hook(lambda m, go: log("pre", go))
        out = module(x)
        log(type(out).__name__)
        if isinstance(out, dict):
            out["a"].sum().backward()
            log(x.grad)


@cases
def modules_that_write_in_place(torch, log):
    module, x = torch.nn.ReLU(inplace=True), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    attempt(log, "inplace", lambda: module(x * 2))
    module = layer(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    attempt(log, "write to the output", lambda: module(x).mul_(2), words=6)
    model = torch.nn.Sequential(layer(torch), torch.nn.ReLU(inplace=True))
    model[0].register_full_backward_hook(lambda m, gi, go: None)
    attempt(log, "inplace after", lambda: model(x), words=6)


@cases
def outputs_are_views(torch, log):
    module, x = torch.nn.Identity(), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    out = module(x)
    log(out is x, out._is_view(), out._version, out.grad_fn.name())
    kept = x[:, 0]
    out = module(kept)
    out.sum().backward()
    log(x.grad)


@cases
def called_twice_before_backward(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    (module(x) * 2 + module(module(x))).sum().backward()
    log(x.grad)


@cases
def two_backward_passes(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    out = module(x)
    out.sum().backward(retain_graph=True)
    (out * 2).sum().backward()


@cases
def double_backward(torch, log):
    module, x = torch.nn.Tanh(), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    (first,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    first.sum().backward()
    log(x.grad)


@cases
def gradients_of_chosen_inputs(torch, log):
    module, x = layer(torch), ask(torch)
    module.register_full_backward_hook(lambda m, gi, go: log("full", gi, go))
    out = module(x)
    for wanted in (x, module.weight):
        log(torch.autograd.grad(out.sum(), wanted, retain_graph=True))
    out.sum().backward(inputs=[module.weight])
    log(x.grad)


@cases.test
def test_module_hooks(program: Any) -> None:
    agree(program, warns=True, raises=False)
