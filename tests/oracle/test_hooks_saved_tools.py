"""What stands on saved-tensor hooks: save_on_cpu, disabling, hooks on one saved value, mutation made safe."""

from __future__ import annotations

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, succeeds

cases = Table()


@cases.test
def test_saved_tensor_tools(program):
    agree(program, graph=True)


@cases
def save_on_cpu(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    return x.grad


@cases
def save_on_cpu_keeps_a_copy(torch, log):
    x = leaf(torch)
    y = x * 1
    with torch.autograd.graph.save_on_cpu():
        z = y.sin()
    y.mul_(2)
    attempt(log, "backward after a write", lambda: z.sum().backward())
    return x.grad


@cases
def save_on_cpu_unpinned_and_with_a_device(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.save_on_cpu(pin_memory=False, device_type="cpu"):
        x.exp().sum().backward()
    return x.grad


# --- disable_saved_tensors_hooks -----------------------------------------------------------------------------------------


@cases
def disabled_with_a_message(torch, log):
    def inside():
        with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here, thank you"):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass

    attempt(log, "inside", inside)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        log("allowed again", leaf(torch).exp())


@cases
def disabled_when_hooks_are_active(torch, log):
    def inside():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            with torch.autograd.graph.disable_saved_tensors_hooks("too late"):
                log("body runs", leaf(torch).exp())

    attempt(log, "inside", inside)


@cases
def disabled_and_nested(torch, log):
    def hooks():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    with torch.autograd.graph.disable_saved_tensors_hooks("outer"):
        with torch.autograd.graph.disable_saved_tensors_hooks("inner"):
            attempt(log, "inner", hooks)
        attempt(log, "outer", hooks)
    attempt(log, "outside", hooks)


@cases
def disabled_as_a_decorator(torch, log):
    @torch.autograd.graph.disable_saved_tensors_hooks("not in this function")
    def function():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return 1

    attempt(log, "function", function)


# --- one saved value -----------------------------------------------------------------------------------------------------


@cases
def saved_values_by_name(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = x * w
    log(y.grad_fn._saved_self, y.grad_fn._saved_other, y.grad_fn._saved_self is x)
    y.sum().backward()
    attempt(log, "freed", lambda: y.grad_fn._saved_self)
    attempt(log, "freed raw", lambda: type(y.grad_fn._raw_saved_self).__name__)
    attempt(log, "unknown", lambda: y.grad_fn._saved_nothing)


@cases
def saved_output_is_the_output(torch, log):
    x = leaf(torch)
    y = x.exp()
    log(y.grad_fn._saved_result, y.grad_fn._saved_result.grad_fn is y.grad_fn, y.grad_fn._saved_result is y)


@cases
def raw_saved_values_take_hooks(torch, log):
    x = leaf(torch)
    y = x.sin()
    y.grad_fn._raw_saved_self.register_hooks(
        lambda t: log("pack", t) or (t.detach() * 2), lambda t: log("unpack", t) or t
    )
    log("registered")
    y.sum().backward()
    return x.grad


@cases
def raw_saved_values_take_hooks_once(torch, log):
    x = leaf(torch)
    y = x.sin()
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: t, lambda t: t)
    attempt(log, "again", lambda: raw.register_hooks(lambda t: t, lambda t: t))
    attempt(log, "not callable", lambda: x.exp().grad_fn._raw_saved_result.register_hooks(1, 2))
    attempt(log, "too few", lambda: x.exp().grad_fn._raw_saved_result.register_hooks(lambda t: t))


@cases
def raw_saved_values_under_default_hooks(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.sin()
    attempt(log, "again", lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))


@cases
def raw_saved_values_after_they_are_freed(torch, log):
    x = leaf(torch)
    y = x.sin()
    raw = y.grad_fn._raw_saved_self
    y.sum().backward()
    attempt(log, "freed", lambda: raw.register_hooks(lambda t: t, lambda t: t))


@cases
def raw_saved_values_that_are_not_there(torch, log):
    y = leaf(torch) * 2
    log(y.grad_fn._saved_self, y.grad_fn._saved_other)
    attempt(log, "undefined", lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))


@cases
def raw_pack_that_writes_in_place(torch, log):
    y = leaf(torch) * 1
    z = y.sin()
    succeeds(log, "in place", lambda: z.grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t))


