"""A gradient is one tensor wherever it is seen: the same object in every hook, with its writes counted."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, function, leaf

cases = Table()


@cases.test
def test_identity(program):
    agree(program)


def collector():
    """A list and a hook that puts what it is shown into it."""
    seen = []
    return seen, lambda gradient: seen.append(gradient)


def same(seen):
    """Which of the tensors are one object."""
    return [[first is second for second in seen] for first in seen]


@cases
def two_hooks_on_a_tensor(torch):
    y = leaf(torch) * 2
    seen, keep = collector()
    y.register_hook(keep)
    y.register_hook(keep)
    y.sum().backward()
    return same(seen)


@cases
def all_hooks_around_a_node(torch):
    x = leaf(torch)
    y = x * 2
    seen, keep = collector()
    y.register_hook(keep)
    y.grad_fn.register_prehook(lambda outgoing: keep(outgoing[0]))
    y.grad_fn.register_hook(lambda incoming, outgoing: seen.extend([outgoing[0], incoming[0]]))
    x.register_hook(keep)
    (y * 3).sum().backward()
    return same(seen)


@cases
def through_an_addition(torch):
    a, b = leaf(torch), leaf(torch)
    seen, keep = collector()
    a.register_hook(keep)
    b.register_hook(keep)
    c = a + b
    c.register_hook(keep)
    (c * 2).sum().backward()
    return same(seen), a.grad is seen[0], a.grad.data_ptr() == seen[0].data_ptr(), a.grad, b.grad


@cases
def through_nodes_that_nobody_watches(torch):
    x = leaf(torch)
    y = x + 1
    z = y + 1
    seen, keep = collector()
    z.register_hook(keep)
    x.register_hook(keep)
    (z * 2).sum().backward()
    return same(seen)


@cases
def into_and_out_of_a_node_with_several_outputs(torch):
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    first, second = x.split(2)
    seen, keep = collector()
    shifted = first + 1
    shifted.register_hook(keep)
    first.register_hook(keep)
    first.grad_fn.register_prehook(lambda outgoing: seen.extend(outgoing))
    (shifted * 2).sum().backward()
    return same(seen), seen, x.grad


@cases
def summed_with_one_that_nobody_saw(torch):
    x = leaf(torch)
    y = x * 1
    a = y + 0
    seen, keep = collector()
    a.register_hook(keep)
    y.register_hook(keep)
    (a * 2 + y * 3).sum().backward()
    return same(seen), seen, x.grad


@cases
def marks_stay_on_a_gradient(torch, log):
    def mark(gradient):
        gradient.mark = "here"

    x = leaf(torch)
    y = x + 0
    y.register_hook(mark)
    x.register_hook(lambda gradient: log(gradient.mark))
    (y * 2).sum().backward()


@cases
def marks_by_a_post_hook(torch, log):
    def mark(incoming, outgoing):
        incoming[0].mark = "here"

    x = leaf(torch)
    y = x * 2
    y.grad_fn.register_hook(mark)
    x.register_hook(lambda gradient: log(gradient.mark))
    (y * 2).sum().backward()


@cases
def writes_are_counted(torch, log):
    def double(gradient):
        gradient.mul_(2)

    x = leaf(torch)
    y = x + 0
    y.register_hook(double)
    y.register_hook(lambda gradient: log(gradient._version))
    y.grad_fn.register_prehook(lambda outgoing: log(outgoing[0]._version))
    x.register_hook(lambda gradient: log(gradient._version, gradient))
    (y * 2).sum().backward()
    return x.grad


@cases
def writes_reach_whoever_shares_the_gradient(torch):
    def double(gradient):
        gradient.mul_(2)

    a, b = leaf(torch), leaf(torch)
    a.register_hook(double)
    b.register_hook(double)
    ((a + b) * 2).sum().backward()
    return a.grad, b.grad


@cases
def the_users_own_first_gradient(torch):
    def double(gradient):
        gradient.mul_(2)

    y = leaf(torch) * 1
    seen, keep = collector()
    y.register_hook(keep)
    y.register_hook(double)
    first = torch.ones(2)
    y.backward(first)
    return seen[0] is first, first, first._version


@cases
def what_grad_returns(torch):
    x = leaf(torch)
    y = x * 1
    seen, keep = collector()
    y.register_hook(keep)
    x.register_hook(keep)
    results = torch.autograd.grad((y * 2).sum(), [y, x])
    return [result is gradient for result, gradient in zip(results, seen, strict=True)]


@cases
def what_a_hook_returned(torch):
    y = leaf(torch) * 1
    mine = torch.full((2,), 7.0)
    seen, keep = collector()
    y.register_hook(lambda gradient: mine)
    y.register_hook(keep)
    y.grad_fn.register_prehook(lambda outgoing: keep(outgoing[0]))
    (y * 2).sum().backward()
    return [gradient is mine for gradient in seen]


@cases
def a_parameter_returned_by_a_hook(torch):
    x = leaf(torch)
    y = x + 0
    y.register_hook(lambda gradient: torch.nn.Parameter(gradient * 3))
    (y * 2).sum().backward()
    return x.grad, type(x.grad).__name__, x.grad.requires_grad


@cases
def a_parameter_returned_by_a_post_hook(torch):
    x = leaf(torch)
    y = (x + 0) + 1
    y.grad_fn.register_hook(lambda incoming, outgoing: tuple(g and torch.nn.Parameter(g[0] * 3) for g in [incoming]))
    (y * 2).sum().backward()
    return x.grad, type(x.grad).__name__


@cases
def what_a_custom_function_passes_on(torch):
    passes = function(torch, lambda ctx, x: x.clone(), lambda ctx, g: g)
    x = leaf(torch)
    y = passes.apply(x)
    seen, keep = collector()
    y.register_hook(keep)
    x.register_hook(keep)
    (y * 2).sum().backward()
    return same(seen)


PASSING = {
    "clone": lambda torch, x: x.clone(),
    "add": lambda torch, x: x + 1,
    "stretched add": lambda torch, x: x + torch.ones(3, 2, 2),
    "sub": lambda torch, x: torch.ones(2, 2) - x,
    "neg": lambda torch, x: -x,
    "view": lambda torch, x: x.view(2, 2),
    "reshape": lambda torch, x: x.reshape(4),
    "squeeze": lambda torch, x: x.squeeze(),
    "squeeze of one": lambda torch, x: x.unsqueeze(0).squeeze(),
    "expand": lambda torch, x: x.expand(2, 2),
    "slice": lambda torch, x: x[:],
    "copy_": lambda torch, x: torch.zeros(2, 2).copy_(x),
    "add_": lambda torch, x: torch.zeros(2, 2).add_(x),
    "double": lambda torch, x: x.double(),
    "cat": lambda torch, x: torch.cat([x]),
    "addmm": lambda torch, x: torch.addmm(x, torch.ones(2, 2), torch.ones(2, 2)),
    "transposed": lambda torch, x: x.t().t(),
    "split": lambda torch, x: x.split(2)[0],
}


@pytest.mark.parametrize("name", PASSING)
def test_a_gradient_that_passes_unchanged_is_one_object(name):
    def program(torch, log):
        def marking(place):
            def mark(gradient):
                log(place, getattr(gradient, "marks", ()))
                gradient.marks = (*getattr(gradient, "marks", ()), place)

            return mark

        x = torch.ones(2, 2, requires_grad=True) * torch.tensor(2.0)
        y = PASSING[name](torch, x)
        x.register_hook(marking("before"))
        y.register_hook(marking("after"))
        y.backward(torch.ones(y.shape, dtype=y.dtype))

    agree(program)
