"""Tensors of inference mode: what may be written, resized, saved and detached, inside and outside."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf

cases = Table()


@cases.test
def test_inference(program):
    agree(program)


def made_inside(torch, *shape):
    with torch.inference_mode():
        return torch.ones(*shape or (2,))


WRITES = {
    "add_": lambda torch, i: i.add_(1),
    "through a view": lambda torch, i: i.view(-1).add_(1),
    "setitem": lambda torch, i: i.__setitem__(0, 3),
    "zero_": lambda torch, i: i.zero_(),
    "out=": lambda torch, i: torch.add(torch.ones(2), 1, out=i),
    "out= of a matrix product": lambda torch, i: torch.mv(torch.ones(2, 2), torch.ones(2), out=i),
    "resize_": lambda torch, i: i.resize_(1),
    "resize_as_": lambda torch, i: i.resize_as_(torch.ones(1)),
    "copy_": lambda torch, i: i.copy_(torch.zeros(2)),
    "set_": lambda torch, i: i.set_(torch.zeros(2)),
    "detach_": lambda torch, i: i.detach_(),
    "requires_grad_": lambda torch, i: i.requires_grad_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_inference_tensors(name):
    def program(torch, log):
        attempt(log, "outside", lambda: WRITES[name](torch, made_inside(torch)))
        with torch.no_grad():
            attempt(log, "under no_grad", lambda: WRITES[name](torch, made_inside(torch)))
        with torch.inference_mode():
            attempt(log, "inside", lambda: WRITES[name](torch, made_inside(torch)))

    agree(program, requires_grad=False)


@pytest.mark.parametrize("name", [name for name in WRITES if name != "set_"])
def test_writes_to_normal_tensors_inside(name):
    def program(torch, log):
        constant, wanting, computed = torch.ones(2), leaf(torch), leaf(torch) * 2
        with torch.inference_mode():
            for target in (constant, wanting, computed):
                attempt(log, "inside", lambda target=target: WRITES[name](torch, target))
                log(target.is_inference(), target.requires_grad)

    agree(program)


@cases
def data_of_inference_tensors(torch, log):
    i = made_inside(torch)
    log(i.data.is_inference(), i.detach().is_inference(), i.clone().is_inference())
    a = torch.zeros(2)
    a.data = i
    log(a, a.is_inference())


@cases
def detach_in_place_is_left_out_inside(torch, log):
    a = leaf(torch)
    b = a * 2
    with torch.inference_mode():
        b.detach_()
    log(b.requires_grad)
    b.sum().backward()
    log(a.grad)


@cases
def only_what_a_gradient_reads_must_be_normal(torch, log):
    i = made_inside(torch)
    for label, write in {
        "copy_": lambda a: a.copy_(i),
        "add_": lambda a: a.add_(i),
        "mul_": lambda a: a.mul_(i),
        "setitem": lambda a: a.__setitem__(slice(None), i),
        "masked_fill_": lambda a: a.masked_fill_(torch.tensor([True, False]), i[0]),
    }.items():
        attempt(log, label, lambda write=write: write(leaf(torch).clone()))


@cases
def views_of_inference_tensors_are_no_views(torch, log):
    with torch.inference_mode():
        x = torch.ones(2, 2)
        inside = x.view(4), x[0], *x.unbind(), x.detach(), x.expand(3, 2, 2)
        normal = torch.ones(2).clone()
    for view in (*inside, x.view(4), x.t(), normal[0]):
        log(view._is_view(), view._base, view.is_inference())
