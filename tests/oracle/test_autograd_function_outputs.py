"""Custom `autograd.Function`: outputs that are written to, that carry no gradient, or that are views of something."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf

cases = Table()


@cases.test
def test_function_outputs(program):
    agree(program)


@cases
def written_to_and_not_differentiable(torch, log):
    def forward(ctx, a, b):
        a.add_(1)
        ctx.mark_dirty(a)
        ctx.mark_non_differentiable(a)
        return a, b * 2

    Made = function(torch, forward, lambda ctx, g, h: (g, h * 2))
    for wanting in (True, False):
        start, b = leaf(torch), leaf(torch)
        a = start.clone() if wanting else torch.ones(2)
        y, z = Made.apply(a, b)
        log(y, z, y is a, y.requires_grad, y.grad_fn is None, a._version, a.requires_grad)
        z.sum().backward()
        log(b.grad, start.grad)


@cases
def whole_numbers_written_to(torch, log):
    def forward(ctx, a, i):
        i.add_(1)
        ctx.mark_dirty(i)
        return a * 2, i

    i = torch.arange(3)
    y, j = function(torch, forward, lambda ctx, g, h: (log(g, h), (g, None))[1]).apply(leaf(torch), i)
    log(j is i, j.requires_grad, j._version)
    y.sum().backward()


@cases
def written_to_and_a_view_of_it(torch, log):
    def forward(ctx, a):
        a.add_(1)
        ctx.mark_dirty(a)
        return a, a[:1]

    a = leaf(torch)
    b = a.clone()
    y, z = function(torch, forward, lambda ctx, g, h: g * 2).apply(b)
    log(y is b, y, z)
    (y.sum() + z.sum()).backward()
    log(a.grad)


@cases
def a_view_made_inside_is_written_to(torch, log):
    def forward(ctx, a):
        view = a.view(-1)
        view.add_(1)
        ctx.mark_dirty(view)
        return view

    attempt(log, "of an input", lambda: function(torch, forward, lambda ctx, g: g).apply(leaf(torch).clone()))


@cases
def zeros_for_outputs_without_a_gradient(torch, log):
    for flag in (True, False):
        for materialize in (True, False):

            def forward(ctx, a, flag=flag, materialize=materialize):
                ctx._materialize_non_diff_grads = flag
                ctx.set_materialize_grads(materialize)
                constant = a.detach().clone()
                ctx.mark_non_differentiable(constant)
                return a * 2, constant, torch.arange(2), 5, a * 3

            a = leaf(torch)
            results = function(torch, forward, lambda ctx, *grads: (log(grads), grads[0] * 2)[1]).apply(a)
            log(results)
            results[0].sum().backward()
            log(a.grad)


# --- jvp -----------------------------------------------------------------------------------------------------------------


def pushed(torch, forward, jvp, *inputs):
    """Tangents of a function's outputs, where every float input is a dual with ones as its tangent."""
    fw = torch.autograd.forward_ad
    Made = function(torch, forward, lambda ctx, *grads: grads[0], jvp=staticmethod(jvp))
    outputs = Made.apply(*[fw.make_dual(each, torch.ones_like(each)).clone() for each in inputs])
    return [fw.unpack_dual(each).tangent for each in (outputs if isinstance(outputs, tuple) else (outputs,))]


@cases
def jvp_of_what_is_written_to(torch, log):
    def forward(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    with torch.autograd.forward_ad.dual_level():
        for label, jvp in {
            "in place": lambda ctx, t: t.mul_(2),
            "elsewhere": lambda ctx, t: t * 2,
            "both": lambda ctx, t: t.mul_(2).clone(),
        }.items():
            attempt(log, label, lambda jvp=jvp: pushed(torch, forward, jvp, torch.ones(2)))


@cases
def jvp_of_a_write_into_a_constant(torch, log):
    def forward(ctx, a, b):
        a.mul_(b)
        ctx.mark_dirty(a)
        return a

    fw = torch.autograd.forward_ad
    Made = function(torch, forward, lambda ctx, g: (None, g), jvp=staticmethod(lambda ctx, t, s: s.clone()))
    with fw.dual_level():
        a = torch.ones(2)
        y = Made.apply(a, fw.make_dual(torch.ones(2), torch.full((2,), 3.0)))
        log(y is a, fw.unpack_dual(y).tangent, fw.unpack_dual(a).tangent)


@cases
def jvp_of_views(torch, log):
    with torch.autograd.forward_ad.dual_level():
        for label, (forward, jvp) in {
            "a view of both": (lambda ctx, a: a.view(-1), lambda ctx, t: t.view(-1)),
            "a copy": (lambda ctx, a: a.view(-1), lambda ctx, t: t.view(-1).clone()),
            "a view of something else": (lambda ctx, a: a.view(-1), lambda ctx, t: (t * 2).view(-1)),
            "as it came": (lambda ctx, a: a, lambda ctx, t: t),
            "as it came, computed": (lambda ctx, a: a, lambda ctx, t: t * 2),
            "as it came, a view": (lambda ctx, a: a, lambda ctx, t: t.view_as(t)),
        }.items():
            attempt(log, label, lambda f=forward, j=jvp: pushed(torch, f, j, torch.ones(2, 2)))


@cases
def jvp_of_outputs_without_a_derivative(torch, log):
    def forward(ctx, a):
        constant = a * 3
        ctx.mark_non_differentiable(constant)
        return a * 2, constant, torch.arange(2)

    with torch.autograd.forward_ad.dual_level():
        for label, jvp in {
            "none": lambda ctx, t: (t * 2, None, None),
            "of a constant": lambda ctx, t: (t * 2, t, None),
            "of whole numbers": lambda ctx, t: (t * 2, None, t),
        }.items():
            attempt(log, label, lambda jvp=jvp: pushed(torch, forward, jvp, torch.ones(2)))


@cases
def jvp_finds_what_was_saved_for_it(torch, log):
    for saved in ("both", "backward", "neither"):

        def forward(ctx, a, saved=saved):
            if saved != "neither":
                ctx.save_for_backward(a)
            if saved == "both":
                ctx.save_for_forward(a, None, a * 2)
            return a * a

        def jvp(ctx, t):
            log(ctx.saved_tensors)
            return t

        with torch.autograd.forward_ad.dual_level():
            log(pushed(torch, forward, jvp, torch.full((2,), 3.0)))
    attempt(log, "a number", lambda: function(
        torch, lambda ctx, a: (ctx.save_for_forward(3), a)[1], lambda ctx, g: g).apply(leaf(torch)))  # fmt: skip
