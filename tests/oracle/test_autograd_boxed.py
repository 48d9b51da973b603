"""Custom functions that let go early: gradients in a list that backward clears, saved tensors given away once."""

from __future__ import annotations

import weakref

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf

cases = Table()


@cases.test
def test_boxed(program):
    agree(program)


# --- boxed_grads_call ----------------------------------------------------------------------------------------------------


def boxed(torch, forward, backward, **more):
    return function(torch, forward, backward, boxed_grads_call=True, **more)


@cases
def gradients_come_in_a_list(torch, log):
    def backward(ctx, grads):
        log(type(grads).__name__, len(grads), grads)
        first, second = grads
        grads.clear()
        return first * 2, second * 3

    a, b = leaf(torch), leaf(torch)
    y, z = boxed(torch, lambda ctx, a, b: (a * 2, b * 3), backward).apply(a, b)
    (y + z * 2).sum().backward()
    log(a.grad, b.grad)


@cases
def clearing_the_list_lets_go_of_the_gradients(torch, log):
    def backward(ctx, grads):
        references = [weakref.ref(grad) for grad in grads]
        grads.clear()
        log([reference() is None for reference in references])
        return torch.ones(2), torch.ones(2)

    Made = boxed(torch, lambda ctx, a, b: (a * 2, b * 3), backward)
    y, z = Made.apply(leaf(torch), leaf(torch))
    (y * 2 + z * 3).sum().backward()
    y, z = Made.apply(leaf(torch), leaf(torch))
    y.register_hook(lambda g: g * 5)
    (y * 2 + z * 3).sum().backward()


@cases
def unused_outputs_in_the_list(torch, log):
    for materialize in (True, False):

        def forward(ctx, a, b, materialize=materialize):
            ctx.set_materialize_grads(materialize)
            return a * 2, b * 3

        def backward(ctx, grads):
            log(grads)
            return grads[0], None

        a, b = leaf(torch), leaf(torch)
        boxed(torch, forward, backward).apply(a, b)[0].sum().backward()
        log(a.grad, b.grad)


@cases
def hooks_around_a_boxed_backward(torch, log):
    y = boxed(torch, lambda ctx, a: a * 2, lambda ctx, grads: (log(grads), grads.pop() * 2)[1]).apply(leaf(torch))
    y.register_hook(lambda g: g * 5)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: log(grad_inputs, grad_outputs))
    y.sum().backward()


@cases
def boxed_and_other_options(torch, log):
    a = leaf(torch)

    def backward(ctx, grads):
        (saved,) = ctx.saved_tensors
        return grads.pop() * 2 * saved

    square = boxed(torch, lambda ctx, a: (ctx.save_for_backward(a), a**2)[1], backward)
    (g,) = torch.autograd.grad(square.apply(a).sum(), a, create_graph=True)
    g.sum().backward()
    log(g, a.grad)
    once = torch.autograd.function.once_differentiable(lambda ctx, grads: grads[0] * 2)
    (g,) = torch.autograd.grad(boxed(torch, lambda ctx, a: a * 2, once).apply(a).sum(), a, create_graph=True)
    log(g)
    named_vjp = type("Made", (torch.autograd.Function,), {
        "boxed_grads_call": True, "forward": staticmethod(lambda ctx, a: a * 2), "vjp": staticmethod(lambda ctx, g: g[0]),
    })  # fmt: skip
    log(torch.autograd.grad(named_vjp.apply(a).sum(), a))
    node = square.apply(a).grad_fn
    log(node.apply(torch.ones(2)), node.apply_boxed([torch.ones(2)]))
    attempt(log, "without the list", lambda: node.apply_boxed(torch.ones(2), torch.ones(2)), words=0)


@cases
def flags_are_bools(torch, log):
    log(torch.autograd.Function.boxed_grads_call, torch.autograd.Function.clear_saved_tensors_on_access)
    for name in ("boxed_grads_call", "clear_saved_tensors_on_access"):
        for value in (1, None, "yes"):
            Made = function(torch, lambda ctx, a: (log("runs"), a * 2)[1], lambda ctx, g: g, **{name: value})
            attempt(log, (name, value), lambda Made=Made: Made.apply(leaf(torch)).sum())


# --- clear_saved_tensors_on_access ---------------------------------------------------------------------------------------


def clearing(torch, backward, forward=lambda ctx, a: (ctx.save_for_backward(a), a * 2)[1]):
    return function(torch, forward, backward, clear_saved_tensors_on_access=True)


@cases
def saved_tensors_are_given_away_once(torch, log):
    def backward(ctx, g):
        log(ctx.needs_input_grad, ctx.saved_tensors)
        attempt(log, "again", lambda: ctx.saved_tensors)
        return g

    a = leaf(torch)
    clearing(torch, backward).apply(a).sum().backward()
    log(a.grad)
    clearing(torch, backward, lambda ctx, a: a * 2).apply(a).sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (log("pack"), t)[1], lambda t: (log("unpack"), t)[1]):
        y = clearing(torch, backward).apply(a)
    y.sum().backward()


@cases
def a_second_pass_finds_nothing(torch, log):
    a = leaf(torch)
    y = clearing(torch, lambda ctx, g: g * ctx.saved_tensors[0]).apply(a)
    y.sum().backward(retain_graph=True)
    attempt(log, "second", lambda: y.sum().backward())
    log(a.grad)


@cases
def looking_at_the_node_is_an_access(torch, log):
    y = clearing(torch, lambda ctx, g: g).apply(leaf(torch))
    log(len(y.grad_fn._raw_saved_tensors), len(y.grad_fn._raw_saved_tensors))
    log(y.grad_fn.saved_tensors, len(y.grad_fn._raw_saved_tensors))
    attempt(log, "again", lambda: y.grad_fn.saved_tensors)
    y.sum().backward()


@cases
def looking_in_forward_is_an_access(torch, log):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        log(ctx.saved_tensors)
        return a * 2

    y = clearing(torch, lambda ctx, g: (log(ctx.saved_tensors), g)[1], forward).apply(leaf(torch))
    attempt(log, "backward", lambda: y.sum().backward())


@cases
def what_is_given_away_dies_with_its_last_reference(torch, log):
    def forward(ctx, a):
        doubled = a * 2
        ctx.save_for_backward(doubled)
        return doubled**2

    def backward(ctx, g):
        (saved,) = ctx.saved_tensors
        reference = weakref.ref(saved)
        del saved
        log(reference() is None)
        return g

    clearing(torch, backward, forward).apply(leaf(torch)).sum().backward()


@cases
def cleared_by_hand(torch, log):
    def backward(ctx, g):
        ctx.maybe_clear_saved_tensors()
        attempt(log, "saved tensors", lambda: ctx.saved_tensors)
        return g

    clearing(torch, backward).apply(leaf(torch)).sum().backward()
    keeps = function(torch, lambda ctx, a: (ctx.save_for_backward(a), a * 2)[1], backward)
    keeps.apply(leaf(torch)).sum().backward()
