"""Forward mode: which tangents a tensor may have, how they lie in memory, and which ops refuse them."""

from __future__ import annotations

import copy
import weakref

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf

cases = Table()


@cases.test
def test_tangents(program):
    agree(program)


def dual(torch, *shape):
    made = torch.arange(1.0, 1 + torch.ones(*shape).numel()).view(*shape)
    return torch.autograd.forward_ad.make_dual(made / made.sum(), torch.ones(*shape))


# --- layout --------------------------------------------------------------------------------------------------------------


@cases
def a_tangent_lies_as_its_tensor_does(torch, log):
    fw = torch.autograd.forward_ad
    for label, (primal, tangent) in {
        "the same": (torch.rand(2, 3), torch.rand(2, 3)),
        "turned": (torch.rand(2, 3), torch.rand(3, 2).t()),
        "both turned": (torch.rand(3, 2).t(), torch.rand(3, 2).t()),
        "of a slice": (torch.rand(4, 3)[::2], torch.rand(2, 3)),
        "of a later part": (torch.rand(4, 3)[1:3], torch.rand(2, 3)),
        "both slices": (torch.rand(2, 3)[:, :2], torch.rand(2, 3)[:, :2]),
        "stretched": (torch.rand(2, 3), torch.rand(3).expand(2, 3)),
        "of a stretched one": (torch.rand(3).expand(2, 3), torch.rand(2, 3)),
        "another dtype": (torch.rand(2, 3), torch.rand(2, 3, dtype=torch.float64)),
        "another dtype, turned": (torch.rand(2, 3), torch.rand(3, 2, dtype=torch.float64).t()),
    }.items():
        with fw.dual_level():

            def layout(primal=primal, tangent=tangent):
                found = fw.unpack_dual(fw.make_dual(primal, tangent)).tangent
                shared = found.data_ptr() == tangent.data_ptr()
                return found, found.stride(), found.storage_offset(), shared

            attempt(log, label, layout)


@cases
def tangents_of_results_lie_as_the_results(torch, log):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        x = dual(torch, 3, 4)
        for y in (x.t() + 1, x * x, x.t() * x.t(), x[:, 1:], x[::2] * 2, x.sum(0), x @ x.t(), x.permute(1, 0).exp()):
            tangent = fw.unpack_dual(y).tangent
            log(tangent, tangent.stride() == y.stride(), tangent.storage_offset() == y.storage_offset())


@cases
def conjugated_and_negated(torch, log):
    fw = torch.autograd.forward_ad
    primal, tangent = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([2 - 1j, 0.5 + 1j])
    with fw.dual_level():
        for a in (primal, primal.conj()):
            for b in (tangent, tangent.conj()):
                x = fw.make_dual(a, b)
                for y in (x, x.conj(), x.imag, x.conj().imag, x.resolve_conj()):
                    found = fw.unpack_dual(y)
                    log(found.primal.is_conj(), found.tangent.is_conj(), found.primal.is_neg(), found.tangent.is_neg())
                    log(found.tangent.resolve_conj().resolve_neg())
        found = fw.unpack_dual(fw.make_dual(torch._neg_view(torch.ones(2)), torch.ones(2)))
        log(found.tangent.is_neg(), found.tangent.resolve_neg())


# --- refusals ------------------------------------------------------------------------------------------------------------


@cases
def one_tangent_for_each_level(torch, log):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        x = dual(torch, 2)
        attempt(log, "of a dual", lambda: fw.make_dual(x, torch.ones(2)))
        attempt(log, "of what depends on one", lambda: fw.make_dual(x * 2, torch.ones(2)))
        attempt(log, "a dual", lambda: fw.make_dual(torch.ones(2), x))
        attempt(log, "what depends on one", lambda: fw.make_dual(torch.ones(2), x * 2))


@cases
def writes_and_copies_of_duals(torch, log):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        attempt(log, "of a leaf", lambda: fw.make_dual(leaf(torch), torch.ones(2)).mul_(2))
        attempt(log, "resized", lambda: dual(torch, 3).resize_(2))
        for made in (dual(torch, 2), dual(torch, 2) * 2):
            log(fw.unpack_dual(copy.deepcopy(made)))
        attempt(log, "out=", lambda: torch.add(dual(torch, 2), 1, out=torch.empty(2)))
        attempt(log, "into a dual", lambda: torch.add(torch.ones(2), 1, out=dual(torch, 2)))
        with torch.no_grad():
            attempt(log, "out= under no_grad", lambda: torch.mm(dual(torch, 2, 2), torch.eye(2), out=torch.empty(2, 2)))
        log(torch.add(torch.ones(2), 1, out=torch.empty(2)))


