"""Forward-mode derivatives: duals go through every gradient mode but inference mode."""

from __future__ import annotations

import pytest

import undertow
from tests.oracle.harness import agree, agree_error
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_forward(program):
    agree(program)


def fwAD(torch):
    return torch.autograd.forward_ad


def dual(torch):
    return torch.autograd.forward_ad.make_dual(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.5]))


def tangent(torch, value):
    """The derivative that a tensor carries, without what it may be recorded with."""
    found = torch.autograd.forward_ad.unpack_dual(value).tangent
    return None if found is None else found.detach()


@cases
def no_grad_inside(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            y = x**2
        return torch.is_grad_enabled(), tangent(torch, y), tangent(torch, y * 3)


@cases
def no_grad_around(torch):
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        return torch.is_grad_enabled(), tangent(torch, dual(torch).exp().sum())


@cases
def a_module_under_no_grad(torch):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            return tangent(torch, layers(x))


@cases
def leaves_are_written_under_no_grad(torch):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            w.mul_(2)
            y = x.clone()
            y.mul_(w)
        return w, tangent(torch, y), tangent(torch, w)


@cases
def views_and_joins_under_no_grad(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            y = torch.cat([x[1:], x.flip(0)[:1], x.reshape(2, 1)[0]]) * 2
        return tangent(torch, y)


@cases
def detaching_cuts(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            return tangent(torch, x.detach() * 2), tangent(torch, torch.ones(2) * 3)


@cases
def inference_mode_cuts(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.inference_mode():
            y = x * 2
        return tangent(torch, y)


@cases
def after_the_level(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
    with torch.no_grad():
        y = x * 2
    return y, y.requires_grad, tangent(torch, y)


# --- what a dual shows of itself


def test_a_dual_asks_for_no_gradients():
    def program(torch):
        x, t = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        with fwAD(torch).dual_level():
            d = fwAD(torch).make_dual(x, t)
            y = d * 2
            facts = [d.requires_grad, d.is_leaf, d.grad_fn, y.requires_grad, y.is_leaf, y.grad_fn, repr(d), repr(y)]
            facts += [y.sum().item(), y.numpy(), repr(y.sum()), repr(x)]
        return facts, repr(d), d.requires_grad

    agree(program)


def test_a_dual_of_a_leaf_asks_for_them():
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        with fwAD(torch).dual_level():
            y = fwAD(torch).make_dual(x, torch.ones(2)) ** 3
            return y.requires_grad, torch.autograd.grad(fwAD(torch).unpack_dual(y).tangent.sum(), x)

    agree(program)


@pytest.mark.parametrize("call", [
    lambda torch, x: fwAD(torch).make_dual(x, x, level=1),
    lambda torch, x: fwAD(torch).unpack_dual(1),
    lambda torch, x: fwAD(torch).exit_dual_level(level=3),
])  # fmt: skip
def test_bad_arguments(call):
    def program(torch):
        with fwAD(torch).dual_level():
            call(torch, torch.ones(2))

    agree_error(program)


def test_forward_mode_can_be_switched_off():
    def program(torch):
        with fwAD(torch).dual_level():
            d = fwAD(torch).make_dual(torch.ones(2), torch.ones(2))
            with fwAD(torch)._set_fwd_grad_enabled(False):
                off = fwAD(torch).unpack_dual(d * 3).tangent, torch._C._is_fwd_grad_enabled()
            return off, fwAD(torch).unpack_dual(d * 3).tangent, torch._C._is_fwd_grad_enabled()

    agree(program)


# --- custom functions


def scaled_product(torch, log):
    class ScaledProduct(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, k):
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)
            ctx.k = k
            return x * y * k

        @staticmethod
        def backward(ctx, g):
            log("backward")
            x, y = ctx.saved_tensors
            return g * y * ctx.k, g * x * ctx.k, None

        @staticmethod
        def jvp(ctx, x_t, y_t, k_t):
            log("jvp", x_t, y_t, k_t, ctx.needs_input_grad)
            x, y = ctx.saved_tensors
            return (x_t * y + x * y_t) * ctx.k

    return ScaledProduct.apply


def test_a_custom_function_is_pushed_forward_by_its_jvp():
    def program(torch, log):
        product = scaled_product(torch, log)
        x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        with fwAD(torch).dual_level():
            d = fwAD(torch).make_dual(x, torch.ones(2))
            once = product(d, y, 3)
            twice = product(once, d, 2)
            total = (twice * once).sum()
            return [
                fwAD(torch).unpack_dual(each) for each in (once, twice, total, product(x, y, 1))
            ], once.requires_grad

    agree(program)


def test_gradients_through_a_jvp():
    def program(torch, log):
        product = scaled_product(torch, log)
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with fwAD(torch).dual_level():
            d = fwAD(torch).make_dual(x, torch.ones(2))
            primal, tangent = fwAD(torch).unpack_dual(product(d, d, 3))
            return torch.autograd.grad(tangent.sum(), x), torch.autograd.grad(primal.sum(), x)

    agree(program)


def test_a_jvp_of_a_function_that_writes():
    def program(torch):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def jvp(ctx, t):
                return t.mul_(2)

        with fwAD(torch).dual_level():
            x = fwAD(torch).make_dual(torch.ones(2), torch.ones(2)) * 1
            return Double.apply(x) is x, fwAD(torch).unpack_dual(x)

    agree(program)


ANSWERS = {
    "a pair": lambda t: (t * 2, t * 3),
    "too few": lambda t: t * 2,
    "too many": lambda t: (t, t, t),
    "another size": lambda t: (t[:1], t),
    "no tensor": lambda t: ("a", t),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_jvp_may_return(answer):
    def program(torch):
        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def jvp(ctx, t):
                return ANSWERS[answer](t)

        with fwAD(torch).dual_level():
            outputs = Two.apply(fwAD(torch).make_dual(torch.ones(2), torch.ones(2)))
            return [fwAD(torch).unpack_dual(output).tangent for output in outputs]

    agree(program)


def test_a_function_without_a_jvp_is_refused():
    def program(torch):
        class Plain(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        with fwAD(torch).dual_level():
            Plain.apply(fwAD(torch).make_dual(torch.ones(2), torch.ones(2)))

    agree_error(program)


# --- what programs see of it ---------------------------------------------------------------------------------------------


@cases
def hooks_do_not_fire_when_a_derivative_is_asked_for(torch, log):
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    leaf.register_hook(lambda g: log("leaf", g))
    leaf.register_post_accumulate_grad_hook(lambda leaf: log("accumulated", leaf.grad))
    with fwAD(torch).dual_level():
        y = fwAD(torch).make_dual(leaf, torch.ones(2)) * 2
        y.retain_grad()
        y.register_hook(lambda g: log("tensor", g))
        y.grad_fn.register_prehook(lambda grads: log("before"))
        y.grad_fn.register_hook(lambda grads, outer: log("after"))
        z = y.sin()
        derivative = fwAD(torch).unpack_dual(z).tangent
        log(derivative, derivative.requires_grad, fwAD(torch).unpack_dual(derivative).tangent, str(derivative), y.grad)
        z.sum().backward()
    return leaf.grad, y.grad


def functions_that_push(torch):
    yield lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))
    yield lambda f, x: torch.func.jacfwd(f)(x)
    yield lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True, strategy="forward-mode")
    yield lambda f, x: torch.func.jvp(torch.func.grad(lambda x: f(x).sum()), (x,), (torch.ones_like(x),))
    yield lambda f, x: torch.autograd.functional.jvp(f, x, torch.ones_like(x))


@cases
def what_is_pushed_forward_shows_no_gradients(torch, log):
    """And so it takes no hooks; nested in `grad` it does, and by the double-backward trick."""
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    weight.register_hook(lambda g: log("weight", g))

    def function(x):
        y = x * weight * x
        log(x.requires_grad, y.requires_grad, y.is_leaf, y.grad_fn is None, weight.requires_grad)
        attempt(log, "hook", lambda: y.register_hook(lambda g: log("fires")) is None)
        return y.sin()

    for push in functions_that_push(torch):
        log("next")
        found = push(function, torch.tensor([0.5, 1.0]))
        log([value.detach() for value in (found if isinstance(found, tuple) else (found,))])


@cases
def saved_tensors_of_what_is_pushed_forward_are_not_packed(torch, log):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (log("pack"), t)[1], lambda t: (log("unpack"), t)[1]):
        with fwAD(torch).dual_level():
            log(tangent(torch, (dual(torch) ** 2).exp()))
        log(torch.func.jvp(lambda x: (x * x).exp(), (torch.ones(2),), (torch.ones(2),)))
        log(torch.func.jacfwd(lambda x: (x * x).exp())(torch.ones(2)))
        x = torch.ones(2, requires_grad=True)
        (x * x).exp().sum().backward()


@cases
def hooks_of_modules_do_not_fire(torch, log):
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *given: log("backward"))
    layer.register_full_backward_pre_hook(lambda *given: log("backward before"))
    layer.register_forward_hook(lambda *given: log("forward"))
    value, derivative = torch.func.jvp(lambda x: layer(x).sin(), (torch.ones(1, 2),), (torch.ones(1, 2),))
    (value.sum() + derivative.sum()).backward()
    return value.detach(), derivative.detach(), layer.weight.grad


@cases
def tensors_kept_past_the_level_are_plain(torch, log):
    leaf = torch.ones(2, requires_grad=True)
    early = torch.zeros(2)
    view = early[1:]
    with fwAD(torch).dual_level():
        x = dual(torch)
        y = x * 2
        early.copy_(x)
        written = torch.zeros(2)
        written[0] = x[0]
        with torch.no_grad():
            quiet = x.exp()
        mixed = y * leaf
        kept = [
            x,
            y,
            y[0],
            y.sum(),
            y.detach(),
            early,
            view,
            written,
            written[1:],
            quiet,
            y.view(2).sin(),
            x.unbind()[1],
        ]
        log([(value.requires_grad, value.is_leaf, value.grad_fn) for value in kept], mixed.requires_grad)
        both = (mixed + y).sum()
    log([(value.requires_grad, value.is_leaf, value.grad_fn, str(value)) for value in kept])
    log(mixed.requires_grad, both.requires_grad, [edge[0] is None for edge in mixed.grad_fn.next_functions])
    attempt(log, "backward", lambda: y.sum().backward())
    both.backward()
    log(leaf.grad, x.grad, (y * y).requires_grad, y.numpy().tolist())
    y.requires_grad_().sum().backward()
    (y.detach() * leaf).sum().backward()
    return y.grad, leaf.grad, written.mul_(2)


@cases
def outputs_of_custom_functions_keep_their_node(torch, log):
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def jvp(ctx, t):
            return t * 2, t * 30  # not what backward says, to tell which was asked

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    leaf = torch.ones(2, requires_grad=True)
    with fwAD(torch).dual_level():
        one, other = Two.apply(dual(torch))
        log(one.requires_grad, tangent(torch, one), tangent(torch, one * other), tangent(torch, other.sin() + one))
        with torch.no_grad():
            one, other = Two.apply(dual(torch))
            both = one * other
        log(both.requires_grad, tangent(torch, one), tangent(torch, both))
        one, other = Two.apply(fwAD(torch).make_dual(leaf, torch.ones(2)))
        one.register_hook(lambda g: log("hook", g))
        again = Two.apply(one)[1]
        log(one.grad_fn.name(), again.grad_fn.name(), tangent(torch, again), tangent(torch, again * other))
        again.sum().backward()
    return leaf.grad, one.grad_fn.name(), [edge[0].name() for edge in again.grad_fn.next_functions]


@cases
def custom_functions_are_pushed_forward_by_their_own_rule(torch, log):
    class Scaled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x**2 * y, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t, u):
            x, y = ctx.saved_tensors
            return 20 * t * x * y + u * x**2, t + u  # ten times too much, to tell that it was asked

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return 2 * g * x * y + h, g * x**2 + h

    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t):
            return 3 * t * ctx.saved_for_forward[0] ** 2

    func, x, y = torch.func, torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0])
    log(func.jvp(Scaled.apply, (x, y), (x, y)), func.jacfwd(lambda x: Scaled.apply(x, y)[0])(x))
    log(func.grad(lambda x: Scaled.apply(x, y)[0].sum())(x), func.linearize(lambda x: Scaled.apply(x, y)[0], x)[1](y))
    log(func.grad(lambda x: func.jvp(lambda z: Scaled.apply(z, y)[0], (x,), (x,))[1].sum())(x))
    log(func.jvp(Cube.apply, (x,), (y,)), func.jacfwd(Cube.apply)(x))
    attempt(log, "backward", lambda: func.grad(lambda x: Cube.apply(x).sum())(x))


