"""Custom `autograd.Function`: misuse, double backward, hooks on its outputs, and nesting."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, note

cases = Table()


@cases.test
def test_function_misuse(program):
    agree(program, graph=True)


# --- what backward returns -----------------------------------------------------------------------------------------------


@cases
def wrong_number_of_gradients(torch, log):
    x, w = leaf(torch), leaf(torch)
    for label, result in {
        "too few": lambda g: g,
        "too many": lambda g: (g, g, g),
        "too many nones": lambda g: (g, g, None, None),
        "right": lambda g: (g, g),
        "list": lambda g: [g, g],
        "none": lambda g: None,
        "nones": lambda g: (None, None),
    }.items():
        Made = function(torch, lambda ctx, x, w: x * w, lambda ctx, g, result=result: result(g))
        attempt(log, label, lambda: Made.apply(x, w).sum().backward())
        log(x.grad, w.grad)


@cases
def one_input_and_a_sequence(torch, log):
    x = leaf(torch)
    for label, result in {"tuple": lambda g: (g,), "list": lambda g: [g], "pair": lambda g: (g, None)}.items():
        Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g, result=result: result(g))
        attempt(log, label, lambda: Made.apply(x).sum().backward())
        log(x.grad)


@cases
def gradient_for_an_argument_that_is_no_tensor(torch, log):
    Made = function(torch, lambda ctx, x, number: x * number, lambda ctx, g: (g, g))
    attempt(log, "backward", lambda: Made.apply(leaf(torch), 3).sum().backward())


@cases
def gradients_of_the_wrong_kind(torch, log):
    for label, result in {
        "number": 3.0,
        "string": "gradient",
        "longer": torch.ones(3),
        "broadcast up": torch.ones(5, 2),
        "scalar": torch.tensor(1.0),
        "float64": torch.ones(2, dtype=torch.float64),
        "int64": torch.ones(2, dtype=torch.int64),
    }.items():
        x = leaf(torch)
        Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g, result=result: result)
        attempt(log, label, lambda: Made.apply(x).sum().backward())
        log(x.grad)


@cases
def backward_missing(torch, log):
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    attempt(log, "backward", lambda: Made.apply(leaf(torch)).sum().backward())


@cases
def exceptions_inside(torch, log):
    Made = function(torch, lambda ctx, x: {}["forward"], lambda ctx, g: g)
    attempt(log, "forward", lambda: Made.apply(leaf(torch)))
    log(torch.is_grad_enabled())
    Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g: {}["backward"])
    attempt(log, "backward", lambda: Made.apply(leaf(torch)).sum().backward())
    log(torch.is_grad_enabled())


# --- forward misuse ------------------------------------------------------------------------------------------------------


@cases
def marking_dirty_what_is_not_an_input(torch, log):
    x = leaf(torch) * 1
    Made = function(torch, lambda ctx, x: ctx.mark_dirty(torch.ones(2)) or x * 2, lambda ctx, g: g)
    attempt(log, "other tensor", lambda: Made.apply(x))
    Made = function(torch, lambda ctx, x: ctx.mark_dirty(3) or x * 2, lambda ctx, g: g)
    attempt(log, "number", lambda: Made.apply(x), words=7)  # torch's sentence ends in the middle
    Made = function(torch, lambda ctx, x: ctx.mark_dirty(x) or x * 2, lambda ctx, g: g)
    attempt(log, "not returned", lambda: Made.apply(x))
    Made = function(torch, lambda ctx, x: ctx.mark_dirty(x) or x, lambda ctx, g: g * 5)
    attempt(log, "not changed", lambda: Made.apply(x))


@cases
def changed_but_not_marked(torch, log):
    x = leaf(torch)
    y = x * 1
    Made = function(torch, lambda ctx, t: t.mul_(2), lambda ctx, g: log("backward", g) or g * 2)
    attempt(log, "apply", lambda: Made.apply(y))
    attempt(log, "backward", lambda: y.sum().backward())
    log(x.grad)


@cases
def marking_non_differentiable_what_is_not_an_output(torch, log):
    Made = function(torch, lambda ctx, x: ctx.mark_non_differentiable(torch.ones(2)) or x * 2, lambda ctx, g: g)
    attempt(log, "other tensor", lambda: Made.apply(leaf(torch)))
    Made = function(torch, lambda ctx, x: ctx.mark_non_differentiable(3) or x * 2, lambda ctx, g: g)
    attempt(log, "number", lambda: Made.apply(leaf(torch)), words=7)  # and so does this one


@cases
def returning_no_tensors(torch, log):
    for label, result in {"none": None, "number": 3, "nothing": (), "dict": {"a": 1}}.items():
        Made = function(torch, lambda ctx, x, result=result: result, lambda ctx, *g: g)
        attempt(log, label, lambda: Made.apply(leaf(torch)))


@cases
def returning_the_same_tensor_twice(torch, log):
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(torch)
    Made = function(torch, forward, lambda ctx, g, h: log(g, h) or g + h)
    a, b = Made.apply(x)
    log(a is b, a.output_nr, b.output_nr)
    attempt(log, "backward", lambda: (a * 2 + b * 3).sum().backward())
    return x.grad


@cases
def methods_that_are_not_static(torch, log):
    class Made(torch.autograd.Function):
        def forward(ctx, x):
            return x * 2

        def backward(ctx, g):
            return g * 2

    attempt(log, "apply", lambda: Made.apply(leaf(torch)).sum().backward())


@cases
def setup_context_mixed_with_a_ctx_argument(torch, log):
    Made = function(
        torch,
        lambda ctx, x: x * 2,
        lambda ctx, g: g * 2,
        setup_context=lambda ctx, inputs, output: None,
    )
    attempt(log, "apply", lambda: Made.apply(leaf(torch)), words=0)


# --- double backward -----------------------------------------------------------------------------------------------------


@cases
def double_backward(torch, log):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx, g):
        log(torch.is_grad_enabled(), g.requires_grad)
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    x = leaf(torch)
    y = function(torch, forward, backward).apply(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(g)
    log(torch.autograd.grad(g.sum(), x))


@cases
def double_backward_of_saved_outputs(torch, log):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    x = leaf(torch)
    y = function(torch, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    log(g, h)


@cases
def double_backward_of_saved_intermediates_is_wrong(torch, log):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y * 2

    x = leaf(torch)
    y = function(torch, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0]).apply(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(g)
    attempt(log, "second", lambda: torch.autograd.grad(g.sum(), x))


@cases
def once_differentiable(torch, log):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            log(torch.is_grad_enabled(), g.requires_grad)
            return g * 3 * ctx.saved_tensors[0] ** 2

    x = leaf(torch)
    Cube.apply(x).sum().backward()
    log(x.grad)
    (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    log(g.detach(), g.requires_grad)
    attempt(log, "second", lambda: torch.autograd.grad(g.sum(), x))
    (g,) = torch.autograd.grad((Cube.apply(x) ** 2).sum(), x, create_graph=True)
    log(g.detach(), g.requires_grad, g.grad_fn.name())
    attempt(log, "second by grad", lambda: torch.autograd.grad(g.sum(), x))
    attempt(log, "second by backward", lambda: g.sum().backward())


@cases
def function_inside_a_function(torch, log):
    Inner = function(torch, lambda ctx, x: x * 2, lambda ctx, g: log("inner", g) or g * 2)

    def forward(ctx, x):
        y = Inner.apply(x)
        log("graph inside forward", y.requires_grad, y.grad_fn)
        return y * 3

    x = leaf(torch)
    Outer = function(torch, forward, lambda ctx, g: log("outer", g) or Inner.apply(g) * 3)
    Outer.apply(x).sum().backward()
    log(x.grad)
    x.grad = None
    (g,) = torch.autograd.grad(Outer.apply(x * x).sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad


@cases
def enable_grad_inside_forward(torch, log):
    def forward(ctx, x):
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            ctx.inner, ctx.result = inner, inner**3
        return ctx.result.detach()

    def backward(ctx, g):
        return torch.autograd.grad(ctx.result, ctx.inner, g)[0]

    x = leaf(torch)
    function(torch, forward, backward).apply(x * 2).sum().backward()
    return x.grad


# --- hooks ---------------------------------------------------------------------------------------------------------------


@cases
def hooks_on_outputs(torch, log):
    Pair = function(torch, lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: log("backward", g, h) or g * 2 + h * 3)
    x = leaf(torch)
    a, b = Pair.apply(x)
    b.register_hook(note(log, "b", lambda g: g * 10))
    a.register_hook(note(log, "a"))
    a.retain_grad()
    (a + b).sum().backward()
    log(a.grad)
    return x.grad


@cases
def ctx_in_hooks_and_next_functions(torch, log):
    Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g: log("same node", ctx is y.grad_fn) or g * 2)
    x = leaf(torch)
    y = Made.apply(x * 1)
    log([node.name() for node, _ in y.grad_fn.next_functions])
    y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    y.sum().backward()


@cases
def a_complex_gradient_for_a_real_input(torch, log):
    made = function(torch, lambda ctx, a: a * 2, lambda ctx, g: g.to(torch.complex64) * 1j)
    x = leaf(torch)
    attempt(log, "real", lambda: made.apply(x).sum().backward())
    z = torch.tensor([1 + 1j], requires_grad=True)
    real = function(torch, lambda ctx, a: a.abs(), lambda ctx, g: g * 2)
    real.apply(z).sum().backward()
    return x.grad, z.grad
