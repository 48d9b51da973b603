"""Custom `autograd.Function`: both styles, every method of ctx, and what apply returns."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, names

cases = Table()


@cases.test
def test_function(program):
    agree(program, graph=True)


# --- the two styles ------------------------------------------------------------------------------------------------------


@cases
def ctx_style(torch, log):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("forward", x, torch.is_grad_enabled(), x.requires_grad)
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("backward", g, x, torch.is_grad_enabled(), type(ctx).__name__)
            return g * 3 * x**2

    x = leaf(torch)
    y = Cube.apply(x)
    log(y, y.grad_fn.name(), type(y.grad_fn).__name__, names(y.grad_fn))
    y.sum().backward()
    return x.grad


@cases
def setup_context_style(torch, log):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x, power):
            log("forward", x, power, torch.is_grad_enabled())
            return x**power, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, power = inputs
            log("setup", inputs, output, type(inputs).__name__, type(output).__name__, torch.is_grad_enabled())
            ctx.power = power
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g, h):
            log("backward", g, h)
            return g * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1) + 2 * h, None

    x = leaf(torch)
    cubed, doubled = Cube.apply(x, 3)
    (cubed + doubled).sum().backward()
    return x.grad


@cases
def arguments_may_be_anything(torch, log):
    def forward(ctx, x, number, text, nothing, items, w):
        log(number, text, nothing, items)
        ctx.save_for_backward(x, w)
        return x * w * number

    def backward(ctx, g):
        log(ctx.needs_input_grad)
        x, w = ctx.saved_tensors
        return g * w, None, None, None, None, g * x

    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = function(torch, forward, backward).apply(x, 2.0, "text", None, [x, 1], w)
    log(names(y.grad_fn))
    y.sum().backward()
    return x.grad, w.grad


@cases
def keyword_arguments_are_taken(torch, log):
    Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    x = leaf(torch)
    attempt(log, "keyword", lambda: Made.apply(x=x))
    attempt(log, "backward", lambda: Made.apply(x=x).sum().backward())
    return x.grad


@cases
def arguments_that_only_have_a_name_are_refused(torch, log):
    def backward(ctx, g):
        return g, None

    def with_ctx(ctx, x, factor=2.0, *, power=1):
        return x**power * factor

    def without(x, factor=2.0, *, power=1):
        return x**power * factor

    def anything(ctx, x, factor=2.0, **options):
        log(options)
        return x * factor

    apart = {"setup_context": lambda ctx, inputs, output: log(inputs)}
    for forward, more in ((with_ctx, {}), (without, apart), (anything, {})):
        made = type("Made", (torch.autograd.Function,), {
            "forward": staticmethod(forward), "backward": staticmethod(backward),
            **{name: staticmethod(value) for name, value in more.items()}})  # fmt: skip
        x = leaf(torch)
        for options in ({}, {"factor": 3.0}, {"power": 3}, {"unknown": 3}, {"x": x}):
            attempt(log, options.keys(), lambda made=made, x=x, options=options: made.apply(x, **options))
        attempt(log, "by name", lambda made=made, x=x: made.apply(factor=4.0, x=x))


@cases
def calling_the_class_is_refused(torch, log):
    Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    attempt(log, "call", lambda: Made()(leaf(torch)))
    attempt(log, "forward missing", lambda: type("Empty", (torch.autograd.Function,), {}).apply(leaf(torch)))


@cases
def attributes_of_ctx_are_on_the_node(torch, log):
    def forward(ctx, x):
        ctx.mine = "hello"
        return x * 2

    def backward(ctx, g):
        log(ctx.mine, ctx.other)
        return g * 2

    y = function(torch, forward, backward).apply(leaf(torch))
    log(y.grad_fn.mine)
    y.grad_fn.other = 5
    y.sum().backward()


# --- what needs a graph --------------------------------------------------------------------------------------------------


OWN_NAMES = (
    "edges extras tensor_hooks sequence_nr n_outputs run release takes order saved outputs inputs input_specs output_specs "
    "get_extras hooked_outputs name variable node level rule needs_input_grad apply_jvp statics post_grad"
).split()


@cases
def ctx_keeps_what_it_is_given_under_any_name(torch, log):
    """In forward, in backward and from outside; hooks, errors and the freed graph are as ever."""

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, name):
            ctx.chosen = name
            setattr(ctx, name, "forward")
            ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            log(ctx.chosen, getattr(ctx, ctx.chosen))
            setattr(ctx, ctx.chosen, "backward")
            return g * 2 + h * 3 + ctx.saved_tensors[0], None

    for name in OWN_NAMES:
        x = leaf(torch)
        y, z = Keeps.apply(x * 1, name)
        y.retain_grad()
        y.register_hook(lambda g: log("tensor hook", g))
        y.grad_fn.register_prehook(lambda grads: log("pre-hook", grads))
        y.grad_fn.register_hook(lambda grads, outer: log("post-hook", grads, outer))
        for kept in (y.grad_fn, (y + z).grad_fn.next_functions[0][0]):
            log(getattr(kept, name))
        (y + z).sum().backward()
        log(getattr(y.grad_fn, name), x.grad, y.grad)
        attempt(log, "again", lambda: y.sum().backward())
        setattr(z.grad_fn, name, "outside")
        attempt(log, "again", lambda: z.sum().backward())


@cases
def ctx_keeps_lists_and_switches_of_its_own(torch, log):
    class Sets(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, name, value):
            log(ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable)
            setattr(ctx, name, value)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log(ctx.saved_tensors)
            return g * 2, None, None

    x = leaf(torch)
    for name, value in (
        ("to_save", (x,)), ("to_save", [x]), ("to_save", x), ("dirty_tensors", [x]), ("non_differentiable", 5),
        ("materialize_grads", False), ("materialize_grads", 1),
    ):  # fmt: skip
        attempt(log, name, lambda name=name, value=value: Sets.apply(x, name, value).sum().backward())


@cases
def without_inputs_that_require_grad(torch, log):
    Made = function(torch, lambda ctx, x: log(ctx.needs_input_grad) or x * 2, lambda ctx, g: g * 2)
    y = Made.apply(torch.ones(2))
    log(y, y.grad_fn, y.requires_grad)
    with torch.no_grad():
        log(Made.apply(leaf(torch)))


@cases
def needs_input_grad(torch, log):
    def forward(ctx, x, number, w):
        log("forward", ctx.needs_input_grad)
        return x * w

    def backward(ctx, g):
        log("backward", ctx.needs_input_grad)
        return tuple(g if needed else None for needed in ctx.needs_input_grad)

    Made = function(torch, forward, backward)
    x, w = leaf(torch), leaf(torch)
    Made.apply(x, 1, w).sum().backward()
    Made.apply(x.detach(), 1, w).sum().backward()
    Made.apply(x, w, x.detach()).sum().backward()
    Made.apply(torch.tensor([1, 2]), 1, w).sum().backward()
    y = Made.apply(x * 1, 1, w * 1)
    torch.autograd.grad(y.sum(), x)


@cases
def gradients_that_are_not_needed_are_dropped(torch, log):
    Made = function(torch, lambda ctx, x, w: x * w, lambda ctx, g: (g * 2, g * 3))
    x = leaf(torch)
    Made.apply(x, torch.ones(2)).sum().backward()
    return x.grad


# --- saved tensors -------------------------------------------------------------------------------------------------------


@cases
def saved_tensors_are_the_same_objects(torch, log):
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, None, y)
        ctx.x = x
        return y

    def backward(ctx, g):
        x, nothing, y = ctx.saved_tensors
        log(nothing, x is ctx.x, x, y, y.grad_fn is ctx)
        return g

    x = leaf(torch)
    y = function(torch, forward, backward).apply(x)
    log(y.grad_fn.saved_tensors)
    y.sum().backward()


@cases
def saved_tensors_are_freed(torch, log):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    x = leaf(torch)
    y = function(torch, forward, backward).apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    attempt(log, "third backward", lambda: y.sum().backward())
    attempt(log, "saved_tensors", lambda: y.grad_fn.saved_tensors)
    Other = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    z = Other.apply(x)
    z.sum().backward()
    attempt(log, "nothing saved", lambda: z.sum().backward())
    return x.grad


@cases
def saved_tensors_are_checked_for_writes(torch, log):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    Made = function(torch, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf(torch) * 1
    y = Made.apply(x)
    x.add_(1)
    attempt(log, "backward", lambda: y.sum().backward())


@cases
def save_for_backward_wants_tensors(torch, log):
    Made = function(torch, lambda ctx, x: ctx.save_for_backward(3) or x * 2, lambda ctx, g: g)
    attempt(log, "number", lambda: Made.apply(leaf(torch)))
    Made = function(torch, lambda ctx, x: ctx.save_for_backward([x]) or x * 2, lambda ctx, g: g)
    attempt(log, "list", lambda: Made.apply(leaf(torch)))


@cases
def save_for_backward_twice_keeps_the_last(torch, log):
    def forward(ctx, x):
        ctx.save_for_backward(x, x)
        ctx.save_for_backward(x * 10)
        return x * 2

    y = function(torch, forward, lambda ctx, g: g).apply(leaf(torch))
    log(y.grad_fn.saved_tensors)


@cases
def saved_tensors_when_nothing_was_saved(torch, log):
    y = function(torch, lambda ctx, x: x * 2, lambda ctx, g: log(ctx.saved_tensors) or g).apply(leaf(torch))
    log(y.grad_fn.saved_tensors)
    y.sum().backward()


# --- outputs -------------------------------------------------------------------------------------------------------------


@cases
def outputs_of_many_kinds(torch, log):
    def forward(ctx, x):
        return x * 2, 5, "text", None, x > 1, x.long(), [x * 3]

    def backward(ctx, *grads):
        log([g is None for g in grads], grads[0])
        return grads[0]

    x = leaf(torch)
    outputs = function(torch, forward, backward).apply(x)
    log(type(outputs).__name__, outputs[:6], outputs[6][0].requires_grad)
    outputs[0].sum().backward()


@cases
def several_outputs_with_missing_gradients(torch, log):
    def backward(ctx, *grads):
        log("backward", grads)
        return sum(g for g in grads if g is not None)

    def forward(ctx, x):
        return x * 2, x * 3, x.sum()

    def without(ctx, x):
        ctx.set_materialize_grads(False)
        return forward(ctx, x)

    x = leaf(torch)
    a, b, c = function(torch, forward, backward).apply(x)
    log(a.output_nr, b.output_nr, c.output_nr)
    b.sum().backward()
    a, b, c = function(torch, without, backward).apply(x)
    b.sum().backward()
    return x.grad


@cases
def returning_an_input_as_it_is(torch, log):
    Made = function(torch, lambda ctx, x: x, lambda ctx, g: log("backward", g) or g * 10)
    x = leaf(torch)
    y = Made.apply(x)
    log(y is x, y, y.grad_fn.name(), y._is_view(), x.grad_fn, y.data_ptr() == x.data_ptr())
    y.sum().backward()
    z = x * 1
    w = Made.apply(z)
    log(w is z, names(w.grad_fn, 2), z)
    w.sum().backward()
    return x.grad


@cases
def returning_a_view_of_an_input(torch, log):
    Made = function(torch, lambda ctx, x: x[:1], lambda ctx, g: log("backward", g) or torch.cat([g, g * 0]))
    x = leaf(torch)
    y = Made.apply(x * 1)
    log(y, y._is_view())
    y.sum().backward()
    log(x.grad)
    y = Made.apply(x * 1)
    attempt(log, "write", lambda: y.mul_(2) is y)


@cases
def writing_in_place_to_an_output(torch, log):
    Made = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    x = leaf(torch)
    y = Made.apply(x)
    y.mul_(3)
    log(names(y.grad_fn))
    y.sum().backward()
    Pair = function(torch, lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
    a, b = Pair.apply(x)
    a.mul_(5)
    (a + b).sum().backward()
    return x.grad


@cases
def non_differentiable_outputs(torch, log):
    def forward(ctx, x):
        values, indices = x.sort()
        rounded = x.round()
        ctx.mark_non_differentiable(indices, rounded)
        return values, indices, rounded

    def backward(ctx, g, g_indices, g_rounded):
        log(g, g_indices, g_rounded)
        return g

    x = leaf(torch)
    values, indices, rounded = function(torch, forward, backward).apply(x)
    log(values.requires_grad, indices.requires_grad, rounded.requires_grad, rounded.grad_fn, rounded.is_leaf)
    (values * rounded).sum().backward()
    return x.grad


@cases
def in_place_function(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(torch)
    y = x * 1
    before = y._version
    z = Double.apply(y)
    log(z is y, y, y._version - before, names(y.grad_fn))
    (y * y).sum().backward()
    log(x.grad)
    attempt(log, "leaf", lambda: Double.apply(x))
    log(x)
    plain = torch.ones(2)
    log(Double.apply(plain) is plain, plain, plain._version)


@cases
def in_place_function_on_a_view(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            log("backward", g)
            return g * 2

    x = leaf(torch)
    y = x * 1
    view = y[:1]
    Double.apply(view)
    log(y, view)
    (y * 10).sum().backward()
    return x.grad


@cases
def names_of_subclasses(torch, log):
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Inner(Outer):
        pass

    x = leaf(torch)
    for kind in (Outer, Inner):
        y = kind.apply(x)
        log(y.grad_fn.name(), type(y.grad_fn).__name__, repr(y))
    log(isinstance(y.grad_fn, torch.autograd.graph.Node))


@cases
def jvp_and_vmap_methods_are_ignored_in_reverse_mode(torch, log):
    Made = function(
        torch,
        lambda ctx, x: x * 2,
        lambda ctx, g: g * 2,
        jvp=staticmethod(lambda ctx, t: log("never")),
        vmap=staticmethod(lambda *a: log("never")),
        generate_vmap_rule=False,
    )
    x = leaf(torch)
    Made.apply(x).sum().backward()
    return x.grad


@cases
def vjp_in_place_of_backward(torch, log):
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(torch)
    attempt(log, "backward", lambda: Made.apply(x).sum().backward())
    return x.grad


# --- outputs that are views, when the memory is written to ---------------------------------------------------------------


@cases
def a_view_is_not_given_another_history_in_silence(torch, log):
    for forward in (lambda ctx, a: a, lambda ctx, a: a[:1], lambda ctx, a: a.view(2)):
        x = leaf(torch)
        base = x * 1
        y = function(torch, forward, lambda ctx, g: g.expand(2) * 7).apply(base)
        base.mul_(2)
        log(y.requires_grad)
        attempt(log, "used", lambda y=y: y * 2)
        attempt(log, "asked", lambda y=y: y.grad_fn)
        attempt(log, "backward", lambda y=y: y.sum().backward())


@cases
def an_input_that_is_a_view_is_handed_back(torch, log):
    x = leaf(torch, 1.0, 2.0, 3.0)
    base = x * 1
    y = function(torch, lambda ctx, a: a, lambda ctx, g: g * 7).apply(base[1:])
    log(y, y._base is base)
    with torch.no_grad():
        y.mul_(3)
    attempt(log, "used", lambda: y * 2)
    plain = torch.ones(3)
    y = function(torch, lambda ctx, a: a, lambda ctx, g: g * 7).apply(plain[1:])
    log(y._is_view(), y._base is plain, y.requires_grad)
    y.add_(1)
    attempt(log, "recorded", lambda: y.mul_(leaf(torch)))
    return plain


@cases
def a_written_view_must_be_the_only_output(torch, log):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2), a * 1

    made = function(torch, forward, lambda ctx, g, h: g * 2 + h)
    x = leaf(torch, 1.0, 2.0, 3.0)
    attempt(log, "view", lambda: made.apply((x * 1)[:2]))
    attempt(log, "view without gradients", lambda: made.apply(torch.ones(3)[:2]))
    attempt(log, "no view", lambda: made.apply(x * 1))


# --- what the node shows -------------------------------------------------------------------------------------------------


@cases
def what_ctx_shows_of_its_marks(torch, log):
    def forward(ctx, a, b):
        log(ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable)
        ctx.save_for_backward(a)
        ctx.mark_dirty(b)
        result = a * 2
        ctx.mark_non_differentiable(result)
        log(ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable)
        return b, result

    y, _ = function(torch, forward, lambda ctx, *grads: (None, None)).apply(leaf(torch), torch.ones(2))
    log(y.grad_fn.to_save, y.grad_fn.saved_tensors)
    return repr(y.grad_fn)