WITHOUT_FORMULA = {
    "cdist": lambda torch, x: torch.cdist(x, x + 1),
    "pdist": lambda torch, x: torch.nn.functional.pdist(x),
    "cholesky": lambda torch, x: torch.cholesky(x @ x.t() + torch.eye(3)),
    "embedding_bag": lambda torch, x: torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), x),
    "grid_sample": lambda torch, x: torch.nn.functional.grid_sample(
        x.view(1, 1, 3, 3), torch.zeros(1, 2, 2, 2), align_corners=False),
    "index_reduce": lambda torch, x: x.index_reduce(0, torch.tensor([0]), torch.ones(1, 3), "amax"),
    "index_reduce_": lambda torch, x: x.clone().index_reduce_(0, torch.tensor([0]), torch.ones(1, 3), "amax"),
    "multi_margin_loss": lambda torch, x: torch.nn.functional.multi_margin_loss(x, torch.tensor([0, 1, 2])),
    "multilabel_margin_loss": lambda torch, x: torch.nn.functional.multilabel_margin_loss(
        x, torch.zeros(3, 3, dtype=torch.int64)),
    "ctc_loss": lambda torch, x: torch.nn.functional.ctc_loss(
        x.log_softmax(1), torch.tensor([1]), torch.tensor(3), torch.tensor(1)),
    "segment_reduce": lambda torch, x: torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 2])),
    "zeta": lambda torch, x: torch.special.zeta(2.0, x + 1),
    "igamma": lambda torch, x: torch.igamma(x, x),
    "unique": lambda torch, x: torch.unique(x),
    "unique along a dim": lambda torch, x: torch.unique(x, dim=0),
    "ormqr": lambda torch, x: torch.ormqr(x, torch.ones(3), torch.eye(3)),
    "floor_divide": lambda torch, x: torch.floor_divide(x, 0.5),
    "heaviside": lambda torch, x: torch.heaviside(x, x),
    "heaviside_": lambda torch, x: x.clone().heaviside_(x),
    "attention": lambda torch, x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 1, 3, 3)] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_FORMULA)
def test_ops_without_a_forward_formula(name):
    def program(torch, log):
        with torch.autograd.forward_ad.dual_level():
            attempt(log, "dual", lambda: WITHOUT_FORMULA[name](torch, dual(torch, 3, 3)), words=12)
            with torch.no_grad():
                attempt(log, "dual", lambda: WITHOUT_FORMULA[name](torch, dual(torch, 3, 3)), words=12)
            log(WITHOUT_FORMULA[name](torch, torch.rand(3, 3) + 0.5))

    agree(program, warns=False)


# --- writes to a dual update its tangent object -------------------------------------------------------------------------


@cases
def a_write_to_a_dual_updates_the_tangent_given(torch, log):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        primal, tangent = torch.arange(4.0), torch.ones(4)
        x = fw.make_dual(primal, tangent)
        before = x * 3
        x.mul_(2)
        log("scaled", tangent, fw.unpack_dual(x).tangent is tangent, fw.unpack_dual(before).tangent, primal)
        view = x[1:]
        view.add_(fw.make_dual(torch.ones(3), torch.full((3,), 5.0)))
        log("through a view", tangent, fw.unpack_dual(view), fw.unpack_dual(x))
        x.mul_(x.clone())
        log("squared", tangent, fw.unpack_dual(x), fw.unpack_dual(view), fw.unpack_dual(before))
        fw.unpack_dual(x).tangent.zero_()
        log("cleared", fw.unpack_dual(x), fw.unpack_dual(before))
        x.zero_()
        log("zero", fw.unpack_dual(x))


@cases
def a_written_dual_stays_differentiable(torch, log):
    fw = torch.autograd.forward_ad
    x, tangent = leaf(torch), leaf(torch, 3.0, 4.0)
    with fw.dual_level():
        y = fw.make_dual(x.clone(), tangent * 1)
        y.mul_(y.clone())
        value, slope = fw.unpack_dual(y)
        log(value, slope, tangent)
        log(torch.autograd.grad(slope.sum(), [x, tangent], retain_graph=True), torch.autograd.grad(value.sum(), x))


