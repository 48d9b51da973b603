"""Writing: assignment through square brackets and every in-place method, through views and with gradients."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree
from tests.oracle.snippets import agree_snippet, refuse_snippet

ASSIGNED = [
    "x[0] = 5",
    "x[0] = torch.tensor(5.5)",
    "x[0] = torch.ones(4)",
    "x[1, 2] = -1",
    "x[:, 1] = torch.tensor([7.0, 8.0, 9.0])",
    "x[:, 1:2] = torch.tensor([[7.0], [8.0], [9.0]])",
    "x[::2] = 0",
    "x[::2, 1::2] = torch.ones(2)",
    "x[...] = 3",
    "x[..., -1] = 3",
    "x[:] = x.flip(0)",
    "x[()] = 2",
    "x[None] = 4",
    "x[0] = x[1]",
    "x[:, 1:] = x[:, :-1].clone()",
    "x[0] = True",
    "x[0] = i[:4]",
    "x[0] = np.float64(2.5)",
    "x[0] = n[0, 1]",
    "x[0] = torch.tensor([[9.0]])",
    "x[0:0] = 5",
    "x[5:] = 5",
    "x[[0, 2]] = 5",
    "x[[0, 2]] = torch.ones(4)",
    "x[[0, 2]] = torch.arange(8.0).reshape(2, 4)",
    "x[[0, 2], [1, 3]] = torch.tensor([50.0, 60.0])",
    "x[:, [0, 2]] = -1",
    "x[1:, [0, 2]] = torch.tensor([1.0, 2.0])",
    "x[[0, 2], 1:] = torch.arange(3.0)",
    "x[torch.tensor([[0], [2]]), torch.tensor([1, 3])] = torch.arange(4.0).reshape(2, 2)",
    "x[[]] = 5",
    "x[m] = 0",
    "x[m] = torch.arange(4.0)",
    "x[x > 5] = x[x > 5] * 2",
    "x[m[:, 0]] = 9",
    "x[:, m[0]] = torch.tensor([1.0, 2.0])",
    "x[m[:, 0], 1] = 5",
    "x[~m] = math.nan",
    "x[True] = 1",
    "x[False] = 1",
    "x[torch.tensor(1)] = 5",
    "x[torch.tensor(1), 2] = 5",
    "x.t()[1] = 5",
    "x.t()[[0, 1]] = 5",
    "x[:, ::2][0] = 5",
    "x[1][2] = 5",
    "x[1][[0, 1]] = 5",
    "x.view(-1)[3:5] = 5",
    "x += 1",
    "x[0] += 1",
    "x[[0, 0]] += 1",
    "x[m] += 10",
    "x[:, 1] *= 3",
    "x[1] -= x[0]",
    "x[1] /= 2",
    "x[1] **= 2",
    "x[1] //= 2",
    "x[1] %= 3",
]


@pytest.mark.parametrize("text", ASSIGNED)
def test_assigned(text: str) -> None:
    agree_snippet(f"{text}; (x, x._version)")


@pytest.mark.parametrize(
    "text",
    [
        "i[0] = 2.7; i",
        "i[1:3] = torch.tensor([1.9, -1.9]); i",
        "i[[0, 1]] = 7; i",
        "m[0] = 5; m",
        "m[0, 0] = 0.0; m",
        "m[:] = x > 5; m",
        "z[0] = 1; z",
        "z[1] = 1 + 1j; z",
        "s[...] = 4; s",
        "s[()] = 4; s",
        "s[None] = 4; s",
        "s[s > 0] = 4; s",
        "e[:] = 1; e",
        "c[0] = x; c",
        "c[:, m] = 0; c",
        "c[:, 0, [1, 2]] = torch.tensor([[1.0], [2.0]]); c",
        "c[[0, 1], :, [1, 2]] = 0; c",
        "c[0, :, [1, 2]] = torch.arange(6.0).reshape(3, 2); c",
        "h = x.half(); h[0] = 1.0001; h",
        "b = x.bfloat16(); b[0] = 1.01; b",
        "x[0] = torch.tensor([1.5, 2.5, 3.5, 4.5], dtype=torch.float64); x",
        "u = torch.zeros(3, dtype=torch.uint8); u[0] = 255; u",
        "del x; 1",
        "x[0], x[1] = 5, 6; x",
        "x.data[0] = 7; (x, x._version)",
        "g.data[0] = 7; (g, g._version)",
        "y = x[0]; x[0, 1] = 99; y",
        "y = x.t(); y[0] = 1; (x, x._version, y._version)",
    ],
)
def test_assigned_elsewhere(text: str) -> None:
    agree_snippet(text)


@pytest.mark.parametrize(
    "text",
    [
        "x[3] = 0",
        "x[0, 4] = 0",
        "x[0] = torch.ones(3)",
        "x[:, 0] = torch.ones(4)",
        "x[0:2] = torch.ones(3, 4)",
        "x[[3]] = 0",
        "x[[0, 1]] = torch.ones(3)",
        "x[m] = torch.ones(5)",
        "x[0] = 'a'",
        "x[0] = None",
        "x[0] = [1, 2]",
        "x['a'] = 1",
        "x[0, 0] = torch.ones(2)",
        "x[0] = 1j",
        "i[0] = 1j",
        "g[0] = 5",
        "g[[0]] = 5",
        "g.t()[0] = 5",
        "g += 1",
        "s[0] = 1",
        "x[1:] = x[:-1]",
        "torch.arange(3).expand(2, 3).add_(1)",
        "x[[0, 1]] = torch.ones(2, 4, dtype=torch.float64)",
        "i[[0, 1]] = torch.ones(2)",
        "i += 1.5",
        "i /= 2",
        "m += 1.0",
        "x += torch.ones(2, 3, 4)",
        "del x[0]",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


METHODS = [
    "zero_()",
    "fill_(3)",
    "fill_(s)",
    "fill_(math.nan)",
    "copy_(x.flip(0))",
    "copy_(x[0])",
    "copy_(s)",
    "copy_(i[:4])",
    "copy_(x.double().t().contiguous().t())",
    "add_(1)",
    "add_(x, alpha=2)",
    "sub_(s)",
    "mul_(x[0])",
    "div_(2)",
    "div_(2, rounding_mode='floor')",
    "pow_(2)",
    "remainder_(3)",
    "fmod_(3)",
    "neg_()",
    "abs_()",
    "sqrt_()",
    "exp_()",
    "sigmoid_()",
    "tanh_()",
    "relu_()",
    "clamp_(2, 5)",
    "clamp_min_(3)",
    "clamp_max_(3)",
    "round_()",
    "floor_()",
    "square_()",
    "sign_()",
    "lerp_(x + 1, 0.5)",
    "addcmul_(x, x, value=0.1)",
    "addcdiv_(x, x + 1)",
    "masked_fill_(m, -1)",
    "masked_scatter_(m, torch.arange(100.0, 112.0))",
    "index_fill_(0, torch.tensor([0]), 5)",
    "index_copy_(0, torch.tensor([2]), torch.ones(1, 4))",
    "index_add_(0, torch.tensor([1, 1]), torch.ones(2, 4))",
    "index_put_((torch.tensor([0, 1]),), torch.tensor(5.0))",
    "index_put_((torch.tensor([0, 0]),), torch.tensor(5.0), accumulate=True)",
    "scatter_(1, torch.tensor([[0], [1], [2]]), 9.0)",
    "scatter_add_(1, torch.tensor([[0], [1], [2]]), torch.ones(3, 1))",
    "tril_()",
    "triu_(1)",
    "fill_diagonal_(7)",
    "cumsum_(1)",
    "eq_(x)",
    "gt_(5)",
    "logical_not_()",
    "nan_to_num_()",
    "t_()",
    "transpose_(0, 1)",
    "unsqueeze_(1)",
    "squeeze_()",
    "swapaxes_(0, 1)",
    "resize_(2, 2)",
    "resize_((4, 3))",
    "set_(torch.ones(2))",
    "requires_grad_()",
    "detach_()",
    "uniform_()",
    "uniform_(2, 3)",
    "normal_()",
    "normal_(1.0, 2.0)",
    "bernoulli_()",
    "bernoulli_(0.3)",
    "random_(5)",
    "exponential_()",
    "atan2_(x + 1)",
]


@pytest.mark.parametrize("method", METHODS)
def test_in_place_method(method: str) -> None:
    agree_snippet(f"t = x.clone(); r = t.{method}; (t, r is t, t._version)")


@pytest.mark.parametrize(
    "method", [one for one in METHODS if not one.startswith(("resize_", "set_", "requires", "detach_"))]
)
def test_in_place_method_with_gradient(method: str) -> None:
    """What a write does to the graph: the node's name, the version, the gradient of what was there before."""
    agree_snippet(
        f"t = g * 1.5 + 1; r = t.{method}; b = torch.arange(1.0, t.numel() + 1).reshape(t.shape); "
        "(t, r is t, t._version, torch.autograd.grad((t * b).sum(), g, allow_unused=True) if t.requires_grad else None)"
    )


