"""no_grad, enable_grad, set_grad_enabled and inference_mode: as contexts, decorators and around generators."""

from __future__ import annotations

import threading

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, succeeds

cases = Table()


@cases.test
def test_modes(program):
    agree(program, graph=True)


# --- contexts ------------------------------------------------------------------------------------------------------------


@cases
def nested_contexts(torch, log):
    x = leaf(torch)

    def look(label):
        log(label, torch.is_grad_enabled(), (x * 2).requires_grad)

    look("outside")
    with torch.no_grad():
        look("no_grad")
        with torch.enable_grad():
            look("enable_grad")
            with torch.set_grad_enabled(False):
                look("set False")
                with torch.set_grad_enabled(True):
                    look("set True")
            look("back in enable_grad")
        look("back in no_grad")
    look("outside again")


@cases
def set_grad_enabled_as_a_function(torch, log):
    torch.set_grad_enabled(False)
    log(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    log(torch.is_grad_enabled())
    setting = torch.set_grad_enabled(False)
    log(torch.is_grad_enabled())
    with setting:
        log(torch.is_grad_enabled())
    log(torch.is_grad_enabled())
    torch.set_grad_enabled(True)


@cases
def set_grad_enabled_wants_a_bool(torch, log):
    attempt(log, "number", lambda: torch.set_grad_enabled(3), words=0)
    torch.set_grad_enabled(True)


@cases
def one_context_object_used_twice(torch, log):
    context = torch.no_grad()
    for _ in range(2):
        with context:
            log(torch.is_grad_enabled())
        log(torch.is_grad_enabled())


@cases
def left_by_an_exception(torch, log):
    def body():
        with torch.no_grad():
            raise ValueError("on purpose")

    attempt(log, "body", body)
    log(torch.is_grad_enabled())


@cases
def each_thread_has_its_own_mode(torch, log):
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
        log(seen, torch.is_grad_enabled())


@cases
def factories_in_no_grad(torch, log):
    with torch.no_grad():
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        x.requires_grad_()
    log(x.requires_grad, y.requires_grad, (x * 2).requires_grad)


@cases
def results_of_no_grad_are_constants(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        y = x * 3
    (y * x).sum().backward()
    return x.grad


@cases
def backward_in_no_grad(torch, log):
    x = leaf(torch)
    root = (x * x).sum()
    with torch.no_grad():
        root.backward()
    log(x.grad)
    with torch.no_grad():
        attempt(log, "built inside", lambda: (x * x).sum().backward())


@cases
def grad_mode_inside_backward(torch, log):
    x = leaf(torch)
    x.register_hook(lambda g: log(torch.is_grad_enabled()))
    (x * x).sum().backward()
    with torch.no_grad():
        root = None
        with torch.enable_grad():
            root = (x * x).sum()
        torch.autograd.grad(root, x, create_graph=True)
        log(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    (x * x).sum().backward()
    log(torch.is_grad_enabled())


# --- decorators ----------------------------------------------------------------------------------------------------------


@cases
def decorated_functions(torch, log):
    x = leaf(torch)

    @torch.no_grad()
    def with_parentheses():
        """A docstring."""
        return torch.is_grad_enabled(), (x * 2).requires_grad

    @torch.no_grad
    def without_parentheses():
        return torch.is_grad_enabled()

    @torch.enable_grad()
    def enabled():
        return torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def disabled():
        return torch.is_grad_enabled()

    log(with_parentheses(), without_parentheses(), enabled(), disabled(), torch.is_grad_enabled())
    with torch.no_grad():
        log(enabled(), torch.is_grad_enabled())
    log(with_parentheses.__name__, with_parentheses.__doc__)


@cases
def set_grad_enabled_as_a_decorator_does_not_leak(torch, log):
    @torch.set_grad_enabled(False)
    def function():
        return torch.is_grad_enabled()

    log(torch.is_grad_enabled(), function(), torch.is_grad_enabled())


@cases
def decorated_functions_that_raise_or_recurse(torch, log):
    @torch.no_grad()
    def recurse(depth):
        if depth == 0:
            raise ValueError("on purpose")
        with torch.enable_grad():
            recurse(depth - 1)

    attempt(log, "raises", lambda: recurse(3))
    log(torch.is_grad_enabled())


@cases
def decorated_methods_and_arguments(torch, log):
    class Model:
        @torch.no_grad()
        def forward(self, a, *, scale=2):
            return a * scale

        @classmethod
        @torch.no_grad()
        def build(cls, value):
            return value, torch.is_grad_enabled()

    log(Model().forward(leaf(torch), scale=3), Model.build(3))


@cases
def decorated_generators(torch, log):
    @torch.no_grad()
    def numbers():
        for index in range(3):
            received = yield index, torch.is_grad_enabled()
            log("received", received, torch.is_grad_enabled())
        return "done"

    generator = numbers()
    log(next(generator), torch.is_grad_enabled())
    with torch.no_grad():
        log(generator.send("in no_grad"), torch.is_grad_enabled())
    log(next(generator), torch.is_grad_enabled())
    try:
        next(generator)
    except StopIteration as stop:
        log(stop.value)
    log(torch.is_grad_enabled())


@cases
def decorated_generators_that_are_closed_or_thrown_into(torch, log):
    @torch.no_grad()
    def numbers():
        try:
            while True:
                try:
                    yield torch.is_grad_enabled()
                except ValueError:
                    log("caught", torch.is_grad_enabled())
        finally:
            log("closing", torch.is_grad_enabled())

    generator = numbers()
    log(next(generator))
    log(generator.throw(ValueError()), torch.is_grad_enabled())
    generator.close()
    log(torch.is_grad_enabled())


@cases
def plain_generators_leak_their_mode(torch, log):
    def numbers():
        with torch.no_grad():
            yield torch.is_grad_enabled()

    generator = numbers()
    log(next(generator), torch.is_grad_enabled())
    generator.close()
    log(torch.is_grad_enabled())


# --- inference mode ------------------------------------------------------------------------------------------------------


@cases
def inference_tensors(torch, log):
    x = leaf(torch)
    with torch.inference_mode():
        y = x * 2
        view = x[:1]
        log(torch.is_inference_mode_enabled(), torch.is_grad_enabled())
        log(y.requires_grad, y.is_inference(), view.is_inference(), view.requires_grad, x.is_inference())
        log(y._is_view(), view._is_view())
    log(torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y.is_inference(), (y * 2).is_inference())


@cases
def inference_mode_off_inside(torch, log):
    x = leaf(torch)
    with torch.inference_mode():
        with torch.inference_mode(False):
            y = x * 2
            log(torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y.requires_grad, y.is_inference())
        with torch.enable_grad():
            z = x * 2
            log(torch.is_grad_enabled(), z.requires_grad, z.is_inference())


@cases
def inference_mode_as_a_decorator(torch, log):
    @torch.inference_mode()
    def with_parentheses(x):
        return x * 2

    @torch.inference_mode
    def without_parentheses(x):
        return x * 2

    @torch.inference_mode(False)
    def switched_off(x):
        return x * 2

    x = leaf(torch)
    for function in (with_parentheses, without_parentheses, switched_off):
        result = function(x)
        log(result.is_inference(), result.requires_grad)


@cases
def inference_tensors_cannot_be_saved_for_backward(torch, log):
    x = leaf(torch)
    with torch.inference_mode():
        y = torch.ones(2)
    attempt(log, "mul", lambda: x * y)
    attempt(log, "add", lambda: x + y)
    attempt(log, "clone first", lambda: x * y.clone())


@cases
def inference_tensors_cannot_be_written_outside(torch, log):
    with torch.inference_mode():
        y = torch.ones(2)
        y.add_(1)
    succeeds(log, "in place", lambda: y.add_(1))
    succeeds(log, "setitem", lambda: y.__setitem__(0, 5.0))
    with torch.no_grad():
        succeeds(log, "in place in no_grad", lambda: y.add_(1))
    succeeds(log, "out of place", lambda: y + 1)
    with torch.inference_mode():
        succeeds(log, "in place inside", lambda: y.add_(1))


@cases
def inference_tensors_have_no_version(torch, log):
    with torch.inference_mode():
        y = torch.ones(2)
    attempt(log, "version", lambda: y._version)


@cases
def inference_tensors_cannot_require_grad(torch, log):
    with torch.inference_mode():
        y = torch.ones(2)
        attempt(log, "inside", lambda: y.requires_grad_().requires_grad)
    attempt(log, "outside", lambda: torch.inference_mode()(lambda: torch.ones(2))().requires_grad_())
    attempt(log, "attribute", lambda: setattr(torch.inference_mode()(lambda: torch.ones(2))(), "requires_grad", True))


@cases
def normal_tensors_in_inference_mode(torch, log):
    x = leaf(torch)
    plain = torch.ones(2)
    with torch.inference_mode():
        plain.add_(1)
        succeeds(log, "leaf written", lambda: x.add_(1))
        log(plain.is_inference(), x.is_inference(), plain._version, x._version)
    (x * plain).sum().backward()
    return x.grad


@cases
def views_made_in_inference_mode(torch, log):
    base = torch.ones(2)
    with torch.inference_mode():
        view = base[:1]
    log(view.is_inference(), view._is_view())
    succeeds(log, "write", lambda: view.mul_(leaf(torch)[:1]))
    succeeds(log, "plain write", lambda: view.add_(1))


@cases
def backward_in_inference_mode(torch, log):
    x = leaf(torch)
    root = (x * x).sum()
    with torch.inference_mode():
        attempt(log, "backward", lambda: root.backward(retain_graph=True))
    log(x.grad, x.grad.is_inference())


@cases
def decorating_a_class(torch, log):
    for context in (torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)):

        class Made:
            def __init__(self, value):
                self.value = value
                log(torch.is_grad_enabled(), torch.is_inference_mode_enabled())

        decorated = context()(Made)
        log(isinstance(decorated, type), decorated(3).value, torch.is_grad_enabled())


@cases
def a_mode_that_a_hook_sets_ends_with_its_node(torch, log):
    def switch(_):
        torch.set_grad_enabled(True)
        log(torch.is_grad_enabled())

    for create_graph in (False, True):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda g: log("leaf", torch.is_grad_enabled()))
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        w.register_hook(switch)
        w.register_post_accumulate_grad_hook(switch)
        y = x * 2
        y.register_hook(switch)
        y.grad_fn.register_prehook(lambda _: log("same node", torch.is_grad_enabled()))
        z = y * w
        z.grad_fn.register_hook(lambda *grads: switch(grads))
        torch.autograd.backward(z.sum(), create_graph=create_graph)
        log(torch.is_grad_enabled())


@cases
def inference_tensors_that_need_not_be_saved(torch, log):
    x = leaf(torch)
    with torch.inference_mode():
        t = torch.ones(2)
    uses = {
        "add": lambda: x + t,
        "mul": lambda: x * t,
        "cat": lambda: torch.cat([x, t]),
        "lerp": lambda: torch.lerp(x, t, 0.5),
        "where": lambda: torch.where(t > 0, x, x),
    }
    for name, use in uses.items():
        attempt(log, name, use)
        with torch.autograd.set_detect_anomaly(True):
            attempt(log, name + " in another rare mode", use)


@cases
def what_a_backward_switches_does_not_hold_for_the_next(torch, log):
    def passing(label, action):
        def backward(ctx, g):
            log(label, torch.is_grad_enabled())
            action()
            return g

        return type("Made", (torch.autograd.Function,), {
            "forward": staticmethod(lambda ctx, a: a * 1), "backward": staticmethod(backward)})  # fmt: skip

    def pack_something():
        with torch.enable_grad():
            b = torch.ones(2, requires_grad=True)
            log((b * b).grad_fn is not None)

    opened = torch.autograd.graph.saved_tensors_hooks(lambda t: (log("pack"), t)[1], lambda t: t)
    x = torch.ones(2, requires_grad=True)
    for action in (lambda: torch.set_grad_enabled(True), lambda: torch.set_grad_enabled(False), opened.__enter__):
        first, second = passing("first", action), passing("second", pack_something)
        first.apply(second.apply(x)).sum().backward()
        (g,) = torch.autograd.grad(first.apply(second.apply(x) ** 2).sum(), x, create_graph=True)
        log(torch.is_grad_enabled(), g.requires_grad, g)
