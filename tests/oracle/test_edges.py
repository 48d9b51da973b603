"""The edges of nn, one line each: bad sizes, empty batches, infinite losses, rare arguments, and what torch warns of.

A line, continued where the next one is indented, holds statements separated by `; `. What is compared is the value of the
last one and its strides, or the error, and the warnings.
"""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.oracle.harness import agree, without_cuda
from tests.oracle.snippets import evaluate, tensors_in

LOSSES = """
F.nll_loss(torch.zeros(5), torch.tensor([1, 0, 4]))
F.multi_margin_loss(torch.zeros(2, 3).bfloat16(), torch.tensor([1, 0]))
F.multi_margin_loss(torch.zeros(2, 3).long(), torch.tensor([1, 0]))
F.multilabel_margin_loss(torch.zeros(2, 3).half(), torch.zeros(2, 3).long())
F.cross_entropy(torch.zeros(5), torch.tensor([1, 2]))
F.nll_loss(torch.zeros(5), torch.tensor([1]), reduction='none')
F.nll_loss(torch.zeros(2, 3, 4, 5), torch.zeros(2, 5).long())
F.cross_entropy(torch.zeros(2, 3, 4, 5), torch.zeros(2, 4, 5, 1).long())
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, 1.5]))
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, -0.5]))
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, float('nan')]))
F.binary_cross_entropy(torch.tensor([0.5, float('nan')]), torch.ones(2))
F.binary_cross_entropy_with_logits(torch.ones(2), torch.tensor([True, False]))
F.ctc_loss(torch.ones(6, 0, 4), torch.zeros(0, 3).long(), torch.zeros(0).long(), torch.zeros(0).long())
F.ctc_loss(torch.ones(0, 2, 4), torch.zeros(2, 3).long(), torch.zeros(2).long(), torch.zeros(2).long())
F.binary_cross_entropy_with_logits(torch.ones(2).half(), torch.ones(2).half(), pos_weight=torch.ones(2) * 2)
F.binary_cross_entropy_with_logits(torch.ones(2).bfloat16(), torch.ones(2).bfloat16(), weight=torch.ones(2) * 2)
F.soft_margin_loss(torch.ones(2), torch.ones(2).double())
F.soft_margin_loss(torch.ones(2).half(), torch.ones(2), reduction='none')
F.soft_margin_loss(torch.ones(2), 1.0)
F.huber_loss(torch.ones(2).half(), torch.zeros(2))
F.kl_div(torch.ones(2), 1.0)
F.poisson_nll_loss(torch.ones(2), 1.0)
x = torch.randn(6, 2, 4).log_softmax(2).requires_grad_();
    loss = F.ctc_loss(x, torch.tensor([[1, 2, 2], [3, 1, 0]]), (2, 5), (3, 2)); torch.autograd.grad(loss, x)
x = torch.randn(6, 2, 4).log_softmax(2).requires_grad_();
    loss = F.ctc_loss(x, torch.tensor([[1, 2, 2], [3, 1, 0]]), (2, 5), (3, 2), zero_infinity=True);
    torch.autograd.grad(loss, x)
"""

