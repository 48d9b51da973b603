"""`Tensor.register_hook`: when it fires, with what, and what its result does."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, note

cases = Table()


@cases.test
def test_tensor_hooks(program):
    agree(program, graph=True)


# --- where a hook may sit -------------------------------------------------------------------------------------------


@cases
def on_a_leaf(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    (x * x).sum().backward()
    return x.grad


@cases
def on_a_non_leaf(torch, log):
    x = leaf(torch)
    y = x * 3
    y.register_hook(note(log, "y"))
    (y * y).sum().backward()
    return x.grad


@cases
def on_the_root(torch, log):
    x = leaf(torch)
    root = (x * 3).sum()
    root.register_hook(note(log, "root", lambda g: g * 2))
    root.backward()
    return x.grad


@cases
def once_with_the_sum_of_all_uses(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    y = x * 2
    y.register_hook(note(log, "y"))
    (y + y * 3 + y.exp() + x).sum().backward()
    return x.grad


@cases
def once_per_backward(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    root = (x * 3).sum()
    for scale in (1.0, 2.0, 5.0):
        root.backward(torch.tensor(scale), retain_graph=True)
        log("grad", x.grad)


@cases
def on_a_view_of_a_non_leaf(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[:1]
    y.register_hook(note(log, "y"))
    v.register_hook(note(log, "v"))
    (v * 5 + y).sum().backward()
    return x.grad


@cases
def on_a_view_of_a_leaf(torch, log):
    x = leaf(torch)
    v = x.view(2, 1)
    v.register_hook(note(log, "v"))
    x.register_hook(note(log, "x"))
    (v * v).sum().backward()
    return x.grad


@cases
def on_a_view_that_is_not_used(torch, log):
    x = leaf(torch)
    y = x * 2
    y[0].register_hook(note(log, "never"))
    y.sum().backward()


@cases
def needs_requires_grad(torch, log):
    log("is None before any hook", torch.ones(2)._backward_hooks is None)
    for label, tensor in {
        "plain": torch.ones(2),
        "integer": torch.ones(2, dtype=torch.int64),
        "detached": leaf(torch).detach(),
        "made in no_grad": _made_in_no_grad(torch),
    }.items():
        attempt(log, label, lambda tensor=tensor: tensor.register_hook(print))


def _made_in_no_grad(torch):
    with torch.no_grad():
        return leaf(torch) * 2


@cases
def on_an_integer_result(torch, log):
    indices = torch.sort(leaf(torch, 3.0, 1.0))[1]
    attempt(log, "indices", lambda: indices.register_hook(print))


@cases
def stays_when_requires_grad_is_switched(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).sum().backward()


@cases
def stays_when_grad_is_reset(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    for _ in range(3):
        (x * 2).sum().backward()
        x.grad = None


@cases
def after_detach_in_place(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(note(log, "y"))
    z = y * 3
    y.detach_()
    z.sum().backward()
    log(y.requires_grad, y.is_leaf, x.grad)


@cases
def leaf_changed_in_no_grad_keeps_its_hook(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    with torch.no_grad():
        x.mul_(2)
        x.add_(1)
    (x * x).sum().backward()
    return x.grad


@cases
def leaf_with_new_data_keeps_its_hook(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    x.data = torch.tensor([5.0, 6.0, 7.0])
    (x * x).sum().backward()
    return x.grad


# --- in-place operations --------------------------------------------------------------------------------------------


@cases
def before_an_in_place_op_means_the_old_value(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(note(log, "before"))
    y.mul_(3)
    y.register_hook(note(log, "after"))
    y.sum().backward()
    return x.grad


@cases
def between_two_in_place_ops(torch, log):
    x = leaf(torch)
    y = x * 2
    for step, factor in enumerate((3.0, 5.0, 7.0)):
        y.register_hook(note(log, step))
        y.mul_(factor)
    y.register_hook(note(log, "last"))
    y.sum().backward()
    return x.grad


@cases
def replaced_values_around_an_in_place_op(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(note(log, "before", lambda g: g * 10))
    y.mul_(3)
    y.register_hook(note(log, "after", lambda g: g + 1))
    y.sum().backward()
    return x.grad


@cases
def removed_after_the_in_place_op(torch, log):
    x = leaf(torch)
    y = x * 2
    before = y.register_hook(note(log, "before"))
    y.mul_(3)
    after = y.register_hook(note(log, "after"))
    before.remove()
    y.sum().backward(retain_graph=True)
    after.remove()
    y.sum().backward()


@cases
def on_a_plain_tensor_made_differentiable_in_place(torch, log):
    x = leaf(torch)
    y = torch.ones(2)
    y.mul_(x)
    y.register_hook(note(log, "y"))
    y.mul_(x)
    y.sum().backward()
    log(y.is_leaf, x.grad)


@cases
def base_and_view_around_an_in_place_op_on_the_view(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    y.register_hook(note(log, "y before"))
    v.register_hook(note(log, "v before"))
    v.mul_(3)
    y.register_hook(note(log, "y after"))
    v.register_hook(note(log, "v after"))
    (y.sum() + v * 10).backward()
    return x.grad


@cases
def view_used_before_an_in_place_op_on_it(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    v.register_hook(note(log, "v before"))
    used = v + 1
    v.add_(3)
    v.register_hook(note(log, "v after"))
    (used + v * 10).backward()
    return x.grad


@cases
def base_hook_around_an_in_place_op_on_the_base(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    y.register_hook(note(log, "y before"))
    y.mul_(3)
    y.register_hook(note(log, "y after"))
    (y.sum() + v * 10).backward()
    return x.grad


@cases
def view_after_in_place_on_base_once_its_grad_fn_was_seen(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    y.mul_(3)
    log(v.grad_fn.name())  # makes the new node; torch 2.13 crashes when a hook is registered without it
    v.register_hook(note(log, "v after"))
    (y.sum() + v * 10).backward()
    return x.grad


@cases
def in_place_binary_with_hooked_operands(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y, z = x * 2, w * 2
    y.register_hook(note(log, "y before"))
    z.register_hook(note(log, "z"))
    y.add_(z)
    y.register_hook(note(log, "y after"))
    y.sum().backward()
    return x.grad, w.grad


@cases
def a_sum_written_into_slices(torch, log):
    x = leaf(torch)
    buffer = torch.zeros(4)
    buffer[:2] = x * 2
    buffer.register_hook(note(log, "first"))
    buffer[2:] = x * 3
    buffer.register_hook(note(log, "second"))
    (buffer * torch.arange(1.0, 5.0)).sum().backward()
    return x.grad


# --- what a hook returns --------------------------------------------------------------------------------------------


@cases
def result_replaces_the_gradient(torch, log):
    x = leaf(torch)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    x.register_hook(note(log, "x", lambda g: g + 1))
    y.sum().backward()
    return x.grad


@cases
def several_hooks_pass_the_value_on(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "doubles", lambda g: g * 2))
    x.register_hook(note(log, "only looks"))
    x.register_hook(note(log, "adds", lambda g: g + 1))
    x.register_hook(note(log, "last looks"))
    x.sum().backward()
    return x.grad


@cases
def same_function_twice(torch, log):
    x = leaf(torch)
    double = note(log, "x", lambda g: g * 2)
    first, second = x.register_hook(double), x.register_hook(double)
    x.sum().backward()
    first.remove()
    x.sum().backward()
    second.remove()
    x.sum().backward()
    return x.grad


@cases
def changing_the_gradient_in_place(torch, log):
    x = leaf(torch)
    y = x * 3
    y.register_hook(note(log, "y", lambda g: g.mul_(2)))
    y.register_hook(note(log, "y again"))
    (y * 1).sum().backward()
    return x.grad


@cases
def result_that_requires_grad(torch, log):
    x, scale = leaf(torch), leaf(torch, 3.0, 4.0)
    x.register_hook(lambda g: g * scale)
    (x * x).sum().backward()
    log(x.grad, x.grad.requires_grad, scale.grad)


@cases
def gradient_arguments_are_plain(torch, log):
    x = leaf(torch)
    y = x * 3

    def hook(g):
        log(g.requires_grad, g.is_leaf, g.grad_fn is None, torch.is_grad_enabled())

    y.register_hook(hook)
    x.register_hook(hook)
    y.sum().backward()
    y = x * 3
    y.register_hook(hook)
    y.sum().backward(create_graph=True)


@cases
def results_of_the_wrong_kind(torch, log):
    wrong = {
        "string": "gradient",
        "number": 3,
        "list": [1.0],
        "tuple": (torch.ones(2),),
        "longer": torch.ones(3),
        "shorter": torch.ones(1),
        "scalar": torch.tensor(1.0),
        "more dimensions": torch.ones(2, 1),
        "float64": torch.ones(2, dtype=torch.float64),
        "float16": torch.ones(2, dtype=torch.float16),
        "int64": torch.ones(2, dtype=torch.int64),
        "bool": torch.ones(2, dtype=torch.bool),
        "false": False,
    }
    for label, result in wrong.items():
        for place in ("leaf", "non-leaf"):
            x = leaf(torch)
            y = x * 3
            (x if place == "leaf" else y).register_hook(lambda g, result=result: result)
            attempt(log, (label, place), lambda y=y: y.sum().backward())
            log(x.grad)


@cases
def hook_that_cannot_be_called(torch, log):
    x = leaf(torch)
    attempt(log, "takes no argument", lambda: x.register_hook(lambda: None).remove() or "registered")
    x.register_hook(lambda: None)
    attempt(log, "backward", lambda: x.sum().backward())


@cases
def exception_in_a_hook_goes_through(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = x * w
    handle = y.register_hook(lambda g: {}["missing"])
    root = y.sum()
    attempt(log, "first", lambda: root.backward(retain_graph=True))
    log(x.grad, w.grad)
    handle.remove()
    root.backward()
    return x.grad, w.grad


@cases
def callable_objects_and_methods(torch, log):
    class Scale:
        def __init__(self, by):
            self.by = by

        def __call__(self, g):
            log("call", self.by, g)
            return g * self.by

        def method(self, g):
            log("method", self.by, g)

    x = leaf(torch)
    x.register_hook(Scale(2))
    x.register_hook(Scale(3).method)
    x.register_hook(torch.neg)
    x.sum().backward()
    return x.grad


@cases
def gradients_of_means_may_be_written_to(torch, log):
    def double(gradient):
        gradient.mul_(2)

    x = torch.arange(6.0).reshape(2, 3).clone().requires_grad_()
    for mean in (lambda y: y.mean(), lambda y: y.mean(1).sum(), lambda y: y.mean((0, 1), keepdim=True).sum()):
        y = x * 1
        y.register_hook(double)
        mean(y).backward()
        log(x.grad)


@cases
def hooks_stay_with_a_tensor_that_is_detached_in_place(torch, log):
    x = leaf(torch)
    y = x * 2
    later = y * 1
    handle = y.register_hook(lambda g: log("first", g))
    y.detach_()
    y.requires_grad_()
    y.register_hook(lambda g: log("second", g))
    later.sum().backward()
    y.sum().backward()
    handle.remove()
    y.sum().backward()
    largest, _ = (x * 2).max(0)
    largest.register_hook(lambda g: log("one of several", g))
    largest.detach_().requires_grad_()
    largest.backward()
    return y.grad, largest.grad