def test_a_function_without_a_jvp_is_not_pushed_forward_either():
    def program(torch):
        class Plain(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g * 2

        torch.func.jvp(Plain.apply, (torch.ones(2),), (torch.ones(2),))

    agree_error(program)


@cases
def gradients_have_derivatives(torch, log):
    """Forward over reverse: products with a Hessian."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    with fwAD(torch).dual_level():
        d = fwAD(torch).make_dual(x, torch.tensor([1.0, 0.5]))
        for wanted in (d, (x, weight), (weight, d)):
            found = torch.autograd.grad((d**3 * weight).sum(), wanted)
            log([(gradient, tangent(torch, gradient), tangent(torch, (gradient * 2).sin())) for gradient in found])
        (seeded,) = torch.autograd.grad(weight * 2, weight, grad_outputs=d * 3)
        log(seeded, tangent(torch, seeded), tangent(torch, torch.autograd.grad((weight * 2).sum(), weight)[0]))
        (recorded,) = torch.autograd.grad((d**3 * weight).sum(), d, create_graph=True)
        log(recorded.requires_grad, tangent(torch, recorded))
        log(torch.autograd.grad((d * 2).sum(), weight, allow_unused=True))
    return seeded


@cases
def inputs_of_functions_that_are_differentiated_are_leaves(torch, log):
    def function(x):
        y = x * 2
        log(x.requires_grad, x.is_leaf, x.grad_fn, x.grad, y.requires_grad, y.is_leaf, y.grad_fn.name())
        attempt(log, "write", lambda: x.mul_(2) is None)
        attempt(log, "write through a view", lambda: x[:1].mul_(2) is None)
        attempt(log, "backward", lambda: y.sum().backward())
        y.mul_(3)
        return y.sum()

    log(torch.func.grad(function)(torch.ones(2)), torch.func.vjp(function, torch.ones(2))[1](torch.tensor(2.0)))


@cases
def a_dual_of_a_leaf_under_no_grad(torch, log):
    """What is computed there carries a derivative and asks for no gradients, whatever is computed from it later."""
    forward = torch.autograd.forward_ad
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with forward.dual_level():
        d = forward.make_dual(x, torch.tensor([1.0, 2.0]))
        with torch.no_grad():
            results = [d * 3, torch.stack([d, d]), torch.nn.functional.linear(d, torch.ones(3, 2)), d.clone().mul_(2)]
            for result in (*results, d.view(1, 2), *d.split(1)):
                log(result.requires_grad, result.is_leaf, result.grad_fn is None, tangent(torch, result))
        for result in (results[0] * 2, results[0] * w, results[0] + d):
            log(result.requires_grad, tangent(torch, result))
        (results[0] * w + d).sum().backward()
        log(w.grad, x.grad)
    with torch.no_grad(), forward.dual_level():
        d = forward.make_dual(x, torch.tensor([1.0, 2.0]))
        inside = d * 3
        with torch.enable_grad():
            log(inside.requires_grad, (d * w).requires_grad, (d * 2).requires_grad)
    return inside, results[0], results[0].requires_grad


@cases
def a_dual_that_is_made_a_leaf(torch, log):
    """`requires_grad_()` on duals, on what is computed from them and on views: leaves that keep their tangents."""
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        for make in (lambda d: d, lambda d: d * 2, lambda d: d.detach(), lambda d: d[:1], lambda d: d.clone().mul_(2)):
            d = make(forward.make_dual(torch.ones(2), torch.tensor([1.0, 2.0])))
            d.requires_grad_()
            d.register_hook(lambda gradient: log("hook", gradient))
            d.register_post_accumulate_grad_hook(lambda leaf: log("accumulated", leaf.grad))
            log(d.requires_grad, d.is_leaf, d.grad_fn, tangent(torch, d), tangent(torch, d.sin()))
            (d * d).sum().backward()
            log(d.grad, torch.autograd.grad(tangent(torch, d.sin()).sum(), d))
            attempt(log, "write", lambda d=d: d.mul_(2))
            with torch.no_grad():
                d.mul_(3)
            log(d.is_leaf, d.requires_grad, tangent(torch, d))
            d.requires_grad_(False)
            log(d.requires_grad, tangent(torch, d))
            d.requires_grad = True
    d.grad = None
    (d * 5).sum().backward()
    return d.grad, d.is_leaf, d.requires_grad


def test_a_dual_that_is_written_with_itself():
    """PyTorch multiplies the tangent by itself here, which is wrong; undertow's is that of the same step out of place."""
    forward = undertow.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(undertow.tensor([2.0, 3.0]), undertow.tensor([1.0, 10.0]))
        dual.mul_(dual)
        assert forward.unpack_dual(dual).tangent.tolist() == [4.0, 60.0]
