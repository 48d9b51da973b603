"""Forward-mode derivatives: duals go through every gradient mode but inference mode."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table

cases = Table()


@cases.test
def test_forward(program):
    agree(program)


def dual(torch):
    return torch.autograd.forward_ad.make_dual(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.5]))


def tangent(torch, value):
    """The derivative that a tensor carries, without what it may be recorded with."""
    found = torch.autograd.forward_ad.unpack_dual(value).tangent
    return None if found is None else found.detach()


@cases
def no_grad_inside(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            y = x**2
        return torch.is_grad_enabled(), tangent(torch, y), tangent(torch, y * 3)


@cases
def no_grad_around(torch):
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        return torch.is_grad_enabled(), tangent(torch, dual(torch).exp().sum())


@cases
def a_module_under_no_grad(torch):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            return tangent(torch, layers(x))


@cases
def leaves_are_written_under_no_grad(torch):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            w.mul_(2)
            y = x.clone()
            y.mul_(w)
        return w, tangent(torch, y), tangent(torch, w)


@cases
def views_and_joins_under_no_grad(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            y = torch.cat([x[1:], x.flip(0)[:1], x.reshape(2, 1)[0]]) * 2
        return tangent(torch, y)


@cases
def detaching_cuts(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.no_grad():
            return tangent(torch, x.detach() * 2), tangent(torch, torch.ones(2) * 3)


@cases
def inference_mode_cuts(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
        with torch.inference_mode():
            y = x * 2
        return tangent(torch, y)


@cases
def after_the_level(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch)
    with torch.no_grad():
        y = x * 2
    return y, y.requires_grad, tangent(torch, y)