@cases
def raw_saved_tensors_of_a_custom_function(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[1]

    x = leaf(torch)
    y = Square.apply(x)
    log(y.grad_fn.saved_tensors, len(y.grad_fn._raw_saved_tensors))
    y.grad_fn._raw_saved_tensors[1].register_hooks(lambda t: log("pack", t) or t, lambda t: log("unpack", t) or t * 10)
    y.sum().backward()
    return x.grad


# --- allow_mutation_on_saved_tensors -------------------------------------------------------------------------------------


@cases
def mutation_is_allowed(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.sin()
        y.mul_(100)
        z.sum().backward()
    return x.grad


@cases
def mutation_of_views_is_allowed(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        v = y[0]
        z = y * v
        v.mul_(100)
        y.add_(3)
        z.sum().backward()
    return x.grad


@cases
def mutation_of_an_output_is_allowed(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        y.mul_(100)
        y.sum().backward()
    return x.grad


@cases
def mutation_outside_the_context_is_still_caught(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.sin()
    y.mul_(2)
    attempt(log, "after", lambda: z.sum().backward(), words=6)


@cases
def mutation_context_gives_an_object_to_clear(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * 1
        z = y.sin()
        y.mul_(2)
        context.clear()
        attempt(log, "cleared", lambda: z.sum().backward(), words=6)


@cases
def mutation_contexts_do_not_nest(torch, log):
    def nested():
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                pass

    attempt(log, "nested", nested)


@cases
def backward_after_the_mutation_context(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.sin()
        y.mul_(2)
    attempt(log, "outside", lambda: z.sum().backward(), words=6)


@cases
def leaf_mutation_in_no_grad_is_allowed(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.sin()
        with torch.no_grad():
            x.mul_(100)
        y.sum().backward()
    return x.grad


# --- looking at what is kept, without unpacking it -----------------------------------------------------------------------


@cases
def raw_saved_values_are_looked_at_without_hooks(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (log("pack"), t.shape)[1], lambda s: log("unpack")):
        packed = x.exp()
    raw = packed.grad_fn._raw_saved_result
    log("packed", raw.data, callable(raw.unpack_hook))
    result, product = x.exp(), x * x
    log("plain", result.grad_fn._raw_saved_result.data.requires_grad, result.grad_fn._raw_saved_result.unpack_hook)
    log("an input is itself", product.grad_fn._raw_saved_self.data is x)
    log("nothing kept", (x * 2).grad_fn._raw_saved_self.data)
    (result + product).sum().backward()
    log("freed", result.grad_fn._raw_saved_result.data, product.grad_fn._raw_saved_self.data)
    return x.grad


def test_what_is_kept_of_tensors_that_are_written():
    def program(torch, log):
        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.allow_mutation_on_saved_tensors() as kept:

            def count():
                log(len(kept.cloned), len(kept.original), len(kept.tid_to_weakhandle), len(kept.sid_to_tid))

            y = x.clone()
            z, part = y * y, y[:2].cos()
            count()
            y.mul_(3)
            count()
            (z.sum() + part.sum()).backward()
            log(x.grad)
            del z, part
            count()
        count()

    agree(program)


def test_memory_that_is_used_again_is_not_taken_for_what_was_kept():
    x = undertow.ones(3, requires_grad=True)
    with undertow.autograd.graph.allow_mutation_on_saved_tensors():
        products = []
        for turn in range(200):
            factor = undertow.full((3,), float(turn))
            products.append(x * factor)
            factor.zero_()
            del factor  # the next one may get its memory, and the ids of its parts
        assert [undertow.autograd.grad(each.sum(), x)[0][0].item() for each in products] == list(range(200))
