"""Hooks with `grad`, `backward(inputs=…)`, `create_graph`, double backward, and backward inside backward."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, note

cases = Table()


@cases.test
def test_hooks_and_inputs(program):
    agree(program, graph=True)


def watched_chain(torch, log):
    """x → y → z → root with tensor hooks on all and node hooks on y and z."""
    x = leaf(torch)
    y = x * 2
    z = y.exp()
    root = z.sum()
    for name, tensor in {"x": x, "y": y, "z": z, "root": root}.items():
        tensor.register_hook(note(log, f"{name} tensor hook"))
    for name, tensor in {"y": y, "z": z}.items():
        tensor.grad_fn.register_prehook(lambda outputs, name=name: log(f"{name} node pre", outputs))
        tensor.grad_fn.register_hook(lambda inputs, outputs, name=name: log(f"{name} node post", inputs, outputs))
    return x, y, z, root


# --- grad ----------------------------------------------------------------------------------------------------------------


@cases
def grad_of_a_leaf(torch, log):
    x, y, z, root = watched_chain(torch, log)
    log(torch.autograd.grad(root, x))


@cases
def grad_of_a_non_leaf_fires_its_tensor_hooks_only(torch, log):
    x, y, z, root = watched_chain(torch, log)
    log(torch.autograd.grad(root, y))


@cases
def grad_of_several(torch, log):
    x, y, z, root = watched_chain(torch, log)
    log(torch.autograd.grad(root, [z, x]))


@cases
def grad_of_a_non_leaf_and_what_lies_below(torch, log):
    x, y, z, root = watched_chain(torch, log)
    log(torch.autograd.grad(root, [y, x, y]))


@cases
def grad_of_the_root_itself(torch, log):
    x, y, z, root = watched_chain(torch, log)
    log(torch.autograd.grad(root, root))


@cases
def replaced_values_are_what_grad_gives(torch, log):
    x = leaf(torch)
    y = x * 2
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    log(torch.autograd.grad(y.sum(), [x, y]))


@cases
def node_pre_hook_of_an_input_does_not_count(torch, log):
    x = leaf(torch)
    y = x * 2
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 100,))
    root = (y * 3).sum()
    log(torch.autograd.grad(root, y, retain_graph=True))
    log(torch.autograd.grad(root, [y, x], retain_graph=True))
    log(torch.autograd.grad(root, x))


@cases
def accumulate_grad_hooks_and_grad(torch, log):
    x = leaf(torch)
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    accumulate.register_prehook(lambda outputs: log("pre", outputs))
    accumulate.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated"))
    x.register_hook(note(log, "tensor"))
    log(torch.autograd.grad(y.sum(), x))
    return x.grad


@cases
def only_the_needed_branch_runs(torch, log):
    a, b = leaf(torch), leaf(torch, 3.0, 4.0)
    y, z = a * 2, b * 3
    for name, tensor in {"a": a, "b": b, "y": y, "z": z}.items():
        tensor.register_hook(note(log, name))
    y.grad_fn.register_hook(lambda inputs, outputs: log("y node"))
    z.grad_fn.register_hook(lambda inputs, outputs: log("z node"))
    log(torch.autograd.grad((y * z).sum(), b))


@cases
def grad_of_a_multi_output_part(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    a, b, c = x.unbind()
    for name, part in {"a": a, "b": b, "c": c}.items():
        part.register_hook(note(log, name))
    root = (a + b * 2).sum()
    log(torch.autograd.grad(root, b, retain_graph=True))
    log(torch.autograd.grad(root, [c, a], allow_unused=True))


@cases
def hooks_of_unused_inputs(torch, log):
    x, w = leaf(torch), leaf(torch)
    w.register_hook(note(log, "w"))
    log(torch.autograd.grad((x * 2).sum(), [x, w], allow_unused=True))
    log(torch.autograd.grad((x * 2).sum(), [x, w], materialize_grads=True))


# --- backward(inputs=…) --------------------------------------------------------------------------------------------------


@cases
def backward_into_a_non_leaf(torch, log):
    x, y, z, root = watched_chain(torch, log)
    y.retain_grad()
    root.backward(inputs=[y])
    log(x.grad, y.grad)


@cases
def backward_into_a_non_leaf_without_retain_grad(torch, log):
    x, y, z, root = watched_chain(torch, log)
    attempt(log, "backward", lambda: root.backward(inputs=[y]))
    log(x.grad, y.retains_grad, y.grad)


@cases
def backward_into_one_leaf_of_two(torch, log):
    a, b = leaf(torch), leaf(torch, 3.0, 4.0)
    for name, tensor in {"a": a, "b": b}.items():
        tensor.register_hook(note(log, name))
        tensor.register_post_accumulate_grad_hook(lambda t, name=name: log(name, "accumulated"))
    root = (a * b).sum()
    root.backward(inputs=[a], retain_graph=True)
    root.backward(inputs=b, retain_graph=True)
    root.backward(inputs=(b, a))
    log(a.grad, b.grad)


@cases
def backward_into_nothing(torch, log):
    x = leaf(torch)
    attempt(log, "empty", lambda: (x * 2).sum().backward(inputs=[]))
    attempt(log, "not a leaf of this graph", lambda: (x * 2).sum().backward(inputs=[leaf(torch)]))
    attempt(log, "plain", lambda: (x * 2).sum().backward(inputs=[torch.ones(2)]))
    log(x.grad)


# --- create_graph and double backward ------------------------------------------------------------------------------------


@cases
def gradients_in_hooks_are_differentiable_under_create_graph(torch, log):
    x = leaf(torch)
    y = x * x
    y.register_hook(lambda g: log("y", g.requires_grad, g) or g * x)
    x.register_hook(lambda g: log("x", g.requires_grad, g))
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    log("first", g)
    (second,) = torch.autograd.grad(g.sum(), x)
    log("second", second)


@cases
def hooks_fire_again_in_the_double_backward(torch, log):
    x = leaf(torch)
    y = x.exp()
    x.register_hook(note(log, "x"))
    y.register_hook(note(log, "y"))
    y.grad_fn.register_hook(lambda inputs, outputs: log("y node", inputs, outputs))
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    g.register_hook(note(log, "g"))
    log("second")
    (g * g).sum().backward()
    return x.grad


@cases
def hook_that_replaces_counts_in_the_double_backward(torch, log):
    x = leaf(torch)
    y = x**3
    y.register_hook(lambda g: g * 10)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(g)
    log(torch.autograd.grad(g.sum(), x, create_graph=True))


@cases
def backward_with_create_graph_keeps_a_differentiable_grad(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    (x**3).sum().backward(create_graph=True)
    log(x.grad)
    first = x.grad
    x.grad = None
    first.sum().backward()
    return x.grad


@cases
def hook_detaches_the_gradient(torch, log):
    x = leaf(torch)
    y = x**3
    y.register_hook(lambda g: g.detach())
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    log(g)
    log(torch.autograd.grad(g.sum(), x))


@cases
def node_hooks_under_create_graph(torch, log):
    x = leaf(torch)
    y = x.sin()
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * x,))
    y.grad_fn.register_hook(lambda inputs, outputs: log(inputs, outputs) or (inputs[0] * 2,))
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(g)
    log(torch.autograd.grad(g.sum(), x))


# --- backward inside backward --------------------------------------------------------------------------------------------


@cases
def another_graph_inside_a_hook(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = x * 2

    def hook(g):
        log("outer hook begins")
        with torch.enable_grad():
            (w * w).sum().backward()
        log("inner backward done", w.grad)
        return g * w.grad

    y.register_hook(hook)
    w.register_hook(note(log, "w"))
    x.register_hook(note(log, "x"))
    y.sum().backward()
    return x.grad, w.grad


@cases
def the_same_leaf_inside_a_hook(torch, log):
    x = leaf(torch)
    y = x * 2
    depth = []

    def hook(g):
        log("hook", len(depth), g)
        if not depth:
            depth.append(1)
            with torch.enable_grad():
                (x * 5).sum().backward()

    x.register_hook(hook)
    y.sum().backward()
    return x.grad


@cases
def deep_nesting(torch, log):
    x = leaf(torch)

    def dive(depth):
        y = x * 1.0
        if depth:
            y.register_hook(lambda g: _dive_again(torch, dive, depth, log))
        y.sum().backward()

    dive(80)
    return x.grad


def _dive_again(torch, dive, depth, log):
    if depth % 20 == 0:
        log("depth", depth)
    with torch.enable_grad():
        dive(depth - 1)


@cases
def grad_inside_a_custom_function(torch, log):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x**3
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            log("backward", g, torch.is_grad_enabled())
            (inner,) = torch.autograd.grad(ctx.y, ctx.x, g)
            log("inner", inner)
            return inner

    x = leaf(torch)
    Inner.apply(x * 2).sum().backward()
    return x.grad


@cases
def backward_inside_a_custom_function_orders_hooks(torch, log):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x.register_hook(note(log, "inner x"))
                ctx.y = ctx.x.exp()
                ctx.y.register_hook(note(log, "inner y"))
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                ctx.y.backward(g)
            return ctx.x.grad

    a, b = leaf(torch), leaf(torch, 3.0, 4.0)
    a.register_hook(note(log, "a"))
    b.register_hook(note(log, "b"))
    left = Inner.apply(a)
    left.register_hook(note(log, "left"))
    right = Inner.apply(b)
    right.register_hook(note(log, "right"))
    (left * right).sum().backward()
    return a.grad, b.grad


@cases
def exception_in_the_inner_backward(torch, log):
    x, w = leaf(torch), leaf(torch)
    w.register_hook(lambda g: {}["missing"])

    def hook(g):
        with torch.enable_grad():
            attempt(log, "inner", lambda: (w * 2).sum().backward())
        return g * 3

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return x.grad


@cases
def the_same_graph_inside_its_own_hook(torch, log):
    x = leaf(torch)
    y = x * 2
    root = y.sum()
    inside = []

    def hook(g):
        log("hook", g)
        if not inside:
            inside.append(True)
            log("inner", torch.autograd.grad(root, x, retain_graph=True))

    y.register_hook(hook)
    root.backward()
    return x.grad