ATTENTION = """
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(1,
    5).bool())
nn.MultiheadAttention(6, 2, add_zero_attn=True)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2,
    key_padding_mask=torch.zeros(2, 4).bool())
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(2,
    5).bool(), attn_mask=torch.zeros(4, 5))
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(2,
    5).long(), attn_mask=torch.zeros(4, 5))
nn.MultiheadAttention(6, 2)(*[torch.ones(3, 0, 6)] * 3)
nn.MultiheadAttention(6, 2)(*[torch.ones(3, 0, 6)] * 3, None, False)
nn.MultiheadAttention(6, 2, kdim=3, vdim=4)(torch.ones(4, 2, 6), torch.ones(5, 2, 4), torch.ones(5, 2, 4))
nn.MultiheadAttention(6, 2, kdim=3, vdim=4)(torch.ones(4, 2, 6), torch.ones(5, 2, 3), torch.ones(5, 2, 3))
m = nn.MultiheadAttention(6, 2); m.merge_masks(torch.zeros(3, 3), torch.ones(2, 3), torch.ones(2, 3, 6))
m = nn.MultiheadAttention(6, 2); m.merge_masks(torch.zeros(4, 3, 3), None, torch.ones(2, 3, 6))
m = nn.MultiheadAttention(6, 2); m.merge_masks(None, torch.ones(2, 3), torch.ones(2, 3, 6)), m.merge_masks(None,
    None, None)
nn.TransformerEncoderLayer(6, 2, 8)(torch.ones(4, 2, 6), src_mask=torch.zeros(4, 4),
    src_key_padding_mask=torch.zeros(2, 4).bool())
nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8), 1)(torch.ones(4, 2, 6), mask=torch.zeros(4, 4),
    src_key_padding_mask=torch.zeros(2, 4).bool())
nn.TransformerDecoderLayer(6, 2, 8)(torch.ones(4, 2, 6), torch.ones(4, 2, 6), tgt_mask=torch.zeros(4, 4),
    tgt_key_padding_mask=torch.zeros(2, 4).bool())
[nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, **options),
    1).use_nested_tensor for options in (dict(norm_first=True), dict(bias=False, batch_first=True),
    dict(batch_first=True, activation=F.silu), dict())]
nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 3, 8, batch_first=True), 1).use_nested_tensor
nn.TransformerEncoder(nn.Linear(3, 3), 1).use_nested_tensor
x = torch.randn(1, 1, 3, 4); F.scaled_dot_product_attention(x, x, x, attn_mask=torch.randn(3, 3), is_causal=True)
x = torch.randn(1, 3, 4); F.scaled_dot_product_attention(x, x, x, attn_mask=torch.randn(3, 3), is_causal=True)
"""

