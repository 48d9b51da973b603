"""In-place operations: who may be written to, version counters, and gradients through the write."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, succeeds

cases = Table()


@cases.test
def test_in_place(program):
    agree(program, graph=True, warns=True)


# --- leaves --------------------------------------------------------------------------------------------------------------


@cases
def writing_to_a_leaf(torch, log):
    x = leaf(torch)
    succeeds(log, "mul_", lambda: x.mul_(2))
    succeeds(log, "+=", lambda: x.__iadd__(1))
    succeeds(log, "zero_", lambda: x.zero_())
    succeeds(log, "fill_", lambda: x.fill_(3.0))
    succeeds(log, "copy_", lambda: x.copy_(torch.ones(2)))
    succeeds(log, "setitem", lambda: x.__setitem__(0, 5.0))
    succeeds(log, "setitem mask", lambda: x.__setitem__(torch.tensor([True, False]), 5.0))
    succeeds(log, "index_put_", lambda: x.index_put_((torch.tensor([0]),), torch.tensor([3.0])))
    succeeds(log, "masked_fill_", lambda: x.masked_fill_(torch.tensor([True, False]), 0.0))
    succeeds(log, "normal_", lambda: x.normal_())
    succeeds(log, "clamp_", lambda: x.clamp_(0, 1))
    succeeds(log, "out", lambda: torch.add(torch.ones(2), torch.ones(2), out=x))
    log(x, x._version)


@cases
def writing_to_a_leaf_in_no_grad(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        x.mul_(2)
        x[0] = 7.0
        x += 1
    log(x, x._version, x.is_leaf)
    (x * x).sum().backward()
    return x.grad


@cases
def writing_to_a_view_of_a_leaf(torch, log):
    x = leaf(torch)
    succeeds(log, "view", lambda: x.view(2, 1).mul_(2))
    succeeds(log, "select", lambda: x[0].mul_(2))
    succeeds(log, "slice", lambda: x[:1].zero_())
    succeeds(log, "part", lambda: x.unbind()[0].mul_(2))
    succeeds(log, "detached", lambda: x.detach().mul_(2))
    succeeds(log, "expanded", lambda: x.expand(2, 2).mul_(2))
    log(x, x._version)


@cases
def writing_to_a_view_made_in_no_grad(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        view = x[:1]
    succeeds(log, "with grad", lambda: view.mul_(2))
    with torch.no_grad():
        succeeds(log, "in no_grad", lambda: view.mul_(2))
    log(x)
    y = x * 1
    with torch.no_grad():
        view = y[:1]
    succeeds(log, "of a non-leaf", lambda: view.mul_(2))
    with torch.no_grad():
        succeeds(log, "of a non-leaf in no_grad", lambda: view.mul_(2))
    log(y)
    (y * 1).sum().backward()
    log(x.grad)


@cases
def writing_something_that_requires_grad_to_a_plain_tensor(torch, log):
    x = leaf(torch)
    plain = torch.ones(2)
    view = plain[:1]
    plain.mul_(x)
    log(plain, view, view.requires_grad)
    plain.sum().backward()
    return x.grad


@cases
def writing_to_a_plain_view(torch, log):
    x = leaf(torch)
    base = torch.zeros(4)
    view = base[1:3]
    view.copy_(x)
    log(base, view, base.requires_grad)
    (base * torch.arange(4.0)).sum().backward()
    return x.grad


@cases
def integer_tensors_may_always_be_written(torch, log):
    counts = torch.zeros(2, dtype=torch.int64)
    counts += 1
    counts[0] = 5
    log(counts, counts._version)
    succeeds(log, "float result", lambda: counts.add_(0.5))
    succeeds(log, "float tensor", lambda: counts.mul_(leaf(torch)))
    succeeds(log, "division", lambda: counts.div_(2))


@cases
def shapes_and_overlap(torch, log):
    y = leaf(torch) * 1
    succeeds(log, "grows", lambda: y.add_(torch.ones(2, 2)))
    succeeds(log, "does not broadcast", lambda: y.add_(torch.ones(3)))
    succeeds(log, "expanded", lambda: y[:1].expand(3).add_(1))
    log(y, y._version)


# --- parts of a multi-output view ----------------------------------------------------------------------------------------

PARTS = {
    "unbind": lambda torch, y: y.unbind(),
    "split": lambda torch, y: y.split(1),
    "split sizes": lambda torch, y: y.split([1, 1]),
    "chunk": lambda torch, y: y.chunk(2),
    "iteration": lambda torch, y: list(y),
}


@pytest.mark.parametrize("name", PARTS)
def test_writing_to_parts(name):
    def program(torch, log):
        x = leaf(torch)
        y = x * 1
        part = PARTS[name](torch, y)[0]
        log(part, part._is_view(), part._base is y)
        succeeds(log, "part", lambda: part.mul_(2))
        y = x * 1
        part = PARTS[name](torch, y)[0]
        y.mul_(3)
        succeeds(log, "use after writing the base", lambda: (part * 2).sum().backward())
        attempt(log, "look after writing the base", lambda: part.grad_fn.name())
        y = x * 1
        with torch.no_grad():
            part = PARTS[name](torch, y)[0]
            succeeds(log, "in no_grad", lambda: part.mul_(2))
        succeeds(log, "made in no_grad", lambda: part.mul_(2))
        y = x * 1
        view = PARTS[name](torch, y)[0].view(-1)
        succeeds(log, "view of a part", lambda: view.mul_(2))
        plain = PARTS[name](torch, torch.ones(2))[0]
        succeeds(log, "part of a plain tensor", lambda: plain.mul_(2))
        succeeds(log, "written with something that requires grad", lambda: plain.mul_(x[0]))

    agree(program, graph=True)


# --- versions ------------------------------------------------------------------------------------------------------------


@cases
def versions_are_shared_by_aliases(torch, log):
    y = torch.ones(2, 3)
    view, other = y[0], y.t()
    for action in (lambda: y.add_(1), lambda: view.mul_(2), lambda: other.zero_(), lambda: y.detach().add_(1)):
        action()
        log(y._version, view._version, other._version, y.clone()._version, y.detach()._version)
    y.data.add_(1)
    log(y._version)


@cases
def which_functions_count(torch, log):
    y = torch.ones(2)
    for label, action in {
        "add_": lambda: y.add_(1),
        "+=": lambda: y.__iadd__(1),
        "setitem": lambda: y.__setitem__(0, 1.0),
        "setitem whole": lambda: y.__setitem__(slice(None), 1.0),
        "setitem index": lambda: y.__setitem__(torch.tensor([0]), 1.0),
        "zero_": lambda: y.zero_(),
        "fill_": lambda: y.fill_(1.0),
        "copy_": lambda: y.copy_(torch.ones(2)),
        "copy_ of itself": lambda: y.copy_(y),
        "out": lambda: torch.add(y, 1, out=y),
        "add": lambda: y + 1,
        "read": lambda: y.tolist(),
        "view": lambda: y.view(1, 2),
        "requires_grad_": lambda: y.requires_grad_(False),
        "detach_": lambda: y.detach_(),
        "masked_fill_": lambda: y.masked_fill_(torch.tensor([False, False]), 1.0),
        "unsqueeze_": lambda: y.unsqueeze_(0),
        "squeeze_": lambda: y.squeeze_(0),
        "uniform_": lambda: y.uniform_(),
        "clamp_": lambda: y.clamp_(0, 1),
        "resize_": lambda: y.resize_(3),
        "set data": lambda: setattr(y, "data", torch.ones(2)),
    }.items():
        before = y._version
        action()
        log(label, y._version - before)


@cases
def numpy_writes_do_not_count(torch, log):
    y = torch.ones(2)
    y.numpy()[0] = 5.0
    log(y, y._version)


@cases
def unsafe_preserve_version_counter(torch, log):
    x = leaf(torch)
    y = x * 1
    z = y.sin()
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.mul_(2)
    log(y._version)
    z.sum().backward()
    return x.grad


# --- gradients through the write -----------------------------------------------------------------------------------------

WRITES = {
    "add_": lambda torch, y, w: y.add_(w),
    "sub_ number": lambda torch, y, w: y.sub_(3),
    "mul_": lambda torch, y, w: y.mul_(w),
    "div_": lambda torch, y, w: y.div_(w),
    "pow_": lambda torch, y, w: y.pow_(2),
    "exp_": lambda torch, y, w: y.exp_(),
    "sin_": lambda torch, y, w: y.sin_(),
    "tanh_": lambda torch, y, w: y.tanh_(),
    "relu_": lambda torch, y, w: y.relu_(),
    "sqrt_": lambda torch, y, w: y.sqrt_(),
    "neg_": lambda torch, y, w: y.neg_(),
    "clamp_": lambda torch, y, w: y.clamp_(0.5, 1.5),
    "zero_": lambda torch, y, w: y.zero_(),
    "fill_": lambda torch, y, w: y.fill_(2.0),
    "fill_ tensor": lambda torch, y, w: y.fill_(w[0]),
    "copy_": lambda torch, y, w: y.copy_(w),
    "copy_ broadcast": lambda torch, y, w: y.copy_(w[:1]),
    "copy_ other dtype": lambda torch, y, w: y.copy_(w.double()),
    "masked_fill_": lambda torch, y, w: y.masked_fill_(torch.tensor([True, False]), 9.0),
    "index_put_": lambda torch, y, w: y.index_put_((torch.tensor([1]),), w[:1]),
    "index_put_ accumulate": lambda torch, y, w: y.index_put_((torch.tensor([1, 1]),), w, accumulate=True),
    "index_add_": lambda torch, y, w: y.index_add_(0, torch.tensor([1, 1]), w),
    "index_copy_": lambda torch, y, w: y.index_copy_(0, torch.tensor([1]), w[:1]),
    "index_fill_": lambda torch, y, w: y.index_fill_(0, torch.tensor([1]), 5.0),
    "scatter_": lambda torch, y, w: y.scatter_(0, torch.tensor([1, 0]), w),
    "scatter_add_": lambda torch, y, w: y.scatter_add_(0, torch.tensor([1, 1]), w),
    "addcmul_": lambda torch, y, w: y.addcmul_(w, w),
    "lerp_": lambda torch, y, w: y.lerp_(w, 0.25),
    "setitem number": lambda torch, y, w: y.__setitem__(0, 5.0),
    "setitem tensor": lambda torch, y, w: y.__setitem__(0, w[1]),
    "setitem slice": lambda torch, y, w: y.__setitem__(slice(1, None), w[:1]),
    "setitem mask": lambda torch, y, w: y.__setitem__(torch.tensor([False, True]), w[:1]),
    "setitem list": lambda torch, y, w: y.__setitem__([1, 0], w),
    "setitem all": lambda torch, y, w: y.__setitem__(slice(None), w),
    "*= itself": lambda torch, y, w: y.mul_(y),
    "+= itself": lambda torch, y, w: y.add_(y),
    "*= a view of itself": lambda torch, y, w: y.mul_(y[0]),
    "random": lambda torch, y, w: y.uniform_(),
    "cumsum_": lambda torch, y, w: y.cumsum_(0),
}


@pytest.mark.parametrize("name", WRITES)
def test_gradient_through_a_write(name):
    def program(torch, log):
        x, w = leaf(torch), leaf(torch, 3.0, 4.0)
        y = x * 1
        attempt(log, name, lambda: WRITES[name](torch, y, w) is y)
        log(y, y._version)
        attempt(log, "backward", lambda: (y * torch.tensor([1.0, 10.0])).sum().backward())
        log(x.grad, w.grad)

    agree(program, graph=True)


@pytest.mark.parametrize("name", WRITES)
def test_gradient_through_a_write_to_a_view(name):
    def program(torch, log):
        x, w = torch.arange(1.0, 5.0, requires_grad=True), leaf(torch, 3.0, 4.0)
        y = x * 1
        view = y[1:3]
        attempt(log, name, lambda: WRITES[name](torch, view, w) is view)
        log(y, view, y._version)
        attempt(log, "backward", lambda: ((y * y.detach()).sum() + (view * 10).sum()).backward())
        log(x.grad, w.grad)

    agree(program, graph=True)


# --- what is saved, and so may not be written to -------------------------------------------------------------------------

PAIRS = {
    "mul": (lambda torch, a, b: a * b, (2,), (2,)),
    "div": (lambda torch, a, b: a / b, (2,), (2,)),
    "pow": (lambda torch, a, b: a**b, (2,), (2,)),
    "atan2": (lambda torch, a, b: torch.atan2(a, b), (2,), (2,)),
    "maximum": (lambda torch, a, b: torch.maximum(a, b), (2,), (2,)),
    "lerp": (lambda torch, a, b: torch.lerp(a, b, a), (2,), (2,)),
    "addcmul": (lambda torch, a, b: torch.addcmul(a, a, b), (2,), (2,)),
    "dot": (lambda torch, a, b: a @ b, (2,), (2,)),
    "mv": (lambda torch, a, b: a @ b, (2, 2), (2,)),
    "mm": (lambda torch, a, b: a @ b, (2, 2), (2, 2)),
    "bmm": (lambda torch, a, b: torch.bmm(a, b), (1, 2, 2), (1, 2, 2)),
    "addmm": (lambda torch, a, b: torch.addmm(a, a, b), (2, 2), (2, 2)),
    "linear": (lambda torch, a, b: torch.nn.functional.linear(a, b), (2, 2), (2, 2)),
    "einsum": (lambda torch, a, b: torch.einsum("ij,jk->ik", a, b), (2, 2), (2, 2)),
    "mse_loss": (lambda torch, a, b: torch.nn.functional.mse_loss(a, b), (2,), (2,)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_input_that_no_gradient_reads_may_be_written(name):
    compute, *shapes = PAIRS[name]

    def program(torch, log):
        for asking in (0, 1):
            for written in (0, 1):
                torch.manual_seed(0)
                leaves = [torch.rand(shape).add(0.5) for shape in shapes]
                leaves[asking].requires_grad_()
                inputs = [tensor * 1 for tensor in leaves]
                y = compute(torch, *inputs)
                inputs[written].add_(1)
                succeeds(log, (asking, written), lambda y=y: y.sum().backward())
                log(leaves[asking].grad)

    agree(program)


@cases
def a_write_through_a_view_is_freed_like_any_other(torch, log):
    x = leaf(torch)
    y = x * 1
    y[0] += 1
    y.sum().backward()
    succeeds(log, "again", lambda: y.sum().backward())
    y = x * 1
    y[0] += 1
    y.sum().backward(retain_graph=True)
    succeeds(log, "again, retained", lambda: y.sum().backward())
    return x.grad


@cases
def saved_views_that_must_not_be_written_say_so(torch, log):
    x = leaf(torch)
    base = x * 1
    first, second = base.unbind()
    y = first * second
    with torch.no_grad():
        view = base[:1]
    z = view * x[:1]
    base.mul_(2)
    succeeds(log, "one of several views", lambda: y.backward())
    succeeds(log, "a view made in no_grad", lambda: z.sum().backward())
    log(second.output_nr)


@cases
def writes_to_tensors_without_dimensions(torch, log):
    for write in (
        lambda t, x: t.masked_fill_(t > 0.5, 0.25),
        lambda t, x: t.scatter_(0, torch.tensor(0), x[0]),
        lambda t, x: t.mul_(x[0]),
        lambda t, x: t.copy_(x[1]),
        lambda t, x: t.index_fill_(0, torch.tensor(0), 3.0),
    ):
        x = leaf(torch, 1.0, 2.0)
        y = x.sum() * 1
        write(y, x)
        (y * 3 * x[0]).backward()
        log(y, x.grad)


@pytest.mark.parametrize("written", ["input1", "input2", "weight", "bias"])
@pytest.mark.parametrize("wanted", ["input1", "input2", "weight", "all"])
def test_bilinear_checks_only_what_its_gradient_reads(wanted, written):
    def program(torch):
        sizes = {"input1": (4, 3), "input2": (4, 2), "weight": (5, 3, 2), "bias": (5,)}
        tensors = {name: torch.randn(size).requires_grad_(wanted in (name, "all")) for name, size in sizes.items()}
        result = torch.nn.functional.bilinear(**tensors)
        with torch.no_grad():
            tensors[written].mul_(2)
        result.sum().backward()
        return [tensor.grad for tensor in tensors.values()]

    agree(program)


@pytest.mark.parametrize("shapes", [((4, 3), (4,)), ((2, 3, 5), (2, 5)), ((3,), ())], ids=["rows", "images", "one"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_overwritten_targets_are_noticed(shapes, smoothing):
    def program(torch):
        scores = torch.randn(shapes[0], requires_grad=True)
        target = torch.ones(shapes[1], dtype=torch.int64)
        loss = torch.nn.functional.cross_entropy(scores, target, label_smoothing=smoothing)
        target.zero_()
        loss.backward()

    agree(program, raises=True)


@cases
def a_written_view_that_refuses_writes_says_so(torch, log):
    x = leaf(torch)
    for mode in (torch.no_grad, torch.inference_mode):
        base = torch.ones(2)
        with mode():
            view = base[:1]
        base.mul_(x)
        attempt(log, "write", lambda view=view: view.mul_(2))
        attempt(log, "read", lambda view=view: view + 1)
    base = x * 1
    first, second = base.unbind()
    base.mul_(2)
    attempt(log, "write", lambda: first.mul_(2))
    attempt(log, "read", lambda: second + 1)
