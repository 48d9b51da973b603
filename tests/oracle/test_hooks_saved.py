"""`saved_tensors_hooks` and its relatives: what is packed when, in which order, and what may come back."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, succeeds

cases = Table()


@cases.test
def test_saved_tensor_hooks(program):
    agree(program, graph=True)


def logging_hooks(torch, log, label=""):
    """Hooks that note what they get and keep a number in place of each tensor."""
    kept = []

    def pack(tensor):
        log(f"pack{label}", len(kept), tensor, tensor.is_leaf)
        kept.append(tensor.detach())
        return len(kept) - 1

    def unpack(number):
        log(f"unpack{label}", number)
        return kept[number]

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


# --- what each function saves --------------------------------------------------------------------------------------------

FUNCTIONS = {
    "mul": lambda torch, x, w, m: x * w,
    "mul with itself": lambda torch, x, w, m: x * x,
    "mul by a plain tensor": lambda torch, x, w, m: x * torch.tensor([3.0, 4.0]),
    "mul by a number": lambda torch, x, w, m: x * 3,
    "add": lambda torch, x, w, m: x + w,
    "sub": lambda torch, x, w, m: x - w,
    "div": lambda torch, x, w, m: x / w,
    "div by a number": lambda torch, x, w, m: x / 3,
    "number divided": lambda torch, x, w, m: 3 / x,
    "neg": lambda torch, x, w, m: -x,
    "pow number": lambda torch, x, w, m: x**3,
    "pow tensor": lambda torch, x, w, m: x**w,
    "number to the power": lambda torch, x, w, m: 2**x,
    "exp": lambda torch, x, w, m: x.exp(),
    "log": lambda torch, x, w, m: x.log(),
    "log1p": lambda torch, x, w, m: x.log1p(),
    "sqrt": lambda torch, x, w, m: x.sqrt(),
    "reciprocal": lambda torch, x, w, m: x.reciprocal(),
    "sin": lambda torch, x, w, m: x.sin(),
    "tanh": lambda torch, x, w, m: x.tanh(),
    "sigmoid": lambda torch, x, w, m: x.sigmoid(),
    "relu": lambda torch, x, w, m: x.relu(),
    "abs": lambda torch, x, w, m: x.abs(),
    "clamp": lambda torch, x, w, m: x.clamp(0.5, 1.5),
    "maximum": lambda torch, x, w, m: torch.maximum(x, w),
    "where": lambda torch, x, w, m: torch.where(torch.tensor([True, False]), x, w),
    "masked_fill": lambda torch, x, w, m: x.masked_fill(torch.tensor([True, False]), 0.0),
    "lerp": lambda torch, x, w, m: torch.lerp(x, w, 0.25),
    "addcmul": lambda torch, x, w, m: torch.addcmul(x, w, w),
    "atan2": lambda torch, x, w, m: torch.atan2(x, w),
    "sum": lambda torch, x, w, m: m.sum(),
    "sum of a dimension": lambda torch, x, w, m: m.sum(0),
    "mean": lambda torch, x, w, m: m.mean(),
    "prod": lambda torch, x, w, m: x.prod(),
    "var": lambda torch, x, w, m: m.var(),
    "max": lambda torch, x, w, m: m.max(),
    "max of a dimension": lambda torch, x, w, m: m.max(0).values,
    "amax": lambda torch, x, w, m: m.amax(0),
    "norm": lambda torch, x, w, m: x.norm(),
    "logsumexp": lambda torch, x, w, m: m.logsumexp(0),
    "cumsum": lambda torch, x, w, m: x.cumsum(0),
    "sort": lambda torch, x, w, m: x.sort().values,
    "matmul": lambda torch, x, w, m: m @ m.exp(),
    "matrix times vector": lambda torch, x, w, m: m @ x,
    "dot": lambda torch, x, w, m: x.dot(w),
    "bmm": lambda torch, x, w, m: torch.bmm(m[None], m[None]),
    "outer": lambda torch, x, w, m: torch.outer(x, w),
    "addmm": lambda torch, x, w, m: torch.addmm(x, m, m),
    "view": lambda torch, x, w, m: m.view(4),
    "transpose": lambda torch, x, w, m: m.t(),
    "expand": lambda torch, x, w, m: x.expand(3, 2),
    "index": lambda torch, x, w, m: m[torch.tensor([1, 0, 1])],
    "select": lambda torch, x, w, m: m[0],
    "gather": lambda torch, x, w, m: m.gather(1, torch.tensor([[0], [1]])),
    "index_select": lambda torch, x, w, m: m.index_select(0, torch.tensor([1])),
    "cat": lambda torch, x, w, m: torch.cat([x, w]),
    "clone": lambda torch, x, w, m: x.clone(),
    "softmax": lambda torch, x, w, m: m.softmax(1),
    "log_softmax": lambda torch, x, w, m: m.log_softmax(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_saves(name):
    def program(torch, log):
        x, w = leaf(torch), leaf(torch, 3.0, 4.0)
        matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
        with logging_hooks(torch, log):
            y = FUNCTIONS[name](torch, x, w, matrix)
        log("forward done")
        y.backward(torch.ones_like(y))
        return x.grad, w.grad, matrix.grad

    agree(program)


# --- contexts ------------------------------------------------------------------------------------------------------------


@cases
def order_of_packing_and_unpacking(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    with logging_hooks(torch, log):
        y = x * w
        z = (y.exp() * x).sum()
    log("backward")
    z.backward()
    return x.grad, w.grad


@cases
def unpacked_once_per_backward(torch, log):
    x = leaf(torch)
    with logging_hooks(torch, log):
        y = x.exp().sum()
    y.backward(retain_graph=True)
    log("again")
    y.backward()
    attempt(log, "third", lambda: y.backward())


@cases
def not_called_in_no_grad_or_for_plain_tensors(torch, log):
    x = leaf(torch)
    with logging_hooks(torch, log):
        with torch.no_grad():
            x * x
        torch.ones(2) * torch.ones(2)
        x.detach().exp()


@cases
def only_the_innermost_pair_is_used(torch, log):
    x = leaf(torch)
    with logging_hooks(torch, log, " outer"):
        a = x.sin()
        with logging_hooks(torch, log, " inner"):
            b = a.sin()
        c = b.sin()
    c.sum().backward()
    return x.grad


@cases
def left_behind_at_an_exception(torch, log):
    x = leaf(torch)

    def body():
        with logging_hooks(torch, log):
            raise ValueError("on purpose")

    attempt(log, "body", body)
    x.exp().sum().backward()
    return x.grad


@cases
def as_a_decorator_or_not(torch, log):
    def build():
        return torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)(lambda: 3)

    attempt(log, "decorator", build)


@cases
def entered_twice(torch, log):
    x = leaf(torch)
    hooks = logging_hooks(torch, log)
    with hooks:
        with hooks:
            y = x.exp()
        z = y.exp()
    z.exp().sum().backward()


# --- results and errors --------------------------------------------------------------------------------------------------


@cases
def unpack_decides_the_value(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda nothing: torch.tensor([10.0, 20.0])):
        y = x * x
    y.sum().backward()
    return x.grad


@cases
def pack_may_return_anything(torch, log):
    x = leaf(torch)
    for label, pack, unpack in (
        ("list", lambda t: t.tolist(), torch.tensor),
        ("numpy", lambda t: t.detach().numpy().copy(), torch.from_numpy),
        ("pair", lambda t: (t.detach(), 3), lambda pair: pair[0] * pair[1]),
        ("half", lambda t: t.detach().half(), lambda t: t.float()),
        ("the tensor", lambda t: t, lambda t: t),
    ):
        x.grad = None
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp().sin()
        y.sum().backward()
        log(label, x.grad)


@cases
def unpack_of_the_wrong_kind(torch, log):
    x = leaf(torch)
    for label, result in {
        "string": "tensor",
        "none": None,
        "number": 1.0,
        "longer": torch.ones(3),
        "scalar": torch.tensor(2.0),
        "float64": torch.ones(2, dtype=torch.float64),
    }.items():
        x.grad = None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t, result=result: result):
            y = x.sin()
        attempt(log, label, lambda y=y: y.sum().backward())
        log(x.grad)


@cases
def pack_that_raises(torch, log):
    x = leaf(torch)

    def body():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: {}["missing"], lambda t: t):
            x.sin()

    attempt(log, "pack", body)
    x.sin().sum().backward()
    return x.grad


@cases
def unpack_that_raises(torch, log):
    x = leaf(torch)
    broken = [True]

    def unpack(tensor):
        if broken[0]:
            raise ValueError("on purpose")
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.sin().sum()
    attempt(log, "unpack", lambda: y.backward(retain_graph=True))
    broken[0] = False
    y.backward()
    return x.grad


@cases
def pack_that_writes_into_its_argument(torch, log):
    x = leaf(torch)

    def pack(tensor):
        tensor.mul_(2)
        return tensor

    def in_place_on_the_input():
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            (x * 1).sin()

    def in_place_on_the_output():
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            x.exp()

    succeeds(log, "input", in_place_on_the_input)
    succeeds(log, "output", in_place_on_the_output)


@cases
def what_pack_receives(torch, log):
    x = leaf(torch)
    y = x * 1

    def pack(tensor):
        log(tensor is x, tensor is y, tensor.requires_grad, tensor.is_leaf, torch.is_grad_enabled())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        x.sin()  # a leaf
        y.sin()  # an input that is not a leaf
        y.exp()  # an output


@cases
def what_is_saved_has_the_right_grad_fn_when_unpacked(torch, log):
    x = leaf(torch)
    y = x * 3
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        z = y.exp()
        s = y.sin()
    log(z.grad_fn._saved_result, s.grad_fn._saved_self)
    log(torch.autograd.grad(s.sum(), x, create_graph=True))


@cases
def values_read_through_saved_attributes_are_unpacked_each_time(torch, log):
    x = leaf(torch)
    with logging_hooks(torch, log):
        y = x.sin()
    log(y.grad_fn._saved_self)
    log(y.grad_fn._saved_self)
    y.sum().backward()


@cases
def version_is_not_checked_for_packed_copies(torch, log):
    x = leaf(torch)
    y = x * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        z = y.sin()
    y.mul_(2)
    attempt(log, "packed copy", lambda: z.sum().backward())
    y = x * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        z = y.sin()
    y.mul_(2)
    attempt(log, "packed as it is", lambda: z.sum().backward())
    return x.grad


@cases
def double_backward_packs_too(torch, log):
    x = leaf(torch)
    with logging_hooks(torch, log):
        y = x.sin()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log("second")
    g.sum().backward()
    return x.grad


@cases
def custom_functions_pack_too(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, g):
            log("saved", ctx.saved_tensors)
            log("saved again", ctx.saved_tensors[2])
            return g * ctx.saved_tensors[2]

    x = leaf(torch)
    with logging_hooks(torch, log):
        y = Square.apply(x)
    y.sum().backward()
    return x.grad


@cases
def unpacking_in_the_mode_of_the_pass(torch, log):
    x = leaf(torch)

    def unpack(tensor):
        log(torch.is_grad_enabled())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = x.exp() * x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    y.sum().backward()
    return g, x.grad


@cases
def unpacking_to_a_shape_with_more_dims(torch, log):
    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor[None]):
        y = x * x
    y.sum().backward()
    return x.grad


@cases
def hooks_that_cannot_be_called(torch, log):
    def enter(pack, unpack):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            pass

    attempt(log, "pack", lambda: enter(1, lambda tensor: tensor))
    attempt(log, "unpack", lambda: enter(lambda tensor: tensor, None))
