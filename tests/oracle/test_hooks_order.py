"""In which order hooks of different tensors fire: branches, ties between leaves, nodes with several outputs."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, note

cases = Table()


@cases.test
def test_order(program):
    agree(program, graph=True)


def leaves(torch, count):
    return [torch.tensor([float(i + 1)], requires_grad=True) for i in range(count)]


def watch(log, **tensors):
    """A hook on each of the tensors that logs its name and gradient."""
    for name, tensor in tensors.items():
        tensor.register_hook(note(log, name))


# --- many leaves fed by one node: torch's heap decides, and it is not first in, first out --------------------------------

JOINS = {
    "cat": lambda torch, tensors: torch.cat(tensors),
    "stack": lambda torch, tensors: torch.stack(tensors),
    "hstack": lambda torch, tensors: torch.hstack(tensors),
    "sum of a list": lambda torch, tensors: sum(tensors[1:], tensors[0]),
    "sums from the right": lambda torch, tensors: sum(tensors[-2::-1], tensors[-1]),
    "balanced tree": lambda torch, tensors: _tree(tensors),
    "cat of products": lambda torch, tensors: torch.cat([tensor * 2 for tensor in tensors]),
    "every second through a product": lambda torch, tensors: torch.cat(
        [tensor * 2 if index % 2 else tensor for index, tensor in enumerate(tensors)]
    ),
    "cat twice": lambda torch, tensors: torch.cat([torch.cat(tensors), torch.cat(tensors[::-1])]),
    "cat of cats": lambda torch, tensors: torch.cat([torch.cat(tensors[:2]), torch.cat(tensors[1:] or tensors)]),
    "index_put": lambda torch, tensors: _written(torch, tensors),
}


def _tree(tensors):
    while len(tensors) > 1:
        tensors = [sum(tensors[i + 1 : i + 2], tensors[i]) for i in range(0, len(tensors), 2)]
    return tensors[0]


def _written(torch, tensors):
    buffer = torch.zeros(len(tensors))
    for index, tensor in enumerate(tensors):
        buffer[index] = tensor[0]
    return buffer


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17, 33])
@pytest.mark.parametrize("join", JOINS)
def test_leaf_hooks_of_many_leaves(join, count):
    def program(torch, log):
        tensors = leaves(torch, count)
        for index, tensor in enumerate(tensors):
            tensor.register_hook(lambda g, index=index: log("hook", index, g))
            tensor.register_post_accumulate_grad_hook(lambda t, index=index: log("accumulated", index))
        JOINS[join](torch, tensors).sum().backward()

    agree(program)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_registration_order_of_different_leaves_does_not_matter(order):
    def program(torch, log):
        tensors = leaves(torch, 5)
        for index in order:
            tensors[index].register_hook(lambda g, index=index: log(index))
        torch.cat(tensors).sum().backward()

    agree(program)


@cases
def the_order_in_which_leaves_were_first_used_does_not_matter(torch, log):
    tensors = leaves(torch, 6)
    first_uses = [tensor * 1 for tensor in reversed(tensors)]
    for index, tensor in enumerate(tensors):
        tensor.register_hook(lambda g, index=index: log(index))
    torch.cat(tensors).sum().backward()
    log(len(first_uses))


@cases
def only_some_leaves_are_hooked(torch, log):
    tensors = leaves(torch, 9)
    for index in (1, 4, 6, 8):
        tensors[index].register_hook(lambda g, index=index: log(index))
    torch.cat(tensors).sum().backward()


@cases
def some_leaves_do_not_require_grad(torch, log):
    tensors = leaves(torch, 9)
    for index in (0, 3, 7):
        tensors[index].requires_grad_(False)
    for index, tensor in enumerate(tensors):
        if tensor.requires_grad:
            tensor.register_hook(lambda g, index=index: log(index))
    torch.cat(tensors).sum().backward()


@cases
def the_same_leaf_several_times(torch, log):
    a, b, c = leaves(torch, 3)
    watch(log, a=a, b=b, c=c)
    torch.cat([a, b, a, c, b, a]).sum().backward()


@cases
def several_roots(torch, log):
    tensors = leaves(torch, 5)
    for index, tensor in enumerate(tensors):
        tensor.register_hook(lambda g, index=index: log(index, g))
    roots = [tensor * 2 for tensor in tensors]
    for index, root in enumerate(roots):
        root.register_hook(lambda g, index=index: log("root", index, g))
    torch.autograd.backward(roots, [torch.ones(1)] * 5)


@cases
def several_roots_that_are_leaves(torch, log):
    tensors = leaves(torch, 7)
    for index, tensor in enumerate(tensors):
        tensor.register_hook(lambda g, index=index: log(index, g))
    torch.autograd.backward(tensors, [torch.ones(1)] * 7)


@cases
def the_same_root_twice(torch, log):
    (x,) = leaves(torch, 1)
    y = x * 3
    watch(log, x=x, y=y)
    torch.autograd.backward([y, y, y.exp()], [torch.ones(1), torch.ones(1) * 2, torch.ones(1)])


# --- branches: the node made last goes first -----------------------------------------------------------------------------


@cases
def diamond(torch, log):
    (x,) = leaves(torch, 1)
    y = x * 2
    left = y.exp()
    right = y.sin()
    joined = left * right
    watch(log, x=x, y=y, left=left, right=right, joined=joined)
    joined.backward()


@cases
def diamond_with_the_right_side_made_first(torch, log):
    (x,) = leaves(torch, 1)
    right = x.sin()
    left = x.exp()
    joined = left * right
    watch(log, x=x, left=left, right=right, joined=joined)
    joined.backward()


@cases
def a_long_and_a_short_branch(torch, log):
    a, b = leaves(torch, 2)
    long = a
    for step in range(4):
        long = long * 2
        long.register_hook(note(log, f"long {step}"))
    short = b * 3
    watch(log, a=a, b=b, short=short)
    (long + short).backward()


@cases
def a_branch_made_before_the_other(torch, log):
    a, b = leaves(torch, 2)
    short = b * 3
    long = a
    for step in range(4):
        long = long * 2
        long.register_hook(note(log, f"long {step}"))
    watch(log, a=a, b=b, short=short)
    (long + short).backward()


@cases
def interleaved_branches(torch, log):
    a, b = leaves(torch, 2)
    left, right = a, b
    for step in range(3):
        left = left * 2
        right = right.sin()
        watch(log, **{f"left {step}": left, f"right {step}": right})
    watch(log, a=a, b=b)
    (left + right).backward()


@cases
def nested_diamonds(torch, log):
    (x,) = leaves(torch, 1)
    watch(log, x=x)
    value = x
    for step in range(3):
        value = value * 2 + value.exp() * 0.1
        watch(log, **{f"value {step}": value})
    value.backward()
    return x.grad


@cases
def an_edge_that_skips_levels(torch, log):
    a, b = leaves(torch, 2)
    y = a * b
    z = y.exp()
    w = z * a
    watch(log, a=a, b=b, y=y, z=z, w=w)
    (w + y + b).backward()


@cases
def many_uses_of_one_tensor(torch, log):
    (x,) = leaves(torch, 1)
    uses = [x * float(i) for i in range(6)]
    for index, use in enumerate(uses):
        use.register_hook(lambda g, index=index: log("use", index, g))
    watch(log, x=x)
    torch.cat([uses[i] for i in (3, 1, 5, 0, 4, 2)]).sum().backward()


@cases
def nodes_made_in_a_backward_pass_come_later(torch, log):
    x, w = leaves(torch, 2)
    y = (x * x * w).sum()
    (gx,) = torch.autograd.grad(y, x, create_graph=True)
    later = w * 5
    watch(log, x=x, w=w, y=y, gx=gx, later=later)
    (gx + later + y).sum().backward()
    return x.grad, w.grad


# --- nodes with several outputs ------------------------------------------------------------------------------------------


@cases
def unbind_with_hooks_on_all(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    parts = x.unbind()
    for index, part in enumerate(parts):
        part.register_hook(lambda g, index=index: log(index, g))
    (parts[0] * 1 + parts[1] * 2 + parts[2] * 3).sum().backward()
    return x.grad


@cases
def unbind_hooks_fire_in_the_order_of_registration(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    parts = x.unbind()
    for index in (2, 0, 1):
        parts[index].register_hook(lambda g, index=index: log(index, g))
    (parts[0] * 1 + parts[1] * 2 + parts[2] * 3).sum().backward()


@cases
def hook_on_an_unused_output_gets_none(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    a, b, c = x.unbind()
    watch(log, b=b, a=a)
    (a * 2).sum().backward()
    return x.grad


@cases
def hook_on_an_unused_output_returns_a_gradient(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    a, b, c = x.unbind()
    a.register_hook(note(log, "a"))
    b.register_hook(lambda g: torch.ones(2) * 7)
    (a * 2).sum().backward()
    return x.grad


@cases
def split_with_hooks_on_some(torch, log):
    x = torch.arange(5.0, requires_grad=True)
    first, second, third = x.split([2, 1, 2])
    watch(log, third=third, first=first)
    (first.sum() * 2 + second.sum() * 3 + third.sum() * 4).backward()
    return x.grad


@cases
def chunk_with_replaced_gradients(torch, log):
    x = torch.arange(6.0, requires_grad=True)
    first, second, third = x.chunk(3)
    first.register_hook(note(log, "first", lambda g: g * 10))
    third.register_hook(note(log, "third", lambda g: g * 100))
    (first * second * third).sum().backward()
    return x.grad


@cases
def max_with_a_dimension(torch, log):
    x = torch.tensor([[1.0, 5.0], [7.0, 2.0]], requires_grad=True)
    values, indices = x.max(1)
    watch(log, x=x, values=values)
    (values * torch.tensor([2.0, 3.0])).sum().backward()
    log(indices, indices.requires_grad)


@cases
def sort_and_topk(torch, log):
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    ordered = x.sort()
    top = x.topk(2)
    watch(log, x=x, ordered=ordered.values, top=top.values)
    (ordered.values * torch.arange(3.0) + top.values.sum()).sum().backward()


@cases
def var_mean_with_one_output_used(torch, log):
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    variance, mean = torch.var_mean(x)
    watch(log, variance=variance, mean=mean, x=x)
    (mean * 3).backward(retain_graph=True)
    (variance * 3).backward()


@cases
def slogdet_with_one_output_used(torch, log):
    x = torch.tensor([[2.0, 1.0], [0.0, 3.0]], requires_grad=True)
    sign, logabs = torch.linalg.slogdet(x)
    watch(log, logabs=logabs, x=x)
    log(sign.requires_grad)
    logabs.backward()


# --- several kinds of hook on one tensor ---------------------------------------------------------------------------------


@cases
def every_kind_on_a_non_leaf(torch, log):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: log("node post 1", inputs, outputs))
    y.grad_fn.register_prehook(lambda outputs: log("node pre 1", outputs))
    y.register_hook(note(log, "tensor 1", lambda g: g * 2))
    y.retain_grad()
    y.register_hook(note(log, "tensor 2", lambda g: g * 5))
    y.grad_fn.register_prehook(lambda outputs: log("node pre 2", outputs, y.grad))
    y.grad_fn.register_hook(lambda inputs, outputs: log("node post 2", inputs, outputs))
    x.register_hook(note(log, "leaf"))
    y.sum().backward()
    log(y.grad)


@cases
def every_kind_on_a_leaf(torch, log):
    x = torch.ones(2, requires_grad=True)
    accumulate = x.view_as(x).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda inputs, outputs: log("node post", inputs, outputs, x.grad))
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated 1", t is x, t.grad))
    accumulate.register_prehook(lambda outputs: log("node pre", outputs, x.grad))
    x.register_hook(note(log, "tensor 1", lambda g: g * 2))
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated 2"))
    x.register_hook(note(log, "tensor 2"))
    (x * 3).sum().backward()
    return x.grad


@cases
def every_kind_on_a_chain_over_two_backwards(torch, log):
    x = torch.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", t.grad))
    for _ in range(2):
        y = x.exp()
        y.retain_grad()
        watch(log, x=x, y=y)
        y.grad_fn.register_hook(lambda inputs, outputs: log("node", inputs, outputs))
        (y * y).sum().backward()
        log(y.grad)