LAYERS = """
w = torch.ones(3, 2, requires_grad=True); out = F.embedding(torch.tensor([1, 1, 2]), w, scale_grad_by_freq=True);
    slope, = torch.autograd.grad((out**3).sum(), w, create_graph=True); torch.autograd.grad(slope.sum(), w)
F.embedding_bag(torch.tensor([1, 2, 0]), torch.ones(3, 2), torch.tensor([0]), mode='sum', include_last_offset=True)
F.embedding_bag(torch.tensor([1, 2, 0]), torch.ones(3, 2), torch.tensor([0, 2]), mode='sum', include_last_offset=True)
F.embedding_bag(torch.tensor([1, 2, 0]), torch.ones(3, 2), torch.tensor([0, 1, 3]), include_last_offset=True)
F.fractional_max_pool2d(torch.ones(1, 2, 5, 6), (2, 3), output_ratio=0.5)
F.fractional_max_pool2d(torch.ones(1, 2, 5, 6), (2, 3), output_ratio=(0.5, 0.5, 0.5))
F.fractional_max_pool3d(torch.ones(1, 2, 5, 6, 6), 2, output_ratio=0.5)
x = torch.randn(2, 3, 6, 6, requires_grad=True); out = F.fractional_max_pool2d(x, 2, output_size=3);
    out, out.grad_fn.name(), torch.autograd.grad((out**3).sum(), x)
x = torch.randn(2, 6, 6, 6, requires_grad=True); out = F.fractional_max_pool3d(x, 2, output_size=3, return_indices=True);
    out, out[0].grad_fn.name(), torch.autograd.grad((out[0] ** 3).sum(), x)
nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5))
nn.FractionalMaxPool3d(0, output_size=3)(torch.ones(1, 2, 9, 9, 9))
F.fractional_max_pool2d(torch.ones(2, 3, 9, 9), 2, output_size=3, _random_samples=torch.rand(1, 3, 2))
F.fractional_max_pool2d(torch.randn(2, 3, 9, 9), 2, output_size=3, _random_samples=torch.rand(3, 3, 2))
F.fractional_max_pool2d(torch.ones(2, 3, 9, 9).long(), 2, output_size=3)
F.group_norm(torch.ones(2, 6), -1)
nn.PixelUnshuffle(2)(torch.ones(0, 1, 4, 4))
nn.AdaptiveAvgPool2d((10**8, 10**8))(torch.ones(1, 1, 2, 2))
F.gelu(torch.ones(2), approximate=1)
F.dropout(torch.ones(5), torch.tensor(0.5))
nn.Dropout(torch.tensor(1.5))
F.embedding_bag(torch.tensor([[1, 2], [0, 1]]), torch.arange(6.0).view(3, 2), include_last_offset=True)
m = nn.RNN(2, 3); m(torch.ones(4, 1, 2), torch.zeros(1, 1, 3).double())
m = nn.GRU(2, 3).double(); m(torch.ones(4, 1, 2).double(), torch.zeros(1, 1, 3))
m = nn.LSTM(2, 3); m(torch.ones(4, 0, 2))[0].grad_fn.name()
m = nn.LSTM(2, 3).half(); m(torch.ones(4, 1, 2).half())[0].grad_fn.name()
nn.AdaptiveAvgPool2d(None)(torch.ones(1, 2, 3, 4))
nn.AdaptiveMaxPool1d(None)(torch.ones(1, 2, 3))
F.lp_pool2d(torch.randn(1, 2, 4, 5), float('inf'), 2)
F.lp_pool1d(torch.randn(2, 4, 5), float('inf'), 2, 1, True)
F.unfold(torch.ones(5, 6), 2)
F.unfold(torch.ones(1, 1, 5, 6), 2, padding=-1)
F.fold(torch.ones(1, 4, 20), (5, 6), 2, padding=-1)
F.affine_grid(torch.ones(1, 2, 3), (1, 3, 1, 4), align_corners=True)
F.affine_grid(torch.ones(1, 3, 4), (1, 3, 2, 1, 4), align_corners=True)
F.affine_grid(torch.ones(1, 2, 3), (1, 3, 1, 4), align_corners=False)
nn.ConvTranspose1d(3, 4, 1, padding=2)(torch.ones(1, 3, 3))
nn.ConvTranspose2d(3, 4, 1, padding=3)(torch.ones(1, 3, 3, 3))
nn.ConvTranspose3d(3, 4, 1, padding=2)(torch.ones(1, 3, 3, 3, 3))
F.conv1d(torch.ones(2, 3, 5), torch.ones(4, 3, 4), padding='same')
m = nn.BatchNorm1d(3); m(torch.ones(0, 3)), m.running_mean, m.running_var, m.num_batches_tracked
m = nn.InstanceNorm1d(3, track_running_stats=True); m(torch.ones(0, 3, 4)), m.running_mean, m.running_var
F.rms_norm(torch.ones(2, 3).half(), (3,), weight=torch.ones(3))
F.rms_norm(torch.ones(2, 3), (3,), weight=torch.ones(3).double())
F.rms_norm(torch.ones(2, 3).double(), (3,), weight=torch.ones(3))
F.rrelu(torch.ones(3), 0.5, 0.1)
F.rrelu(torch.ones(3), float('nan'), 0.1)
F.gumbel_softmax(torch.ones(3), eps=1e-5)
F.dropout(torch.ones(3, dtype=torch.complex64), 0.3)
F.elu(torch.ones(3), 'a')
F.celu(torch.ones(3), 'a')
F.leaky_relu(torch.ones(3), None)
F.softplus(torch.ones(3), 1, 'a')
F.threshold(torch.ones(3), 'a', 1)
F.softshrink(torch.ones(3), 'a')
x = torch.ones(3, requires_grad=True); F.leaky_relu_(x * 1, -0.1).sum().backward()
x = torch.ones(3, requires_grad=True); F.elu(x * 1, -0.1, inplace=True).sum().backward()
x = torch.ones(3, requires_grad=True); F.celu_(x * 1, -0.1).sum().backward()
F.leaky_relu(torch.tensor([-1.0, 0.0, 2.0, float('inf'), -float('inf')]), 0)
F.elu(torch.tensor([-1.0, -0.0, 0.0, 2.0, float('inf')]), float('inf')).reciprocal()
F.celu(torch.tensor([-1.0, -0.0, 0.0, 2.0, float('inf')]), 0.5).reciprocal()
F.elu(torch.tensor([-1.0, 0.0, 2.0]), float('nan'))
x = torch.tensor([-1.0, 0.0, 2.0, float('nan')], requires_grad=True);
    torch.autograd.grad(F.elu(x, 0.5).sum(), x)
x = torch.tensor([-1.0, 0.0, 2.0, float('nan')], requires_grad=True);
    torch.autograd.grad(F.elu_(x * 1, 0.5).sum(), x)
x = torch.tensor([-1.0, 0.0, 2.0, float('nan')], requires_grad=True);
    torch.autograd.grad(F.celu_(x * 1, 0.5).sum(), x)
"""
COMPILED = """
x = torch.randn(1, 2, 4, 4, requires_grad=True); out = torch._C._nn.upsample_bilinear2d(x, [8, 7], True);
    out, torch.autograd.grad(out.sum(), x)
torch._C._nn.upsample_bilinear2d(torch.randn(1, 2, 4, 4), None, False, [2.0, 1.5])
torch._C._nn.upsample_bilinear2d(torch.randn(1, 2, 4, 4), [3], False)
torch._C._nn.upsample_bilinear2d(torch.randn(2, 4, 4), [3, 3], False)
torch.ops.aten.upsample_bicubic2d.default(torch.randn(1, 2, 4, 4), [3, 3], False, 0.7, 0.8)
torch.ops.aten._upsample_bilinear2d_aa(torch.randn(1, 2, 4, 4), [3, 3], False)
torch.ops.aten.upsample_nearest2d(torch.randn(1, 2, 4, 4), [3, 3], 0.7, 0.8)
torch.ops.aten._upsample_nearest_exact1d(torch.randn(1, 2, 4), [7])
torch.ops.aten.upsample_trilinear3d(torch.randn(1, 2, 4, 4, 4), [3, 8, 8], True)
torch.ops.aten.reflection_pad2d(torch.randn(1, 2, 4, 4), [1, 1, 2, 0])
torch.ops.aten.replication_pad1d(torch.randn(2, 4), [1, 1])
torch.ops.aten.im2col(torch.randn(1, 2, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1])
torch.ops.aten.col2im(torch.randn(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])
torch.ops.aten.fractional_max_pool2d(torch.randn(1, 2, 4, 4), [2, 2], [2, 2], torch.rand(1, 2, 2))
torch.ops.aten._adaptive_avg_pool2d(torch.randn(1, 2, 4, 4), [3, 2])
torch.ops.aten.multi_margin_loss(torch.randn(2, 3), torch.tensor([0, 1]), 1, 1.0, None, 0)
torch.ops.aten.multilabel_margin_loss(torch.randn(2, 3), torch.tensor([[0, -1, 1]] * 2), 2)
x = torch.randn(4); torch._C._nn.silu_(x), torch._C._nn.gelu_(x, approximate='tanh'), torch._C._nn.relu6_(x), x
torch.ops.aten.mse_loss(torch.ones(3), torch.zeros(3), 0), torch.ops.aten.log_sigmoid(torch.ones(3))
torch.ops.aten.kl_div(torch.ones(3), torch.ones(3)), torch.kl_div(torch.ones(3), torch.ones(3))
torch.ops.aten.hinge_embedding_loss(torch.ones(3), torch.ones(3)), torch.hinge_embedding_loss(*[torch.ones(3)] * 2)
torch.ctc_loss(torch.ones(5, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), [5, 4], [2, 1])
torch.ctc_loss(torch.ones(5, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), [5, 4], [2, 1], 0, 1)
"""

