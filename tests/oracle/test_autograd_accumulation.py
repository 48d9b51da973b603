"""What accumulation makes of `.grad`: memory of its own, the leaf's layout, and when nothing may be added."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, leaf, succeeds

cases = Table()


@cases.test
def test_accumulation(program):
    agree(program, graph=True)


# --- memory: a later write to .grad changes nothing else -----------------------------------------------------------------


@cases
def grad_is_not_the_gradient_that_was_passed_in(torch, log):
    x, direction = leaf(torch), torch.ones(2)
    x.backward(direction)
    x.grad.mul_(5)
    (x + 0).backward(direction)
    return x.grad, direction


@cases
def two_leaves_of_one_gradient(torch, log):
    a, b = leaf(torch), leaf(torch)
    (a + b).sum().backward()
    a.grad.mul_(5)
    return a.grad, b.grad


@cases
def gradients_that_hooks_keep(torch, log):
    x, kept = leaf(torch), []
    x.register_hook(lambda g: kept.append(g))
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: kept.append(grads[0]))
    node.register_hook(lambda _, grads: kept.append(grads[0]))
    y.grad_fn.register_hook(lambda grads, _: kept.append(grads[0]))
    y.backward(torch.tensor([1.0, 2.0]))
    x.grad.mul_(5)
    (x * 3).sum().backward()
    return kept, x.grad


@cases
def gradients_that_a_function_keeps(torch, log):
    kept = []

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[-1]

    x = leaf(torch)
    for _ in range(2):
        Keeping.apply(x).sum().backward()
    return kept, x.grad


@cases
def retained_gradients_are_copies(torch, log):
    x = leaf(torch)
    y = x * 1
    z = y + 0
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    y.grad.mul_(3)
    return x.grad, y.grad, z.grad


@cases
def a_hook_writes_to_a_gradient_of_two_leaves(torch, log):
    a, b = leaf(torch), leaf(torch)
    a.register_hook(lambda g: log("a", g.mul_(10)))
    b.register_hook(lambda g: log("b", g))
    (a + b).backward(torch.tensor([1.0, 2.0]))
    return a.grad, b.grad


@cases
def a_hook_writes_to_a_stretched_gradient(torch, log):
    x = leaf(torch)
    y = x * 2
    y.register_hook(lambda g: succeeds(log, "write", lambda: g.mul_(2)))
    y.sum().backward()
    return x.grad


@cases
def a_hook_writes_to_the_gradient_of_a_flip(torch, log):
    def write(g):
        g.mul_(10)

    x, w = leaf(torch), leaf(torch)
    x.register_hook(write)
    later = w * 1  # made before the flip, so that its gradient comes after the hook
    (x.flip(0) + later).backward(torch.tensor([1.0, 2.0]))
    log(x.grad, w.grad)
    square = torch.ones(2, 2, requires_grad=True)
    square.register_hook(write)
    later = w.view(1, 2) * 1
    (torch.rot90(square, 1, (0, 1)) + later).backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    log(square.grad, w.grad)


@cases
def gradients_that_are_the_same_object(torch, log):
    a, b, direction = leaf(torch), leaf(torch), torch.ones(2)
    first, second = torch.autograd.grad(a + b, [a, b], direction)
    log(first is second, first is direction)
    first, second = torch.autograd.grad((a * a).sum(), [a, a])
    log(first is second)
    first, second = torch.autograd.grad(a * b, [a, b], direction)
    log(first is second, first is direction)
    asking = torch.ones(2, requires_grad=True)
    (only,) = torch.autograd.grad(a + b, a, asking)
    log(only is asking, only)


# --- layout: as the leaf's, if the leaf has no gaps ----------------------------------------------------------------------


@cases
def layout_of_grad(torch, log):
    values = torch.arange(24.0)
    leaves = {
        "plain": values.view(4, 6),
        "transposed": values.view(6, 4).t(),
        "permuted": values.view(2, 3, 4).permute(2, 0, 1),
        "every second": values.view(4, 6)[:, ::2],
        "a part, transposed": values.view(4, 6)[:, :2].t(),
        "stretched": values[:4].view(4, 1).expand(4, 6),
    }
    for name, tensor in leaves.items():
        x = tensor.detach().requires_grad_()
        for gradient in (torch.rand(x.shape), torch.rand(x.shape[::-1]).permute(*reversed(range(x.dim())))):
            x.grad = None
            (x * 2).backward(gradient)
            log(name, x.stride(), x.grad.stride())
            (x * 2).backward(gradient)
            log(x.grad.stride())
            x.grad = None
            x.backward(gradient)
            log(x.grad.stride())


# --- when nothing is added -----------------------------------------------------------------------------------------------


@cases
def requires_grad_switched_off_before_backward(torch, log):
    x = leaf(torch)
    x.register_hook(lambda g: log("tensor", g))
    x.register_post_accumulate_grad_hook(lambda x: log("accumulated", x.grad))
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: log("pre", grads))
    node.register_hook(lambda *grads: log("post", grads))
    x.requires_grad_(False)
    y.sum().backward()
    return x.grad


@cases
def requires_grad_switched_off_and_on(torch, log):
    x = leaf(torch)
    y = x * 2
    x.requires_grad_(False)
    log((x * 3).requires_grad)
    x.requires_grad_(True)
    y.sum().backward()
    return x.grad


@cases
def a_grad_whose_memory_shows_in_several_places(torch, log):
    x = leaf(torch)
    x.grad = torch.ones(1).expand(2)
    succeeds(log, "backward", lambda: (x * 2).sum().backward())
    return x.grad


@cases
def a_grad_made_in_inference_mode(torch, log):
    x = leaf(torch)
    y = x * x
    with torch.inference_mode():
        y.sum().backward(retain_graph=True)
        log(x.grad, x.grad.is_inference())
    succeeds(log, "backward", lambda: y.sum().backward(retain_graph=True))
    with torch.inference_mode():
        y.sum().backward()
    log(x.grad)


@cases
def a_grad_that_is_written_counts_the_write(torch, log):
    x, grad = leaf(torch), torch.ones(2)
    x.grad = grad
    (x * 2).sum().backward()
    log(grad, grad._version, x.grad is grad)
    z = grad * x
    (x * 2).sum().backward()
    succeeds(log, "overwritten", lambda: z.sum().backward())
