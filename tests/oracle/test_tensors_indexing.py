"""Reading with square brackets: basic, advanced, boolean and mixed indexing, with its views, gradients and refusals."""

from __future__ import annotations

import pytest

from tests.oracle.snippets import agree_snippet, refuse_snippet

BASIC = [
    "x[0]",
    "x[-1]",
    "x[1, 2]",
    "x[-1, -1]",
    "x[1:]",
    "x[:2]",
    "x[1:2, 1:3]",
    "x[:, 1]",
    "x[:, -1:]",
    "x[::2]",
    "x[:, ::2]",
    "x[:, 1::2]",
    "x[5:]",
    "x[2:1]",
    "x[-2:]",
    "x[:-1]",
    "x[-100:100]",
    "x[...]",
    "x[..., 0]",
    "x[..., ...]",
    "x[0, ...]",
    "x[:]",
    "x[:, :]",
    "x[()]",
    "x[None]",
    "x[:, None]",
    "x[None, :, None, 1]",
    "x[..., None]",
    "x[None, ..., None]",
    "x[1, None]",
    "x[None][0]",
    "c[0, ..., 1]",
    "c[..., 1:, ::2]",
    "c[:, 1]",
    "c[1][2][3]",
    "c.transpose(0, 2)[1]",
    "c.transpose(0, 2)[:, 0]",
    "x.t()[1]",
    "x.t()[1:, 0]",
    "s[...]",
    "s[None]",
    "s[()]",
    "s[None, ...]",
    "e[0:0]",
    "e[:, 0]",
    "e[:, 1:]",
    "x[True]",
    "x[False]",
    "s[True]",
    "x[True, 0]",
    "x[None, True]",
    "x[np.int64(1)]",
    "x[np.int32(1), np.int64(2)]",
    "x[torch.tensor(1)]",
    "x[torch.tensor(1), 2]",
    "x[torch.tensor(1):]",
    "x[:torch.tensor(2)]",
    "x[slice(0, 2)]",
    "x[slice(None, None, 2), 1]",
    "x[(0, 1)]",
    "x[np.s_[1:, ::3]]",
    "i[2:4]",
    "m[0]",
    "z[1]",
]

ADVANCED = [
    "x[[0, 2]]",
    "x[[0, 2], :]",
    "x[:, [0, 2]]",
    "x[[0, 2], [1, 3]]",
    "x[[-1, 0]]",
    "x[[1, 1, 1]]",
    "x[[[0, 1], [2, 0]]]",
    "x[torch.tensor([0, 2])]",
    "x[torch.tensor([[0], [2]]), torch.tensor([1, 3])]",
    "x[torch.tensor([0, 2]), 1]",
    "x[1, torch.tensor([0, 2])]",
    "x[1:, [0, 2]]",
    "x[[0, 2], 1:3]",
    "x[..., [0, 2]]",
    "x[[0, 2], ..., None]",
    "x[None, [0, 2]]",
    "x[[0, 2], None]",
    "x[[]]",
    "x[torch.tensor([], dtype=torch.int64)]",
    "x[:, []]",
    "x[torch.tensor([1, 2], dtype=torch.int32)]",
    "x[torch.tensor([1, 2], dtype=torch.uint8).long()]",
    "x[np.array([0, 2])]",
    "x[np.array([0, 2]), np.array([1, 1])]",
    "x[range(2)]",
    "x[(0, 2), 1]",
    "x[torch.tensor(1), torch.tensor([0, 2])]",
    "c[[0, 1], :, [1, 2]]",
    "c[:, [0, 1], [1, 2]]",
    "c[[0, 1], [0, 1]]",
    "c[0, :, [1, 2]]",
    "c[:, 0, [1, 2]]",
    "c[[0, 1], 1:, [1, 2]]",
    "c[..., [0, 1], :]",
    "c[torch.tensor([[0, 1]]), :, torch.tensor([[1], [2]])]",
    "c[[0], [[0], [1]], [1, 2]]",
    "c[None, :, [0, 1]]",
    "x.t()[[0, 2]]",
    "x[:, ::2][[0, 2], [1, 0]]",
    "i[torch.tensor([[0, 5], [2, 2]])]",
    "x[tuple(torch.tensor([[0, 1], [2, 3]]))]",
]

