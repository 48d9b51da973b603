"""Views of a tensor that is turned in place afterwards (`t_`, `squeeze_`, `as_strided_`): reads, writes and gradients."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree, agree_error
from tests.oracle.programs import Table

cases = Table()


@cases.test
def test_turned(program):
    agree(program, graph=True)


TURNS = {
    "t_": lambda base: base.t_(),
    "transpose_": lambda base: base.transpose_(0, 1),
    "swapaxes_": lambda base: base.swapaxes_(0, 1),
    "unsqueeze_": lambda base: base.unsqueeze_(0),
    "squeeze_": lambda base: base.squeeze_(),
    "as_strided_": lambda base: base.as_strided_((3, 2), (1, 3)),
    "twice": lambda base: base.t_().unsqueeze_(1),
    "there and back": lambda base: base.t_().t_(),
}
WRITES = {
    "nothing": lambda torch, base, view: None,
    "through the view": lambda torch, base, view: view.mul_(torch.arange(2.0, 5.0)),
    "through the base": lambda torch, base, view: base.mul_(3),
    "through both": lambda torch, base, view: (view.mul_(2), base.mul_(3), view.add_(1)),
    "through a view of the view": lambda torch, base, view: view[1:].mul_(5),
    "through a new view of the base": lambda torch, base, view: (base[0].mul_(5), view.mul_(2)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("turn", TURNS)
def test_view_taken_before(turn, write):
    def program(torch):
        x = torch.arange(6.0).reshape(2, 3).clone().requires_grad_()
        base = x * x
        view = base[0]
        TURNS[turn](base)
        WRITES[write](torch, base, view)
        weights = torch.arange(1.0, 7.0).reshape(base.shape)
        loss = (base * base * weights).sum() + (view * view * torch.arange(1.0, 4.0)).sum()
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return base, view, base.grad_fn.name(), view.grad_fn.name(), base._version, first, second

    agree(program)


@cases
def a_plain_base_written_through_its_old_view(torch):
    base = torch.zeros(2, 3)
    view = base[0]
    base.t_()
    w = torch.ones(3, requires_grad=True)
    view.copy_(w)
    (base * torch.arange(6.0).reshape(3, 2)).sum().backward()
    return base, w.grad


@cases
def a_view_that_is_turned_and_its_own_view(torch):
    x = torch.arange(6.0).reshape(2, 3).clone().requires_grad_()
    base = x * 1
    view = base[:, :2]
    row = view[0]
    view.t_()
    row.mul_(2)
    ((base * 3).sum() + (view * torch.arange(4.0).reshape(2, 2)).sum() + row.sum()).backward()
    return x.grad


@cases
def a_view_of_the_real_parts(torch):
    x = torch.arange(6.0).reshape(2, 3).to(torch.complex64).requires_grad_()
    base = x * 1
    view = torch.view_as_real(base)[0]
    base.t_()
    view.mul_(3.0)
    (base * torch.arange(6.0).reshape(3, 2)).real.sum().backward()
    return x.grad


@cases
def kept_gradient_of_the_view(torch):
    x = torch.ones(2, 2, requires_grad=True)
    base = x * 1
    view = base[0]
    view.retain_grad()
    base.t_()
    (view * torch.arange(2.0)).sum().backward()
    return x.grad, view.grad


# --- leaves that are views of memory that asks for nothing


@pytest.mark.parametrize(
    "write",
    [lambda x: x.mul_(2), lambda x: x.t_(), lambda x: x[0].mul_(2), lambda x: x.zero_(), lambda x: x.copy_(x * 2)],
    ids=["mul_", "t_", "through a part", "zero_", "copy_"],
)
def test_a_leaf_that_is_a_view_refuses_writes(write):
    def program(torch):
        write(torch.arange(6.0).reshape(2, 3).requires_grad_())

    agree_error(program)
