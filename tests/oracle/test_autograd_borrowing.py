"""Views that were not recorded and ask for gradients only as their base does; bases that cease to ask for them."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, on_both_paths  # noqa: F401

cases = Table()
pytestmark = pytest.mark.usefixtures("on_both_paths")


@cases.test
def test_borrowing(program):
    agree(program)


def leaf(torch):
    return torch.arange(4.0).requires_grad_()


def facts(view):
    """What a view tells about itself and about what is computed from it."""
    twice = view * 2
    ahead = twice.grad_fn and [node and node.name() for node, _ in twice.grad_fn.next_functions]
    return view.requires_grad, view.is_leaf, view.grad_fn and view.grad_fn.name(), twice.requires_grad, ahead


@cases
def taken_under_no_grad(torch, log):
    for x in (leaf(torch), leaf(torch) * 1):
        with torch.no_grad():
            view, (part, _) = x[:2], x.split(2)
        log(facts(view), facts(part), facts(view[:1]))
        (view * 2).sum().backward()
        log(view.grad)


@cases
def taken_before_the_base_asked(torch, log):
    base = torch.arange(4.0)
    view = base[:2]
    base.requires_grad_()
    log(facts(view))
    (view * 2).sum().backward()
    log(base.grad, view.grad)
    base.requires_grad_(False)
    log(facts(view))


@cases
def asking_on_its_own(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        view = x[:2]
    view.requires_grad_()
    log(facts(view))
    (view * 3).sum().backward()
    return view.grad, x.grad


@cases
def as_root_and_as_input(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        view = x[:2]
    attempt(log, "root", lambda: view.backward(torch.ones(2)), words=6)
    attempt(log, "input", lambda: torch.autograd.grad((view * 2).sum(), view), words=6)
    attempt(log, "edge", lambda: torch.autograd.graph.get_gradient_edge(view), words=6)
    attempt(log, "multi", lambda: torch.autograd.graph.register_multi_grad_hook([view], print), words=6)


@cases
def hooks_on_one_never_fire(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        view = x[:2]
    view.register_hook(lambda gradient: log("fired"))
    result = (view * 2).sum()
    result.grad_fn.next_functions[0][0].register_hook(lambda incoming, outgoing: log(incoming))
    torch.sin(view).backward(torch.ones(2))
    result.backward()


@cases
def a_base_that_ceased_to_ask(torch, log):
    x = leaf(torch)
    view = x[:2]
    x.requires_grad_(False)
    log(facts(view))
    x.mul_(2)
    log(facts(view))
    (view * 2).sum().backward()
    return x.grad


@cases
def parts_of_a_base_that_ceased_to_ask(torch, log):
    x = leaf(torch)
    part, _ = x.split(2)
    x.requires_grad_(False)
    x.mul_(2)
    attempt(log, "part", lambda: part.grad_fn, words=6)
    attempt(log, "kept", lambda: part.retain_grad(), words=6)


@cases
def a_base_that_is_detached_after_a_write(torch, log):
    base = torch.arange(4.0)
    view = base[:2]
    base.mul_(leaf(torch))
    log(facts(view))
    base.detach_()
    log(facts(view))
    (view * 2).sum().backward()


@cases
def views_of_views_taken_under_no_grad_refuse_writes(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        view = x[:2]
    attempt(log, "view", lambda: view.mul_(2), words=20)
    attempt(log, "view of view", lambda: view.view(2).mul_(2), words=20)


@cases
def keeping_the_gradient_of_a_view_that_became_a_result(torch, log):
    for look in (False, True):
        base = torch.zeros(2)
        view = base.view(2)
        base.add_(leaf(torch)[:2])
        if look:
            log(view.grad_fn.name())
        view.retain_grad()
        log(view.retains_grad)
        (view * 3).sum().backward()
        log(view.grad)


@cases
def copying_a_stretched_tensor_to_itself(torch):
    stretched = torch.ones(1, 2).expand(2, 2)
    stretched.copy_(stretched)
    return stretched, stretched._version


# --- views that recording would refuse, because their base was written to: without recording they can be read

STALE = {
    "one of several": lambda torch, x, base: (base.unbind()[0], base.mul_(2))[0],
    "unrecorded": lambda torch, x, base: (unrecorded(torch, lambda: base[0]), base.mul_(2))[0],
    "part of a leaf": lambda torch, x, base: (x.unbind()[0], unrecorded(torch, lambda: x.mul_(2)))[0],
    "view of a leaf": lambda torch, x, base: (x[0], unrecorded(torch, lambda: x.mul_(2)))[0],
}
READS = {
    "times a number": lambda torch, v: v * 2,
    "times itself": lambda torch, v: v * v,
    "second operand": lambda torch, v: torch.ones(2) + v,
    "function": lambda torch, v: v.exp(),
    "relu": lambda torch, v: v.relu(),
    "comparison": lambda torch, v: v > 0,
    "sum": lambda torch, v: v.sum(),
    "element": lambda torch, v: v[0],
    "part": lambda torch, v: v[:1],
    "rows": lambda torch, v: v[torch.tensor([1, 0])],
    "view": lambda torch, v: v.view(2, 1),
    "stretched": lambda torch, v: v.expand(3, 2),
    "apart": lambda torch, v: v.unbind(),
    "joined": lambda torch, v: torch.cat([v, v]),
    "product": lambda torch, v: torch.ones(3, 2) @ v,
    "linear": lambda torch, v: torch.nn.functional.linear(v[None], torch.ones(3, 2)),
    "choice": lambda torch, v: torch.where(v > 0, v, -v),
    "numbers": lambda torch, v: [float(each) for each in v],
}


def unrecorded(torch, act):
    with torch.no_grad():
        return act()


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("stale", STALE)
def test_reading_stale_views(stale, read, mode):
    def program(torch):
        x = torch.arange(1.0, 5.0).view(2, 2).clone().requires_grad_()
        view = STALE[stale](torch, x, x * 1)
        with getattr(torch, mode)():
            result = READS[read](torch, view)
        several = result if isinstance(result, (list, tuple)) else [result]
        return [each.tolist() if isinstance(each, torch.Tensor) else each for each in several]

    agree(program)