BOOLEAN = [
    "x[m]",
    "x[x > 5]",
    "x[~m]",
    "x[m[:, 0]]",
    "x[:, m[0]]",
    "x[m[:, 0], 1]",
    "x[m[:, 0], 1:]",
    "x[m[:, 0], [0]]",
    "x[[True, False, True]]",
    "x[:, [True, False, True, False]]",
    "x[torch.zeros(3, 4, dtype=torch.bool)]",
    "x[np.array([True, False, True])]",
    "c[:, m]",
    "c[:, m[:, 0]]",
    "c[torch.tensor([True, False])]",
    "c[torch.tensor([True, False]), m[:, 0]]",
    "c[..., m[0]]",
    "s[torch.tensor(True)]",
    "s[s > 0]",
    "s[s < 0]",
    "x[torch.tensor(True)]",
    "x[torch.tensor(False)]",
    "m[m]",
    "e[torch.zeros(0, dtype=torch.bool)]",
    "x[None, m]",
    "x[m, None]",
]


@pytest.mark.parametrize("text", BASIC + ADVANCED + BOOLEAN)
def test_read(text: str) -> None:
    agree_snippet(text)


DIFFERENTIATED = [
    *["g[1]", "g[1, 2]", "g[:, 1:3]", "g[::2]", "g[None, ..., 0]", "g[...]", "g[True]", "g[()]", "g[5:]", "g.t()[1]"],
    *["g[[0, 2]]", "g[[1, 1, 0]]", "g[[0, 2], [1, 1]]", "g[:, [0, 0]]", "g[1:, [0, 2]]", "g[[]]", "g[1, [0, 0, 3]]"],
    *["g[m]", "g[m[:, 0]]", "g[:, m[0]]", "g[g > 5]", "g[m[:, 0], 1]", "g[np.array([0, 0])]", "g[torch.tensor(1)]"],
]


@pytest.mark.parametrize("text", DIFFERENTIATED)
def test_gradient(text: str) -> None:
    agree_snippet(
        f"y = {text}; w = torch.arange(1.0, y.numel() + 1).reshape(y.shape).requires_grad_(); "
        "(d,) = torch.autograd.grad((y * y * w).sum(), g, create_graph=True); "
        "(y, d.detach(), torch.autograd.grad((d * d).sum(), [g, w]))",
        layout=False,
    )


@pytest.mark.parametrize(
    "text",
    [
        "x[3]",
        "x[-4]",
        "x[0, 4]",
        "x[0, 0, 0]",
        "x[0, 0, ...,  0]",
        "x[1.0]",
        "x['a']",
        "x[None, 5]",
        "x[::-1]",
        "x[::0]",
        "x[1.5:]",
        "s[0]",
        "s[:]",
        "x[[3]]",
        "x[[-4]]",
        "x[[0, 1], [0, 1, 2]]",
        "x[[0], [0], [0]]",
        "x[torch.tensor([0.5])]",
        "x[torch.tensor([3])]",
        "x[torch.zeros(2, dtype=torch.bool)]",
        "x[torch.zeros(3, 3, dtype=torch.bool)]",
        "x[m, 0]",
        "x[[True, False]]",
        "x[{}]",
        "x[torch.tensor(5)]",
        "x[torch.tensor(1.0)]",
        "x[object()]",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


def test_a_basic_index_is_a_view_and_an_advanced_one_is_a_copy() -> None:
    for index in ["0", ":, 1", "1:, ::2", "None", "...", "torch.tensor(1)", "()"]:
        agree_snippet(f"v = x[{index}]; v.add_(100); (x, v, v._base is x, v.data_ptr() - x.data_ptr())")
    for index in ["[0, 1]", "m", "torch.tensor([1])", ":, [0]", "True", "True, [0]"]:
        agree_snippet(f"v = x[{index}]; v.add_(100); (x, v, v.data_ptr() == x.data_ptr())")