@pytest.mark.parametrize(
    "method", ["zero_()", "fill_(3)", "copy_(s)", "add_(1)", "mul_(torch.tensor([2.0, 3.0]))", "clamp_(2, 5)", "neg_()"]
)
@pytest.mark.parametrize(
    "view", ["[:, 1:3]", "[:, ::2]", ".view(6, 2)[:3]", "[1:].narrow(1, 0, 2)", ".unfold(1, 2, 2)[0]"]
)
def test_in_place_method_through_a_view(view: str, method: str) -> None:
    agree_snippet(f"v = x{view}; v.{method}; (x, v, x._version, v._version)")
    agree_snippet(
        f"t = g * 1.5; v = t{view}; v.{method}; b = torch.arange(1.0, 13).reshape(3, 4); "
        "(t, v, t.grad_fn.name(), torch.autograd.grad((t * b).sum(), g))"
    )


@pytest.mark.parametrize(
    "text",
    [
        "i.sqrt_()",
        "i.div_(2)",
        "i.add_(1.5)",
        "m.add_(1.5)",
        "x.add_(torch.ones(2, 3, 4))",
        "x.copy_(torch.ones(5))",
        "x.fill_(x)",
        "x.fill_('a')",
        "x.copy_('a')",
        "x.zero_(1)",
        "x.clamp_()",
        "x.t_(1)",
        "c.t_()",
        "g.zero_()",
        "g.fill_(1)",
        "g.copy_(x)",
        "g[0].zero_()",
        "g.t_()",
        "g.resize_(2)",
        "(g * 2).resize_(2)",
        "x.masked_fill_(x, 1)",
        "x.index_fill_(0, torch.tensor([5]), 1)",
        "x.logical_and_(1)",
        "i.uniform_()",
        "i.normal_()",
        "x.normal_(0, -1)",
        "x.uniform_(3, 2)",
        "x.bernoulli_(2)",
        "x.random_(0)",
        "x[0].expand(3, 4).add_(x)",
        "i.requires_grad_()",
        "g[0].detach_()",
        "x.squeeze_(5)",
    ],
)
def test_method_refused(text: str) -> None:
    refuse_snippet(text)


def test_no_grad_lets_leaves_be_written() -> None:
    agree_snippet(
        "with torch.no_grad():\n    g[0] = 5; g.add_(1); g[m] = 0\n(g, g._version, g.requires_grad, g.is_leaf)"
    )


@pytest.mark.parametrize(
    "write",
    [
        lambda torch, a: torch.add(a[:-1], 1, out=a[1:]),
        lambda torch, a: torch.exp(a[:-1], out=a[1:]),
        lambda torch, a: torch.mul(a, 2, out=a),
        lambda torch, a: torch.where(a[:-1] > 0, a[:-1], a[:-1], out=a[1:]),
        lambda torch, a: torch.add(a[:2], a[2:4], out=a[:2]),
        lambda torch, a: torch.mul(a[:4].view(2, 2), 3, out=a[:4].view(2, 2).t()),
    ],
    ids=["shifted", "shifted function", "in place", "where", "first of two", "turned out"],
)
def test_out_that_overlaps_an_input(write):
    def program(torch):
        a = torch.arange(1.0, 7.0)
        write(torch, a)
        return a

    agree(program)