@cases
def functions_that_write_update_tangents_once(torch, log):
    fw = torch.autograd.forward_ad

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

    with fw.dual_level():
        tangent = torch.ones(2)
        x = fw.make_dual(torch.ones(2), tangent)
        log(fw.unpack_dual(Double.apply(x)), tangent)
        x.mul_(3)
        log(fw.unpack_dual(x), tangent)


@cases
def as_strided_scatter_pushes_what_it_keeps(torch, log):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        whole = fw.make_dual(torch.arange(6.0), torch.full((6,), 2.0))
        part = fw.make_dual(torch.ones(2, 2), torch.full((2, 2), 5.0))
        for x, y in ((whole, part), (torch.arange(6.0), part), (whole, torch.ones(2, 2))):
            log(fw.unpack_dual(torch.as_strided_scatter(x, y, (2, 2), (2, 1), 1)))
    x = torch.arange(6.0)
    log(torch.func.jvp(lambda x: torch.as_strided_scatter(x, x[:2], (2,), (3,)), (x,), (x,)))
    log(torch.func.grad(lambda x: (torch.as_strided_scatter(x, x[:2] * 3, (2,), (3,)) * x).sum())(x))


def carried(torch, value):
    """The derivative that a tensor carries, without what it may be recorded with."""
    found = torch.autograd.forward_ad.unpack_dual(value).tangent
    return None if found is None else found.detach()


@cases
def a_primal_has_no_tangent(torch, log):
    """The primal of a dual is a plain tensor: no tangent, no graph but the program's own."""
    forward, x = torch.autograd.forward_ad, torch.tensor([1.0, 2.0], requires_grad=True)
    with forward.dual_level():
        for given in (x, x.detach()):
            for modify in (lambda d: d, lambda d: d * d, lambda d: d.clone()[0].mul_(2)):
                for mode in (torch.enable_grad, torch.no_grad):
                    dual = forward.make_dual(given, torch.ones(2))
                    with mode():
                        modified = modify(dual)
                    primal = forward.unpack_dual(modified).primal
                    log(primal, primal.requires_grad, carried(torch, primal), carried(torch, primal * 2))
                    if primal.requires_grad:
                        log(torch.autograd.grad(primal.sum(), x))
        with forward._set_fwd_grad_enabled(False):
            dual = forward.make_dual(x.detach(), torch.ones(2))
            off = dual * 2
            log(off.requires_grad, carried(torch, off), carried(torch, dual))
        log(
            carried(torch, off), carried(torch, dual * 2), forward.make_dual(x.detach(), torch.ones(2)).to("meta").shape
        )


@cases
def tangents_written_and_released(torch, log):
    """A write to a tangent changes its dual, not what was computed before; a tangent dies with its dual."""
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        given = torch.ones(2)
        dual = forward.make_dual(torch.ones(2), given)
        before = dual * 2
        given.mul_(5)
        log(carried(torch, before), carried(torch, dual), carried(torch, dual * 2))
        dual.mul_(3)
        log(given, carried(torch, before))
        given.zero_()
        log(carried(torch, dual), carried(torch, dual * 2), carried(torch, before))
        alive = weakref.ref(given)
        del given, dual
        log(alive() is None, carried(torch, before))


@cases
def views_of_duals_written_under_no_grad(torch, log):
    """A view that no gradient of the program passes through may be written to."""
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(torch.ones(2, 2), torch.full((2, 2), 2.0))
        with torch.no_grad():
            row = dual[0]
        row.mul_(3)
        log(row.detach(), carried(torch, row), carried(torch, dual))
        dual.unbind()[1].mul_(4)
        log(dual.detach(), carried(torch, dual))


@cases
def gradients_through_primals(torch, log):
    forward = torch.autograd.forward_ad
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with forward.dual_level():
        dual = forward.make_dual(x, torch.tensor([1.0, 0.0]))
        primal = forward.unpack_dual(dual * dual).primal
        (gradient,) = torch.autograd.grad((primal * 3).sum(), x)
        log(gradient.detach(), carried(torch, gradient))
        forward.unpack_dual(dual).primal.mul_(5)


def test_duals_keep_their_class():
    def program(torch):
        class Own(torch.Tensor):
            pass

        forward = torch.autograd.forward_ad
        with forward.dual_level():
            dual = forward.make_dual(torch.ones(2).as_subclass(Own), torch.ones(2))
            unpacked = forward.unpack_dual(dual)
            return type(dual).__name__, type(unpacked.primal).__name__, forward.unpack_dual(dual * 2).tangent.tolist()

    agree(program)