RECURRENT = """
nn.LSTM(3, 5)(torch.ones(0, 2, 3))
nn.GRU(3, 5, batch_first=True)(torch.ones(2, 0, 3))
nn.GRU(3, 5)(torch.ones(2, 0, 3))
nn.RNN(3, 5, dropout='a')
nn.RNN(3, 5, dropout=True)
m = nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True, proj_size=2); x = torch.ones(4, 7, 3);
    m.get_expected_hidden_size(x, None), m.get_expected_cell_size(x, None), m.get_expected_hidden_size(x,
    torch.tensor([3, 2]))
nn.GRU(3, 5).check_input(torch.ones(4, 3), None)
nn.GRU(3, 5).check_input(torch.ones(4, 3, 3), torch.tensor([4]))
nn.GRU(3, 5).check_hidden_size(torch.ones(2, 2, 2), (1, 2, 3), 'wanted {} got {}')
nn.GRU(3, 5).check_forward_args(torch.ones(4, 7, 3), torch.ones(1, 4, 5), None)
nn.LSTM(3, 5).check_forward_args(torch.ones(4, 7, 3), (torch.ones(1, 7, 5), torch.ones(1, 7, 4)), None)
nn.GRU(2, 2).permute_hidden(torch.arange(6.0).view(1, 2, 3), torch.tensor([1, 0]))
nn.LSTMCell(3, 5)(torch.ones(2, 3), torch.ones(2, 5))
nn.LSTMCell(3, 5)(torch.ones(2, 3), (torch.ones(2, 5),))
nn.LSTMCell(3, 5)(torch.ones(2, 3), (torch.ones(1, 2, 5), torch.ones(2, 5)))
nn.LSTMCell(3, 5)(torch.ones(3), (torch.ones(2, 5), torch.ones(2, 5)))
nn.GRUCell(3, 5)(torch.ones(2, 3), torch.ones(5))
nn.GRUCell(3, 5)(torch.ones(2, 3), torch.ones(2))
nn.GRUCell(3, 5)(torch.ones(3), torch.ones(2, 5))
nn.RNNCell(3, 5)(torch.ones(2, 3).double())
nn.RNNCell(3, 5)(torch.ones(1, 2, 3))
"""

