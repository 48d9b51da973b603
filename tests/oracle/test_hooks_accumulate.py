"""`retain_grad`, and hooks that run once a leaf's gradient is accumulated."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, note

cases = Table()


@cases.test
def test_retained_and_accumulated(program):
    agree(program, graph=True, warns=True)


# --- retain_grad ---------------------------------------------------------------------------------------------------------


@cases
def retain_grad_of_a_non_leaf(torch, log):
    x = leaf(torch)
    y = x * 2
    log(y.retains_grad, x.retains_grad)
    y.retain_grad()
    y.retain_grad()
    log(y.retains_grad, x.retains_grad)
    (y * y).sum().backward()
    return y.grad


@cases
def retain_grad_of_a_leaf_does_nothing(torch, log):
    x = leaf(torch)
    x.retain_grad()
    log(x.retains_grad)
    x.sum().backward()
    return x.grad


@cases
def retain_grad_needs_requires_grad(torch, log):
    attempt(log, "plain", lambda: torch.ones(2).retain_grad())
    attempt(log, "detached", lambda: leaf(torch).detach().retain_grad())


@cases
def non_leaf_grad_warns(torch, log):
    y = leaf(torch) * 2
    log(y.grad)
    y.sum().backward()
    log(y.grad)


@cases
def retained_grad_accumulates_into_a_new_tensor(torch, log):
    x = leaf(torch)
    y = x * 2
    y.retain_grad()
    root = y.sum()
    root.backward(retain_graph=True)
    first = y.grad
    root.backward(retain_graph=True)
    log(y.grad, y.grad is first, x.grad)
    y.grad = None
    root.backward()
    log(y.grad)


@cases
def retained_grad_comes_after_all_tensor_hooks(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(note(log, "first", lambda g: g * 2))
    y.retain_grad()
    y.register_hook(note(log, "second", lambda g: g * 5))
    y.register_hook(lambda g: log("grad is not there yet", y.grad))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 100,))
    y.sum().backward()
    log(y.grad, x.grad)


@cases
def retained_grad_is_not_the_hook_argument(torch, log):
    x = leaf(torch)
    y = x * 2
    seen = []
    y.register_hook(seen.append)
    y.retain_grad()
    (y * 1).sum().backward()
    seen[0].mul_(100)
    log(y.grad, x.grad)


@cases
def retain_grad_then_in_place(torch, log):
    x = leaf(torch)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    log(y.retains_grad)
    (y * 5).sum().backward()
    log(y.grad, x.grad)


@cases
def retain_grad_then_two_in_place_ops_with_hooks(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(note(log, "before"))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(note(log, "between", lambda g: g * 2))
    y.mul_(5)
    y.register_hook(note(log, "after", lambda g: g * 7))
    y.sum().backward()
    log(y.grad, x.grad)


@cases
def retain_grad_of_a_view_then_in_place_on_the_view(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    v.retain_grad()
    y.retain_grad()
    v.mul_(3)
    (y.sum() + v * 10).backward()
    log(y.grad, v.grad, x.grad)


@cases
def retain_grad_of_a_view_then_in_place_on_the_base(torch, log):
    x = leaf(torch)
    y = x * 2
    v = y[0]
    v.retain_grad()
    y.retain_grad()
    y.mul_(3)
    (y.sum() + v * 10).backward()
    log(y.grad, v.grad, x.grad)


@cases
def retain_grad_with_grad_of_inputs(torch, log):
    x = leaf(torch)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    log(torch.autograd.grad(z, y, retain_graph=True), y.grad)
    log(torch.autograd.grad(z, x, retain_graph=True), y.grad)
    y.grad = None
    z.backward(inputs=[x], retain_graph=True)
    log(y.grad, x.grad)
    z.backward(inputs=[y])
    log(y.grad, x.grad)


@cases
def retain_grad_under_create_graph(torch, log):
    x = leaf(torch)
    y = x * x
    y.retain_grad()
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    log(y.grad, y.grad.requires_grad)
    g.sum().backward()
    log(y.grad, x.grad)


@cases
def retain_grad_of_multi_output_parts(torch, log):
    x = torch.ones(3, requires_grad=True)
    a, b, c = (x * 2).unbind()
    a.retain_grad()
    c.retain_grad()
    b.retain_grad()
    (a * 3 + b * 5).backward()
    log(a.grad, b.grad, c.grad)


# --- register_post_accumulate_grad_hook ----------------------------------------------------------------------------------


@cases
def post_accumulate_gets_the_leaf(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log(t is x, t.grad))
    for _ in range(3):
        (x * x).sum().backward()


@cases
def post_accumulate_may_step_and_clear(torch, log):
    x = leaf(torch)

    def step(t):
        with torch.no_grad():
            t -= 0.1 * t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (x * x).sum().backward()
        log(x, x.grad)


@cases
def post_accumulate_results_are_refused(torch, log):
    for label, result in {"tensor": torch.ones(2), "number": 3, "string": "no", "none": None, "false": False}.items():
        x = leaf(torch)
        x.register_post_accumulate_grad_hook(lambda t, result=result: result)
        attempt(log, label, lambda x=x: x.sum().backward())
        log(x.grad)


@cases
def post_accumulate_wants_a_leaf_that_requires_grad(torch, log):
    attempt(log, "non-leaf", lambda: (leaf(torch) * 2).register_post_accumulate_grad_hook(print))
    attempt(log, "view of a leaf", lambda: leaf(torch)[0].register_post_accumulate_grad_hook(print))
    attempt(log, "plain", lambda: torch.ones(2).register_post_accumulate_grad_hook(print))


@cases
def post_accumulate_after_replaced_gradients(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", t.grad))
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    x.sum().backward()


@cases
def post_accumulate_hooks_in_order_and_removed(torch, log):
    x = leaf(torch)
    handles = [x.register_post_accumulate_grad_hook(lambda t, index=index: log(index)) for index in range(3)]
    x.sum().backward()
    handles[1].remove()
    x.sum().backward()
    with handles[0]:
        x.sum().backward()
    x.sum().backward()


@cases
def post_accumulate_sees_what_the_one_before_changed(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(_scale)
    x.register_post_accumulate_grad_hook(lambda t: log(t.grad))
    x.sum().backward()
    return x.grad


def _scale(tensor):
    tensor.grad.mul_(3)


@cases
def post_accumulate_does_not_fire_in_grad(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated"))
    log(torch.autograd.grad((x * x).sum(), x))
    return x.grad


@cases
def post_accumulate_with_backward_inputs(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    x.register_post_accumulate_grad_hook(lambda t: log("x", t.grad))
    w.register_post_accumulate_grad_hook(lambda t: log("w", t.grad))
    (x * w).sum().backward(inputs=[w])
    log(x.grad, w.grad)


@cases
def post_accumulate_that_raises(torch, log):
    x = leaf(torch)
    handle = x.register_post_accumulate_grad_hook(lambda t: {}["missing"])
    attempt(log, "backward", lambda: x.sum().backward())
    log(x.grad)
    handle.remove()
    x.sum().backward()
    return x.grad


@cases
def post_accumulate_and_grad_mode(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log(torch.is_grad_enabled(), t.requires_grad, t.grad.requires_grad))
    (x * x).sum().backward()
    x.grad = None
    (x * x).sum().backward(create_graph=True)


@cases
def post_accumulate_with_used_twice_leaf(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log(t.grad))
    (x * 2 + x.exp() + x).sum().backward()


@cases
def post_accumulate_when_the_gradient_is_undefined(torch, log):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(torch)
    x.register_hook(note(log, "tensor"))
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", t.grad))
    Nothing.apply(x).sum().backward()
    return x.grad


@cases
def post_accumulate_hook_kept_over_data_and_detach(torch, log):
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", t.grad))
    x.data = torch.ones(3)
    x.sum().backward()
    x.detach().requires_grad_().sum().backward()
    log("the detached copy has no hook")


@cases
def post_accumulate_registered_after_the_graph_was_built(torch, log):
    x = leaf(torch)
    root = (x * 2).sum()
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", t.grad))
    root.backward()


@cases
def post_accumulate_answers(torch, log):
    """The leaf itself is taken for no answer; any other tensor, or anything else, is refused."""
    for answer in (lambda t: t, lambda t: t.detach(), lambda t: t.grad, lambda t: 3):
        x = leaf(torch)
        x.register_post_accumulate_grad_hook(answer)
        log(attempt(lambda x=x: x.sum().backward()))
        log(x.grad)
