"""`conj` and `_neg_view` are views: the same memory, shown through a function, and written through it."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import undertow
from tests.oracle.harness import agree, agree_error
from undertow._src.tensor import lazy_conj


def pair(torch):
    x = torch.tensor([1 + 2j, 3 - 1j])
    return x, x.conj()


def names(node):
    found = []
    while node is not None:
        found.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return found


def test_a_conjugate_is_a_view_of_the_same_memory():
    def program(torch):
        x, y = pair(torch)
        facts = [y.is_conj(), y._is_view(), y._base is x, y.data_ptr() == x.data_ptr(), y.stride(), x.is_conj()]
        facts += [y[1:].storage_offset(), y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()]
        facts += [y.conj().is_conj(), y.conj().data_ptr() == x.data_ptr(), y.resolve_conj().is_conj()]
        return facts, y, repr(y), y.tolist(), y[0].item()

    agree(program)


WRITES = {
    "through the view": lambda x, y: y.mul_(2j),
    "to the base": lambda x, y: x.add_(1j),
    "to a part of the view": lambda x, y: y[1:].fill_(9 + 9j),
    "by assignment": lambda x, y: y.__setitem__(0, 5 + 5j),
    "to the imaginary part of the view": lambda x, y: y.imag.fill_(7),
    "to the real part of the view": lambda x, y: y.real.add_(7),
    "to the imaginary part of the base": lambda x, y: x.imag.mul_(2),
    "to data": lambda x, y: x.data.add_(1),
    "to a twice conjugated view": lambda x, y: y.conj().add_(2j),
    "to a negative of the view": lambda x, y: y._neg_view().add_(1 + 2j),
}


@pytest.mark.parametrize("where", WRITES)
def test_a_write_reaches_every_alias(where):
    def program(torch):
        x, y = pair(torch)
        part = x[:1].conj()
        negative = x._neg_view()
        WRITES[where](x, y)
        return x, y, part, negative, y.imag, x._version, y._version

    agree(program)


def test_out_reaches_the_base():
    def program(torch):
        x, y = pair(torch)
        torch.add(x, 1, out=y)
        return x, y

    agree(program)


def test_which_results_are_conjugated():
    def program(torch):
        x, y = pair(torch)
        square = torch.ones(2, 2, dtype=torch.complex64)
        results = [
            y[0], y.view(2, 1), y.T, y * 2, y.clone(), y.contiguous(), y.detach(), y.data, y.cpu(), y.expand(2, 2), -y,
            y.to(torch.complex128), torch.cat([y, y]), torch.stack([y]), y.reshape(2, 1), torch.zeros_like(y),
            copy.deepcopy(y), copy.copy(y), pickle.loads(pickle.dumps(y)), square.mH, square.H, square.adjoint(),
            y.conj_physical(), y.conj_physical_(), y.resolve_neg(),
        ]  # fmt: skip
        return [(result.is_conj(), result) for result in results], x, x.real.is_conj()

    agree(program)


def test_negatives():
    def program(torch):
        x = torch.tensor([1.0, 2.0])
        y = x._neg_view()
        y.mul_(3)
        facts = [y.is_neg(), y._is_view(), y._base is x, x._version, y[0].is_neg(), y.detach().is_neg(), (-y).is_neg()]
        facts += [y.resolve_neg().is_neg(), y.clone().is_neg(), y._neg_view().is_neg(), torch.is_neg(y)]
        c, d = pair(torch)
        facts += [
            d.imag.is_neg(),
            d.real.is_neg(),
            c.imag.is_neg(),
            d.imag._base is c,
            d.real.data_ptr() == c.data_ptr(),
        ]
        return facts, x, y, d.imag, d.numpy(force=True), y.numpy(force=True)

    agree(program)


@pytest.mark.parametrize("read", [
    lambda torch: pair(torch)[1].numpy(),
    lambda torch: pair(torch)[1].imag.numpy(),
    lambda torch: np.asarray(pair(torch)[1]),
    lambda torch: torch.view_as_real(pair(torch)[1]),
])  # fmt: skip
def test_what_a_conjugate_refuses(read):
    agree_error(read)


VIEWS = {
    "conj": lambda b: b.conj(),
    "part": lambda b: b[0].conj(),
    "part of": lambda b: b.conj()[0],
    "imag": lambda b: b.imag,
    "real": lambda b: b.real,
    "imag of conj": lambda b: b.conj().imag,
    "mH": lambda b: b.mH,
    "twice": lambda b: b.conj().conj(),
    "negative": lambda b: b._neg_view(),
}


@pytest.mark.parametrize("taken", VIEWS)
def test_history_of_a_written_view(taken):
    def program(torch):
        x = torch.tensor([[1 + 2j, 3 - 1j], [1j, 2 + 1j]], requires_grad=True)
        base = x * 1
        view = VIEWS[taken](base)
        before = names(view.grad_fn)
        view.mul_(2)
        between = names(view.grad_fn)
        base.mul_(3)
        (view.abs().sum() + base.abs().sum()).backward()
        return before, between, names(view.grad_fn), x.grad, view, base

    agree(program)


def test_a_conjugate_of_a_leaf_refuses_writes():
    def program(torch):
        x = torch.tensor([1 + 2j], requires_grad=True)
        x.conj().mul_(2)

    agree_error(program)


def test_gradients_of_gradients_are_no_mirrors():
    def program(torch):
        x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        (g,) = torch.autograd.grad((x * x.conj() * x).sum().abs(), x, create_graph=True)
        (gg,) = torch.autograd.grad(g.abs().sum(), x)
        return g, gg, g.is_conj(), gg.is_conj()

    agree(program)


def test_a_mirror_dies_with_its_tensors():
    gc.collect()
    before = len(lazy_conj.known)
    x = undertow.ones(3, dtype=undertow.complex64)
    y = x.conj()[1:]
    assert len(lazy_conj.known) == before + 1
    del y
    assert len(lazy_conj.known) == before


PLAIN_NUMBERS = {
    "mul number": lambda torch, z: (z * 2).real.sum(),
    "square": lambda torch, z: (z * z).real.sum(),
    "div": lambda torch, z: (z / 2).real.sum(),
    "power": lambda torch, z: (z**2).real.sum(),
    "complex power": lambda torch, z: ((z + 1) ** (1 + 2j)).real.sum(),
    "exp": lambda torch, z: z.exp().real.sum(),
    "real weights": lambda torch, z: (torch.tensor([1.0, 2.0]) * z).real.sum(),
    "alpha": lambda torch, z: torch.add(z, z, alpha=1 + 1j).real.sum(),
    "matrix": lambda torch, z: (torch.tensor([[1 + 1j, 2], [0, 1j]]) @ z).imag.sum(),
    "sigmoid": lambda torch, z: z.sigmoid().real.sum(),
    "lerp": lambda torch, z: torch.lerp(z, z.detach(), 0.5).real.sum(),
}


@pytest.mark.parametrize("function", PLAIN_NUMBERS)
def test_zeros_in_gradients_have_the_sign_that_pytorch_prints(function):
    def program(torch):
        z = torch.tensor([1 + 0j, 0j], requires_grad=True)
        PLAIN_NUMBERS[function](torch, z).backward()
        return repr(z.grad)

    agree(program)


def test_a_write_to_one_element_carries_that_element():
    def program(torch):
        memory = np.array([1 + 1j, 2j], "F")
        y = torch.from_numpy(memory).conj()
        memory[0] = 5 + 5j
        y[1] = 1
        return memory.tolist()

    agree(program)


def test_mirrors_are_forgotten_with_their_tensors():
    before = len(lazy_conj.known)
    kept = [undertow.ones(2, dtype=undertow.complex64).conj() for _ in range(5)]
    assert len(lazy_conj.known) == before + 5
    del kept
    gc.collect()
    assert len(lazy_conj.known) == before