NO_CUDA = ["rnn.pack_sequence([torch.ones(3)]).cuda()"]

UTILS = """
[getattr(rnn.pack_sequence([torch.ones(3), torch.ones(2)]), kind)().data.dtype for kind in
    'byte char short int long float double half'.split()]
rnn.pack_sequence([torch.ones(3)]).cpu('cpu')
rnn.pad_sequence([torch.ones(2, 3), torch.ones(3, 3)])
rnn.pad_sequence([torch.ones(2, 3), torch.ones(3, 3)], batch_first=True, padding_side='left')
rnn.pad_sequence([torch.ones(2), torch.ones(3)], padding_side='up')
rnn.pad_sequence([torch.ones(2, 2), torch.ones(3, 3)])
rnn.pad_sequence([torch.ones(2), torch.ones(3, 3)])
rnn.unpad_sequence(torch.ones(3, 2), torch.tensor([3, 1]))
rnn.pack_padded_sequence(torch.ones(3, 2, requires_grad=True), [3, 1])
rnn.pack_padded_sequence(torch.ones(3, 2), torch.tensor([[3, 1]]))
rnn.pack_padded_sequence(torch.ones(3, 2), 3)
rnn.pack_padded_sequence(torch.ones(3), [3])
rnn.pack_padded_sequence(torch.ones(0, 2), [3, 1])
nn.utils.clip_grad_norm_((p for p in []), 1.0)
nn.utils.clip_grad_norm_([], 1.0)
nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(4).eval())
[int(backend) for backend in nn.attention.SDPBackend.__members__.values()]
"""
DATA = """
data.ConcatDataset([[1, 2], [3]]).cummulative_sizes
list(data.DataLoader([1, 2], timeout=3))
"""
FILES = """
saved(torch.ones(2), map_location=3)
saved(torch.ones(2), map_location=lambda storage, location: 1 / 0)
saved(torch.ones(2), map_location={'cpu': 'nowhere'})
saved(torch.ones(2), encoding='latin1')
saved(torch.ones(2), weights_only=False, encoding='latin1')
saved(torch.ones(2), keep=True)
"""

MODULES = """
type('Forgetful', (nn.Module,), {'__init__': lambda self: None, 'forward': lambda self, x: x})()(1)
nn.Linear(2, 2).to(torch.complex64).weight.dtype
nn.Linear(2, 2).to(torch.int32)
nn.ReLU().register_forward_hook(print)
o = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1); s = torch.optim.lr_scheduler.LambdaLR(o, lambda e: e);
    o.add_param_group({'params': torch.ones(1, requires_grad=True), 'lr': 3.0}); o.step(); s.step()
"""
DERIVATIVES = """
torch.func.jacfwd(lambda x: x**2)(torch.arange(3.0))
torch.func.hessian(lambda x: (x**3).sum())(torch.arange(4.0).view(2, 2))
torch.func.hessian(lambda x: x**3)(torch.arange(3.0))
torch.func.jacfwd(lambda x: x**2, randomness='none')(torch.ones(2))
torch.func.grad(lambda x: ((x**2).sum(), 3), has_aux=True)(torch.ones(2))
torch.func.grad(lambda x: ((x**2).sum(), None), has_aux=True)(torch.ones(2))
torch.func.grad(lambda x: ((x**2).sum(), {'a': [x]}), has_aux=True)(torch.ones(2))
torch.func.vjp(lambda x: (x * 2, 'aux'), torch.ones(2), has_aux=True)
torch.func.jacrev(lambda x: (x * 2, 'aux'), has_aux=True)(torch.ones(2))
"""


