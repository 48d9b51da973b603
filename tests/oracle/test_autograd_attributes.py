"""Attributes of tensors that autograd owns: setting, deleting, and what a copy keeps of them."""

from __future__ import annotations

import copy
import pickle

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, on_both_paths  # noqa: F401

cases = Table()
pytestmark = pytest.mark.usefixtures("on_both_paths")


@cases.test
def test_attributes(program):
    agree(program)


NAMES = (
    "requires_grad", "grad", "_grad", "grad_fn", "data", "is_leaf", "output_nr", "_version", "_base", "_backward_hooks",
    "shape", "dtype", "device", "layout", "T",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_deleting(name):
    def program(torch, log):
        for tensor in (leaf(torch), leaf(torch) * 2, torch.ones(2)):
            attempt(log, name, lambda tensor=tensor: delattr(tensor, name))

    agree(program)


@cases
def gradient_by_its_other_name(torch, log):
    x = leaf(torch)
    x._grad = torch.ones(2) * 5
    log(x.grad, x._grad)
    (x * 2).sum().backward()
    log(x.grad)
    del x._grad
    log(x.grad)
    for value in (torch.ones(3), torch.ones(2, dtype=torch.float64), 3, x, torch.ones(2, device="meta")):
        attempt(log, "set", lambda value=value: setattr(x, "_grad", value))
        attempt(log, "set", lambda value=value: setattr(x, "grad", value))


@cases
def data_of_another_kind(torch, log):
    for value in (torch.ones(2).to_sparse(), torch.arange(2), 3, torch.ones(2, device="meta")):
        attempt(log, "data", lambda value=value: setattr(leaf(torch), "data", value))


@cases
def data_of_another_shape_and_an_old_gradient(torch, log):
    x = leaf(torch)
    (x * 2).sum().backward()
    x.data = torch.ones(3)
    log(x.grad)
    attempt(log, "backward", lambda: (x * 2).sum().backward())


@cases
def versions_of_copies(torch, log):
    x = torch.ones(4)
    x.add_(1)
    x.add_(1)
    parameter = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        parameter.add_(1)
    for tensor in (x, x[1:3], leaf(torch), parameter, torch.ones(2)):
        copies = (copy.copy(tensor), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), tensor.clone())
        log([each._version for each in copies])


# --- edges ---------------------------------------------------------------------------------------------------------------


@cases
def unused_edges(torch, log):
    edge = torch.autograd.graph.get_gradient_edge
    x = leaf(torch)
    y, z = x * 2, x * 3
    for options in ({}, {"allow_unused": True}, {"materialize_grads": True}):
        attempt(log, options, lambda o=options: torch.autograd.grad(z.sum(), edge(y), retain_graph=True, **o))
        attempt(log, options, lambda o=options: torch.autograd.grad(z.sum(), [edge(z), x], retain_graph=True, **o))


@cases
def gradients_for_edges(torch, log):
    edge = torch.autograd.graph.get_gradient_edge
    x = leaf(torch)
    y = x * 2
    for given in (torch.ones(2), torch.ones(3), torch.ones(()), None):
        attempt(log, "grad", lambda g=given: torch.autograd.grad(edge(y), x, g, retain_graph=True))
