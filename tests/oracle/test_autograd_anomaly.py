"""Anomaly mode around hooks, and what every kind of node remembers of its making."""

from __future__ import annotations

import warnings

import pytest

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, succeeds

cases = Table()


@cases.test
def test_anomaly(program):
    agree(program, warns=True)


def nan(torch, g):
    return g * float("nan")


def anomaly(torch):
    return torch.autograd.set_detect_anomaly(True)


@cases
def a_hook_that_raises_is_told_with_its_node(torch, log):
    x = leaf(torch)
    with anomaly(torch):
        y = x * 2
        y.register_hook(lambda g: 1 / 0)
        succeeds(log, "tensor", lambda: y.sum().backward())
        y = x * 2
        y.grad_fn.register_prehook(lambda grads: {}["missing"])
        succeeds(log, "pre", lambda: y.sum().backward())
        y = x * 2
        y.grad_fn.register_hook(lambda *grads: {}["missing"])
        succeeds(log, "post", lambda: y.sum().backward())


@cases
def a_leaf_hook_that_raises(torch, log):
    x = leaf(torch)
    x.register_hook(lambda g: 1 / 0)
    with anomaly(torch):
        succeeds(log, "backward", lambda: (x * 2).sum().backward())
        succeeds(log, "grad", lambda: torch.autograd.grad((x * 2).sum(), x))
    x = leaf(torch)
    x.register_post_accumulate_grad_hook(lambda x: 1 / 0)
    with anomaly(torch):
        succeeds(log, "accumulated", lambda: (x * 2).sum().backward())


@cases
def nan_is_looked_for_after_the_nodes_hooks(torch, log):
    x = leaf(torch)
    with anomaly(torch):
        y = x * 2
        y.grad_fn.register_hook(lambda inputs, _: (nan(torch, inputs[0]), None))
        succeeds(log, "made by a hook", lambda: y.sum().backward())
        y = x * 2
        y.grad_fn.register_prehook(lambda grads: (nan(torch, grads[0]),))
        y.grad_fn.register_hook(lambda *_: (torch.zeros(2), None))
        succeeds(log, "taken away by a hook", lambda: y.sum().backward())
        y = x * 2
        y.register_hook(lambda g: nan(torch, g))
        succeeds(log, "made by a tensor hook", lambda: y.sum().backward())
    return x.grad


@cases
def nan_is_looked_for_in_the_values_of_a_sparse_gradient(torch, log):
    weight, rows = leaf(torch, 1.0, 2.0, 3.0).reshape(3, 1).detach().requires_grad_(), torch.tensor([1, 1])
    with anomaly(torch):
        taken = torch.nn.functional.embedding(rows, weight, sparse=True)
        succeeds(log, "numbers", lambda: taken.sum().backward())
        log(weight.grad.to_dense())
        taken = torch.nn.functional.embedding(rows, weight, sparse=True)
        taken.register_hook(lambda g: nan(torch, g))
        succeeds(log, "nan", lambda: taken.sum().backward())


@cases
def every_kind_of_node_remembers_its_making(torch, log):
    x = leaf(torch)
    with anomaly(torch):
        base = x * 1
        view = base[:1]
        base[1:].mul_(2)
        made = function(torch, lambda ctx, a: a * 2, lambda ctx, g: g).apply(x)
        largest, _ = made.max(0)
        for tensor in (base, view, made, largest):
            log(tensor.grad_fn.name(), sorted(tensor.grad_fn.metadata))
        accumulator = made.grad_fn.next_functions[0][0]
        log(accumulator.name(), sorted(accumulator.metadata))


@cases
def nodes_made_in_a_backward_know_whose(torch, log):
    x = leaf(torch)
    with anomaly(torch):
        y = x.exp()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        log(sorted(y.grad_fn.metadata), sorted(g.grad_fn.metadata), g.grad_fn.metadata["parent_"] is y.grad_fn)
        double = function(torch, lambda ctx, a: a * 2, lambda ctx, g: double.apply(g))
        y = double.apply(x)
        (g,) = torch.autograd.grad(y.sum(), x, torch.tensor(1.0, requires_grad=True), create_graph=True)
        log(g.grad_fn.name(), g.grad_fn.metadata["parent_"] is y.grad_fn)


def test_the_users_own_exception_is_left_as_it_is_and_gets_a_note() -> None:
    x = leaf(undertow)
    y = x * 2
    with pytest.warns(UserWarning, match="Error detected in MulBackward0"), undertow.autograd.set_detect_anomaly(True):
        y = x * 2  # the line that the note names
        empty: dict[str, int] = {}
        y.register_hook(lambda g: empty["missing"])
        with pytest.raises(KeyError) as caught:
            y.sum().backward()
    assert caught.value.args == ("missing",)
    assert "y = x * 2  # the line that the note names" in caught.value.__notes__[0]


def test_an_error_in_a_write_through_a_view_names_the_line() -> None:
    x = leaf(undertow, 0.0, 1.0)
    with undertow.autograd.set_detect_anomaly(True):
        base = x * 1
        base[:1].pow_(0.5)  # the line that is named
        base[:1].mul_(0.0)
        with (
            pytest.warns(UserWarning, match="Error detected"),
            pytest.raises(RuntimeError, match="returned nan values") as caught,
        ):
            base.sum().backward()
    assert "the line that is named" in caught.value.__notes__[0]


@cases
def marking_what_is_no_input_as_dirty_warns(torch, log):
    def forward(ctx, a):
        result = a * 1
        ctx.mark_dirty(result)
        return result

    made = function(torch, forward, lambda ctx, g: g)
    made.apply(torch.ones(2))
    log("recorded")
    made.apply(leaf(torch))


def test_each_calculation_has_a_warning_of_its_own():
    def program(torch, log):
        nan = function(torch, lambda ctx, a: a * 2, lambda ctx, g: g * float("nan"))
        outer = function(
            torch,
            lambda ctx, a: (ctx.save_for_backward(a), a**2)[1],
            lambda ctx, g: nan.apply(ctx.saved_tensors[0]) * g,
        )
        phrases = ("Anomaly Detection", "Error detected in MadeBackward", "caused the error", "Previous calculation was",
                   "induced the previous calculation", "No forward pass information")  # fmt: skip
        for forward_too in (True, False):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x = torch.ones(2, requires_grad=True)
                y = None if forward_too else outer.apply(x).sum()
                with torch.autograd.detect_anomaly():
                    y = outer.apply(x).sum() if y is None else y
                    (g,) = torch.autograd.grad(y, x, create_graph=True)
                    attempt(log, "second", lambda g=g: g.sum().backward())
            log([[phrase in str(item.message) for phrase in phrases] for item in caught])

    agree(program)
