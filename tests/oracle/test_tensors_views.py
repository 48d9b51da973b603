"""What a tensor is made of: strides, offsets, shared memory, attributes."""

from __future__ import annotations

import pytest

from tests.oracle.snippets import agree_snippet, refuse_snippet

LAYOUTS = [
    "x",
    "x.t()",
    "x.T",
    "x.mT",
    "x.H",
    "x.mH",
    "c.mT",
    "c.permute(2, 0, 1)",
    "c.permute(*range(2, -1, -1))",
    "x[1:, ::2]",
    "x[:, 1]",
    "x.expand(2, 3, 4)",
    "x[0].expand(3, 4)",
    "s.expand(2, 3)",
    "x.unsqueeze(1)",
    "x.t().unsqueeze(0)",
    "x.view(2, 6)",
    "x.view(-1)",
    "x.reshape(4, 3)",
    "x.t().reshape(3, 4)",
    "x.t().contiguous()",
    "x.t().clone()",
    "x.t() + 1",
    "x.t() + x.t()",
    "x + x.t().contiguous().t()",
    "x.t().exp()",
    "c.permute(2, 0, 1) * 2",
    "c.transpose(0, 1).relu()",
    "x.t().double()",
    "x.t().to(torch.int64)",
    "x[:, ::2] * 2",
    "x[:, ::2].clone()",
    "x.expand(2, 3, 4) * 1",
    "x.expand(2, 3, 4).clone()",
    "torch.empty_like(x.t()).zero_()",
    "x.flip(0)",
    "x.roll(1, 0)",
    "x.diagonal()",
    "x.unfold(1, 2, 1)",
    "x.narrow(1, 1, 2)",
    "x.squeeze()",
    "x.chunk(2, 1)",
    "x.split(2, 1)",
    "x.unbind(1)",
    "x.sum(0)",
    "x.sum(1, keepdim=True)",
    "x @ x.t()",
    "x.t() @ x",
    "torch.cat([x.t(), x.t()])",
    "torch.stack([x.t(), x.t()])",
    "x.detach()",
    "x.data",
    "x.detach().t()",
    "z.real",
    "z.imag",
    "z.conj().resolve_conj()",
    "torch.view_as_real(z)",
    "e",
    "e.t()",
    "e.expand(2, 0, 3)",
    "torch.zeros(1, 3).t()",
    "torch.zeros(3, 1)[:, 0]",
    "torch.zeros(2, 0, 4)",
    "x.sort(0).values",
    "x.where(x > 3, s)",
    "x[[0, 1]]",
    "x[:, [0, 1]]",
    "x.t()[[0, 1]]",
    "x.gather(1, torch.zeros(3, 2, dtype=torch.int64))",
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_layout(text: str) -> None:
    agree_snippet(text)


ATTRIBUTES = [
    "x.shape",
    "x.size()",
    "x.size(0), x.size(-1), x.size(dim=1)",
    "x.stride(), x.stride(0), x.stride(-1), x.stride(dim=1)",
    "x.storage_offset(), x[1:].storage_offset(), x[1, 2].storage_offset()",
    "x.ndim, x.dim(), x.ndimension(), s.ndim",
    "x.numel(), x.nelement(), e.numel(), s.numel()",
    "x.element_size(), i.element_size(), m.element_size(), z.element_size(), x.bfloat16().element_size()",
    "x.itemsize, x.nbytes, x.half().nbytes, x[:, ::2].nbytes",
    "x.dtype, i.dtype, m.dtype, z.dtype",
    "x.device, x.device.type, x.device.index",
    "x.layout, x.is_cuda, x.is_cpu, x.is_sparse, x.is_quantized, x.is_meta, x.is_mkldnn",
    "x.is_contiguous(), x.t().is_contiguous(), x[:, :2].is_contiguous(), e.t().is_contiguous()",
    "torch.zeros(1, 3).t().is_contiguous(), x[0:1].t().is_contiguous()",
    "x.is_leaf, g.is_leaf, (g * 2).is_leaf, (x * 2).is_leaf, g.detach().is_leaf",
    "x.requires_grad, g.requires_grad, (g * 2).requires_grad",
    "x.grad, g.grad, x.grad_fn, g.grad_fn",
    "x.output_nr, g.unbind()[2].output_nr",
    "x._version, x.add_(1)._version, x.t()._version",
    "x.is_signed(), x.is_complex(), x.is_floating_point(), x.is_inference()",
    "x.get_device()",
    "x._is_view(), x.t()._is_view(), x.t()._base is x, x.t()[0]._base is x",
    "x.data_ptr() == x.t().data_ptr(), x[1:].data_ptr() - x.data_ptr(), x.clone().data_ptr() == x.data_ptr()",
    "x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr()",
    "x.untyped_storage().nbytes(), x[1:].untyped_storage().nbytes()",
    "x.is_set_to(x), x.is_set_to(x.clone()), x.is_same_size(x), x.is_same_size(x.t())",
    "x.is_pinned()",
    "x.retains_grad, g.retains_grad",
    "x.T.shape, c.mT.shape, x.H.shape",
    "x.real is x, z.real, z.imag",
    "z.conj().is_conj(), z.is_conj(), z.is_neg()",
    "x.shape[0], x.shape[-1], x.shape[:1], len(x.shape), list(x.shape), tuple(x.shape), x.shape == (3, 4)",
    "x.shape.numel(), x.shape + (1,), x.shape == torch.Size([3, 4]), hash(x.shape) == hash((3, 4))",
    "a, b = x.shape; (a, b)",
    "x.type(), i.type(), m.type(), z.type(), x.half().type(), x.bfloat16().type(), x.double().type()",
    "x.dtype.is_floating_point, i.dtype.is_floating_point, z.dtype.is_complex, x.dtype.itemsize",
    "hash(x) == hash(x), hash(x) == id(x), x in {x: 1}",
]


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_attribute(text: str) -> None:
    agree_snippet(text)


SHARED = {
    "transposed": "x.t()",
    "viewed": "x.view(2, 6)",
    "reshaped": "x.reshape(-1)",
    "sliced": "x[1:, ::2]",
    "selected": "x[1]",
    "expanded_then_narrowed": "x.unsqueeze(0).expand(1, 3, 4)",
    "detached": "x.detach()",
    "data": "x.data",
    "diagonal": "x.diagonal()",
    "split": "x.split(2)[1]",
    "unbound": "x.unbind(1)[2]",
    "narrowed": "x.narrow(0, 1, 1)",
    "squeezed": "x[None].squeeze(0)",
    "as_strided": "x.as_strided((2, 2), (4, 1), 1)",
    "view_of_view": "x[1:].t()[1:3]",
    "unfolded": "x.unfold(1, 2, 2)",
    "moved": "x.movedim(0, 1)",
    "unflattened": "x.unflatten(1, (2, 2))",
    "contiguous": "x.contiguous()",
    "numpy": "torch.from_numpy(x.numpy())",
}


@pytest.mark.parametrize("view", SHARED.values(), ids=SHARED.keys())
def test_memory_is_shared_both_ways(view: str) -> None:
    agree_snippet(f"v = {view}; v.mul_(10); seen = x.clone(); x.add_(1); (seen, x, v, x._version, v._version)")


def test_copies_do_not_share() -> None:
    for made in [
        "x.clone()",
        "x.t().contiguous()",
        "x[[0, 1]]",
        "x.to(torch.float64)",
        "x.to(torch.float32, copy=True)",
        "x + 0",
    ]:
        agree_snippet(f"y = {made}; y.zero_(); x")


@pytest.mark.parametrize(
    "text",
    [
        "x.size(2)",
        "x.stride(2)",
        "x[0].mT",
        "x[0].mH",
        "c.H",
        "x.shape[5]",
        "x.imag",
        "x.shape = (4, 3)",
        "x.dtype = torch.int64",
        "x.requires_grad = 5",
        "i.requires_grad = True",
        "(g * 2).requires_grad = False",
        "x.grad = 5",
        "x.grad = torch.ones(2)",
        "x.grad = torch.ones(3, 4, dtype=torch.float64)",
        "x.data = 5",
        "x.nothing",
        "x.grad_fn = None",
        "x.is_leaf = True",
        "x._base.shape",
        "torch.view_as_complex(x.reshape(4, 3))",
        "torch.view_as_real(x)",
        "x.as_strided((5, 5), (4, 1))",
        "x.as_strided((2,), (-1,))",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


def test_setting_attributes() -> None:
    agree_snippet("x.requires_grad = True; (x, x.requires_grad, x.is_leaf)")
    agree_snippet("g.requires_grad = False; g")
    agree_snippet("x.grad = torch.ones(3, 4); (x.grad, x.requires_grad)")
    agree_snippet("g.grad = torch.ones(3, 4); g.grad = None; g.grad")
    agree_snippet("x.data = torch.ones(2); (x, x.shape)")
    agree_snippet("g.data = torch.ones(2); (g, g._version)")
    agree_snippet("x.anything = 5; (x.anything, x.clone().__dict__, x.t().__dict__)")


def test_three_dimensions_have_a_deprecated_T() -> None:
    agree_snippet("c.T.shape", warns=True)
    agree_snippet("s.T", warns=True)
    agree_snippet("s.mT", warns=True)