def _lines(text: str) -> list[str]:
    return text.strip().replace("\n    ", " ").split("\n")


def _names(torch: Any) -> dict[str, Any]:
    def saved(value: Any, **options: Any) -> Any:
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        return torch.load(file, **options)

    parts = {"nn": torch.nn, "F": torch.nn.functional, "rnn": torch.nn.utils.rnn, "data": torch.utils.data}
    return {"torch": torch, "saved": saved, **parts}


@pytest.mark.parametrize("text", _lines(LOSSES))
def test_losses(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("text", _lines(ATTENTION))
def test_attention(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("padding", ["end", "start", "none", "infinite", "whole row"])
@pytest.mark.parametrize("case", ["frozen", "no_grad", "training", "grad", "grad input", "mask", "norm", "unbatched"])
def test_an_encoder_at_inference_leaves_padded_places_zero(case: str, padding: str) -> None:
    if (case, padding) == ("mask", "whole row"):
        return  # PyTorch's fused layer has NaN where its other paths, and undertow, have zeros

    def program(torch: Any) -> Any:
        layer = torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        norm = torch.nn.LayerNorm(6) if case == "norm" else None
        encoder = torch.nn.TransformerEncoder(layer, 2, norm=norm).train(case == "training")
        encoder.requires_grad_(case in ("training", "grad", "no_grad"))
        rows = {"end": [[0, 0, 1], [0, 0, 0]], "start": [[1, 0, 0], [0, 0, 0]], "whole row": [[1, 1, 1], [0, 0, 1]]}
        padded = torch.tensor(rows.get(padding, rows["end"])).bool() & (padding != "none")
        if padding == "infinite":
            padded = torch.zeros(2, 3).masked_fill(padded, float("-inf"))
        x = torch.randn(2, 3, 6, requires_grad=case == "grad input")
        mask = torch.zeros(3, 3, dtype=padded.dtype) if case == "mask" else None
        if case == "unbatched":
            x, padded = x[1], padded[1]
        with torch.set_grad_enabled(case != "no_grad"):
            return encoder(x, mask=mask, src_key_padding_mask=padded)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", _lines(LAYERS))
def test_layers(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("text", _lines(RECURRENT))
def test_recurrent(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("text", _lines(COMPILED))
def test_compiled_functions(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("cell", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells_are_made_of_the_same_steps(cell: str, lower: bool) -> None:
    def program(torch: Any, log: Any) -> None:
        module = getattr(torch.nn, cell)(3, 5)
        x = torch.randn(2, 3, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=lower):
            batched, alone = module(x), module(x[0])
        log(batched, alone)
        first = batched if isinstance(batched, tuple) else (batched,)
        log(torch.autograd.grad([part.sum() for part in first], [x, *module.parameters()]))

    agree(program, graph=not lower, atol=1e-2 if lower else None)


@pytest.mark.parametrize("text", _lines(UTILS) + _lines(DATA) + _lines(FILES) + _lines(MODULES) + without_cuda(NO_CUDA))
def test_utilities(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("text", _lines(DERIVATIVES))
def test_derivatives(text: str) -> None:
    _agree(text, warns=False)  # PyTorch's warn of the compiler they use


@pytest.mark.parametrize("tangent", ["torch.ones(2)", "torch.ones(3).double()", "torch.ones(3), torch.ones(3)", ""])
def test_tangents_that_do_not_fit(tangent: str) -> None:
    """PyTorch traces the function to linearize it, and warns of that."""

    def program(torch: Any) -> Any:
        _, derivative = torch.func.linearize(torch.sin, torch.arange(3.0))
        return derivative(*eval(f"({tangent},)" if tangent else "()", {"torch": torch}))

    agree(program, raises=True, words=8 if tangent.count("ones") == 1 else 0)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_second_derivatives_at_a_kink(name: str, inplace: bool) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([0.0, -0.0, 1.0, -1.0], requires_grad=True)
        out = getattr(torch.nn.functional, name)(x * 1, inplace=inplace)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return slope, torch.autograd.grad(slope.sum(), x)

    agree(program)


def _agree(text: str, warns: bool = True) -> None:
    def program(torch: Any, log: Any) -> Any:
        result = evaluate(text, _names(torch))
        log([tensor.stride() for tensor in tensors_in(torch, result)])
        return result

    agree(program, warns=warns, words=10)
