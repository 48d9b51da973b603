"""Views and bases: names of nodes after writes, and gradients through chains of views and writes."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, names, note

cases = Table()


@cases.test
def test_views(program):
    agree(program, graph=True)


def matrix(torch):
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


VIEWS = {
    "select": lambda torch, y: y[0],
    "select column": lambda torch, y: y[:, 1],
    "element": lambda torch, y: y[0, 1],
    "slice": lambda torch, y: y[1:],
    "step": lambda torch, y: y[:, ::2],
    "whole": lambda torch, y: y[:],
    "ellipsis": lambda torch, y: y[...],
    "none": lambda torch, y: y[None],
    "view": lambda torch, y: y.view(4),
    "view_as": lambda torch, y: y.view_as(y),
    "reshape": lambda torch, y: y.reshape(1, 4),
    "flatten": lambda torch, y: y.flatten(),
    "unflatten": lambda torch, y: y.unflatten(0, (2, 1)),
    "t": lambda torch, y: y.t(),
    "T": lambda torch, y: y.T,
    "mT": lambda torch, y: y.mT,
    "transpose": lambda torch, y: y.transpose(0, 1),
    "permute": lambda torch, y: y.permute(1, 0),
    "movedim": lambda torch, y: y.movedim(0, 1),
    "unsqueeze": lambda torch, y: y.unsqueeze(1),
    "squeeze": lambda torch, y: y.squeeze(),
    "squeeze dim": lambda torch, y: y[None].squeeze(0),
    "narrow": lambda torch, y: y.narrow(1, 0, 1),
    "diagonal": lambda torch, y: y.diagonal(),
    "as_strided": lambda torch, y: y.as_strided((2,), (3,)),
    "detach": lambda torch, y: y.detach(),
    "two steps": lambda torch, y: y.t()[0],
    "three steps": lambda torch, y: y.view(4)[1:].view(3, 1)[::2],
    "expand": lambda torch, y: y.expand(2, 2, 2),
    "contiguous": lambda torch, y: y.contiguous(),
    "clone": lambda torch, y: y.clone(),
    "reshape that copies": lambda torch, y: y.t().reshape(4),
    "to itself": lambda torch, y: y.to(torch.float32),
    "real": lambda torch, y: y.real,
}


@pytest.mark.parametrize("name", VIEWS)
def test_node_names_around_writes(name):
    def program(torch, log):
        x = matrix(torch)
        y = x * 1
        view = VIEWS[name](torch, y)
        log("fresh", view, view._is_view(), view._base is y, view is y)
        y.mul_(2)
        log("base written", view, names(view.grad_fn, 2))
        y = x * 1
        view = VIEWS[name](torch, y)
        attempt(log, "write", lambda: view.mul_(3) is view)
        log("view written", view, y, names(view.grad_fn, 2), names(y.grad_fn, 2))
        attempt(log, "backward", lambda: ((y * y).sum() + (view * 10).sum()).backward())
        return x.grad

    agree(program, graph=True)


@pytest.mark.parametrize("name", VIEWS)
def test_gradient_when_the_base_is_written(name):
    def program(torch, log):
        x = matrix(torch)
        y = x * 1
        view = VIEWS[name](torch, y)
        y.mul_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        attempt(log, "backward", lambda: ((y * y.detach()).sum() + (view * 10).sum()).backward())
        return x.grad

    agree(program)


@cases
def view_of_a_written_view(torch, log):
    x = matrix(torch)
    y = x * 1
    row = y[0]
    element = row[1]
    element.mul_(10)
    row.add_(1)
    y.mul_(2)
    log(y, row, element)
    (y.sum() + row.sum() * 100 + element * 1000).backward()
    return x.grad


@cases
def writes_through_a_chain_of_views(torch, log):
    x = matrix(torch)
    y = x * 1
    flat = y.t().unsqueeze(0)[0][1]
    flat.mul_(5)
    log(y, flat, names(y.grad_fn, 3))
    (y * y).sum().backward()
    return x.grad


@cases
def two_overlapping_views(torch, log):
    x = torch.arange(1.0, 5.0, requires_grad=True)
    y = x * 1
    a, b = y[:3], y[1:]
    a.mul_(2)
    b.mul_(3)
    log(y, a, b, y._version)
    (y.sum() + a.sum() * 10 + b.sum() * 100).backward()
    return x.grad


@cases
def view_taken_between_writes(torch, log):
    x = matrix(torch)
    y = x * 1
    y.mul_(2)
    view = y[0]
    used = view * 1
    y.mul_(3)
    log(view, used)
    (used.sum() + view.sum() * 10).backward()
    return x.grad


@cases
def a_view_written_with_its_own_base(torch, log):
    x = matrix(torch)
    y = x * 1
    y[0] += y[1]
    y[:, 0] = y[:, 1] * 2
    log(y)
    (y * torch.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    return x.grad


@cases
def a_buffer_filled_row_by_row(torch, log):
    x = matrix(torch)
    buffer = torch.zeros(3, 2)
    for index in range(3):
        buffer[index] = x[index % 2] * (index + 1)
    log(buffer, names(buffer.grad_fn, 3))
    (buffer * buffer).sum().backward()
    return x.grad


@cases
def the_base_is_the_root_of_all_views(torch, log):
    x = matrix(torch)
    y = x * 1
    a = y[0]
    b = a[1:]
    c = b.view(1, 1)
    log(a._base is y, b._base is y, c._base is y, y._base is None, x._base is None, c._is_view())
    log(a.data._base is None, a.detach()._base is None, a.clone()._base is None)


@cases
def views_of_a_leaf(torch, log):
    x = matrix(torch)
    row = x[0]
    log(row._base is x, row, row.is_leaf)
    with torch.no_grad():
        x.mul_(2)
    log(row, row._version)
    row.sum().backward()
    return x.grad


@cases
def views_of_a_leaf_written_in_no_grad(torch, log):
    x = matrix(torch)
    row = x[0]
    with torch.no_grad():
        row.mul_(2)
    log(x, row, x._version)
    (x.sum() + row.sum()).backward()
    return x.grad


@cases
def a_view_made_in_no_grad_of_a_non_leaf(torch, log):
    x = matrix(torch)
    y = x * 1
    with torch.no_grad():
        row = y[0]
    log(row, row.requires_grad, row._is_view())
    y.mul_(2)
    attempt(log, "after a write to the base", lambda: row.grad_fn)
    attempt(log, "and used", lambda: row * 2)


@cases
def a_view_made_with_grad_of_a_base_made_without(torch, log):
    x = matrix(torch)
    with torch.no_grad():
        y = x * 1
    row = y[0]
    row.mul_(x[0])
    log(y, row)
    y.sum().backward()
    return x.grad


@cases
def detached_views_stay_out_of_the_graph(torch, log):
    x = matrix(torch)
    y = x * 1
    flat = y.detach()
    flat[0] = 100.0
    log(y, names(y.grad_fn, 2))
    y.sum().backward()
    return x.grad


@cases
def hooks_on_a_view_and_its_base_after_writes(torch, log):
    x = matrix(torch)
    y = x * 1
    row = y[0]
    row.mul_(2)
    row.register_hook(note(log, "row"))
    y.register_hook(note(log, "y"))
    x.register_hook(note(log, "x"))
    (y.sum() + row.sum() * 10).backward()


@cases
def gradients_of_gradients_through_a_write(torch, log):
    x = matrix(torch)
    y = x * x
    y[0] *= x[1]
    y[:, 1].sin_()
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(g.detach())
    (g * g).sum().backward()
    return x.grad


@cases
def transposed_write_with_broadcast(torch, log):
    x = matrix(torch)
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.t().mul_(w)
    log(y)
    (y * y).sum().backward()
    return x.grad, w.grad


@cases
def a_written_view_that_is_the_root(torch, log):
    x = matrix(torch)
    y = x * 1
    element = y[0, 0]
    element.mul_(5)
    element.backward()
    return x.grad


@cases
def swapping_rows(torch, log):
    x = matrix(torch)
    y = x * 1
    y[0], y[1] = y[1].clone(), y[0].clone()
    log(y)
    (y * torch.tensor([[1.0], [10.0]])).sum().backward()
    return x.grad


@cases
def a_gradient_needed_from_the_old_value(torch, log):
    x = matrix(torch)
    y = x * 1
    before = y[0] * 3
    y[0] = 0.0
    (before.sum() + y.sum()).backward()
    return x.grad


@cases
def sequence_numbers_of_regenerated_nodes(torch, log):
    x = matrix(torch)
    y = x * 1
    row = y[0]
    start = y.grad_fn._sequence_nr()
    row.mul_(2)
    log(y.grad_fn._sequence_nr() - start, row.grad_fn._sequence_nr() - start)
    row.mul_(2)
    between = (x * 1).grad_fn._sequence_nr()
    log(between - start, row.grad_fn._sequence_nr() - start, y.grad_fn._sequence_nr() - start)


@cases
def views_of_inference_mode_after_a_write(torch, log):
    base = leaf(torch) * 1
    with torch.inference_mode():
        view = base[:1]
    base.mul_(2)
    attempt(log, "used", lambda: view * 2)
    log(view.requires_grad)
