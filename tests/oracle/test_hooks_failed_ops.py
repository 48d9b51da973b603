"""Ops that fail inside `saved_tensors_hooks`: the pack hook gets what PyTorch had saved before its kernel failed."""

from __future__ import annotations

import warnings

import pytest

from tests.oracle.harness import agree

# x (2, 3), v (3) and b (2, 2, 3) want gradients.
FAILING = """
x.mm(torch.ones(5,5))
torch.ones(5,5).mm(x)
x @ torch.ones(5,5)
x.mv(torch.ones(9))
x.matmul(torch.ones(9))
torch.dot(v, torch.ones(9))
torch.bmm(b, torch.ones(2,9,9))
torch.addmm(x, x, x)
torch.addmv(v, x, torch.ones(9))
torch.baddbmm(b,b,torch.ones(2,9,9))
torch.addr(x, v, torch.ones(9))
x.gather(0, torch.tensor([[9]]))
x.gather(0, torch.tensor([0]))
x.index_select(0, torch.tensor([9]))
x.index_select(7, torch.tensor([0]))
x[torch.tensor([9])]
x[torch.tensor([[0,1,2]]),torch.tensor([0,1])]
x.scatter(0, torch.tensor([[9]]), 1.0)
x.scatter(0, torch.tensor([[0]]), torch.ones(2))
x.scatter_add(0, torch.tensor([[9]]), x)
x.index_add(0, torch.tensor([9]), x[:1])
x.index_copy(0, torch.tensor([9]), x[:1])
x.index_fill(0, torch.tensor([9]), 1.)
x.take(torch.tensor([99]))
x.put(torch.tensor([99]), torch.ones(1))
x.masked_fill(torch.ones(7,dtype=torch.bool), 1.)
x.masked_select(torch.ones(7,dtype=torch.bool))
x.masked_scatter(torch.ones(2,3,dtype=torch.bool), torch.ones(1))
x.where(torch.ones(7,dtype=torch.bool), x)
x.softmax(7)
x.log_softmax(7)
x.logsumexp(7)
x.cumsum(7)
x.cumprod(7)
x.prod(7)
x.sum(7)
x.mean(7)
x.var(7)
x.std(7)
x.norm(2, 7)
x.max(7)
x.amax(7)
x.median(7)
x.sort(7)
x.topk(9)
x.kthvalue(9)
x.mode(7)
x.logcumsumexp(7)
x.cummax(7)
x.renorm(2, 7, 1.)
x + torch.ones(7)
x * torch.ones(7)
x / torch.ones(7)
x ** torch.ones(7)
torch.atan2(x, torch.ones(7))
torch.maximum(x, torch.ones(7))
torch.lerp(x, torch.ones(7), 0.5)
torch.addcmul(x, x, torch.ones(7))
torch.addcdiv(x,x,torch.ones(7))
torch.hypot(x, torch.ones(7))
torch.fmod(x, torch.ones(7))
torch.remainder(x, torch.ones(7))
torch.logaddexp(x, torch.ones(7))
torch.xlogy(x, torch.ones(7))
torch.copysign(x, torch.ones(7))
F.linear(x, torch.ones(5,5))
F.conv1d(b, torch.ones(2,9,1))
F.conv2d(b[None], torch.ones(2,9,1,1))
F.embedding(torch.tensor([9]), x)
F.nll_loss(x, torch.tensor([0,9]))
F.nll_loss(x, torch.tensor([0,1,2]))
F.cross_entropy(x, torch.tensor([0,9]))
F.mse_loss(x, torch.ones(7))
F.l1_loss(x, torch.ones(7))
F.smooth_l1_loss(x, torch.ones(7))
F.huber_loss(x, torch.ones(7))
F.kl_div(x, torch.ones(7))
F.binary_cross_entropy(x, torch.ones(7))
F.binary_cross_entropy_with_logits(x, torch.ones(7))
F.soft_margin_loss(x, torch.ones(7))
F.multi_margin_loss(x, torch.tensor([0,9]))
F.multilabel_margin_loss(x, torch.ones(7).long())
F.hinge_embedding_loss(x, torch.ones(7))
F.margin_ranking_loss(x, x, torch.ones(7))
F.triplet_margin_loss(x, x, torch.ones(7))
F.gaussian_nll_loss(x, torch.ones(7), torch.ones(7))
F.ctc_loss(b, torch.tensor([[1]]), [9], [1])
F.layer_norm(x, [7])
F.group_norm(b, 5)
F.batch_norm(x, torch.ones(9), torch.ones(9))
F.instance_norm(x)
F.rms_norm(x, [7])
F.prelu(x, torch.ones(9))
F.glu(x, 1)
F.max_pool1d(b, 9)
F.max_pool2d(b, 9)
F.avg_pool1d(b, 9)
F.avg_pool2d(b, 9)
F.adaptive_avg_pool2d(x, 2)
F.adaptive_max_pool1d(x[0], 2)
F.lp_pool1d(b, 2, 9)
F.interpolate(b, size=(2,2))
F.grid_sample(b, b)
F.pad(x, (9,9), 'reflect')
F.pad(x[None,None], (9,9,9,9), 'reflect')
F.pixel_shuffle(b[None], 5)
F.fold(b, (9,9), 2)
F.unfold(x, 2)
F.bilinear(x, x, torch.ones(1,1,1))
F.scaled_dot_product_attention(b, b[:,:,:2], b)
F.embedding_bag(torch.tensor([9]), x, torch.tensor([0]))
F.dropout(x, 2.)
F.cosine_similarity(x, torch.ones(7))
F.pairwise_distance(x, torch.ones(7))
torch.cdist(x, torch.ones(2,9))
F.pdist(b)
F.hardtanh(x, 3, 1)
F.elu_(x)
F.relu_(x)
F.one_hot(x)
x.view(7)
x.reshape(7)
x.permute(0)
x.transpose(0,7)
x.expand(9,9)
x.unsqueeze(9)
x.squeeze(9)
x.select(0, 9)
x.narrow(0, 0, 9)
x.split(0, 9)
x.unbind(9)
x.diagonal(0, 0, 0)
x.flip(9)
x.roll(1, 9)
x.repeat(1)
x.as_strided((99,),(1,))
x.unfold(0, 9, 1)
x.tril(1).inverse()
torch.cat([x, torch.ones(9,9)])
torch.stack([x, torch.ones(9)])
x.movedim(0,9)
x.rot90(1,(0,0))
x.diff(dim=9)
torch.tensordot(x, torch.ones(9), 1)
torch.einsum('ij,jk', x, torch.ones(9,9))
torch.cross(x, torch.ones(7))
torch.kron(x, None)
x.trace().trace()
x.diag_embed(dim1=9)
x.repeat_interleave(torch.tensor([1]), 0)
torch.linalg.inv(x)
torch.linalg.det(x)
torch.linalg.solve(x, x)
torch.linalg.cholesky(x @ x.T * -1)
torch.linalg.qr(v)
torch.linalg.svd(v)
torch.linalg.eigh(x)
torch.linalg.lstsq(x, torch.ones(9))
torch.linalg.inv(torch.zeros(2,2,requires_grad=True))
torch.linalg.matrix_exp(x)
torch.linalg.slogdet(x)
torch.triangular_solve(x, x)
torch.linalg.solve_triangular(x, x, upper=True)
torch.cholesky_solve(x, x)
torch.linalg.lu(v)
torch.linalg.pinv(v)
torch.linalg.matrix_norm(v)
torch.linalg.householder_product(x, torch.ones(9))
torch.trapz(x, dim=9)
torch.cumulative_trapezoid(x, dim=9)
x.mul_(torch.ones(7))
(x*1).mul_(torch.ones(7))
(x*1).pow_(torch.ones(7))
(x*1).copy_(torch.ones(7))
(x*1).index_add_(0, torch.tensor([9]), x[:1])
(x*1).masked_fill_(torch.ones(7, dtype=torch.bool), 1)
(x*1).addmm_(x, x)
(x*1).scatter_(0, torch.tensor([[9]]), 1.)
x.sqrt(out=torch.ones(2))
torch.mul(x, x, out=torch.ones(2,3))
torch.lstm_cell(x, (x,x), x, x)
torch.gru_cell(x,x,x,x)
torch.rnn_tanh_cell(x,x,x,x)
torch.fft.fft(x, dim=9)
torch.fft.fft(x, n=0)
torch.stft(x, 99, return_complex=True)
torch.istft(x, 9)
torch.complex(x, torch.ones(7))
torch.view_as_complex(x)
x.clamp(torch.ones(7))
x.quantile(2.)
torch.cov(b)
x.nanmedian(9)
torch.segment_reduce(x, 'sum', lengths=torch.tensor([9]))
torch.renorm(x, 2, 0, -1)
torch.nn.functional.rrelu(x, 3, 1)
x.bernoulli(2.)
torch.normal(x, torch.ones(7))
x.to_sparse(9)
torch.special.zeta(x, torch.ones(7))
x.index_put((torch.tensor([9]),), torch.ones(1))
x.scatter_reduce(0, torch.tensor([[9]]), x, 'prod')
torch.vdot(v, torch.ones(9))
torch.inner(x, torch.ones(9))
torch.ger(v, x)
torch.chain_matmul(x, x)
torch.matrix_power(x, 2)
x.float_power(torch.ones(7))
torch.ormqr(x,x,x)
torch.cdist(x, x, p=-1)
F.local_response_norm(v, 2)
F.fractional_max_pool2d(b, 9, output_size=1)
F.ctc_loss(torch.ones(3,2,4,requires_grad=True), torch.tensor([[1]]), [3,3], [1,1])
""".strip().split("\n")


@pytest.mark.parametrize("text", FAILING)
def test_what_is_packed_before_an_op_fails(text):
    def program(torch, log):
        names = {
            name: torch.ones(shape, requires_grad=True) for name, shape in (("x", (2, 3)), ("v", 3), ("b", (2, 2, 3)))
        }

        def pack(tensor):
            log("pack", tensor.shape, tensor.dtype, tensor.is_leaf)  # values that a failed kernel left are of no use
            return tensor

        with warnings.catch_warnings(), torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
            warnings.simplefilter("ignore")
            try:
                exec(text, {"torch": torch, "F": torch.nn.functional, **names})
            except Exception as error:
                log(type(error).__name__)

    agree(program, requires_grad=False)


def test_an_error_of_the_pack_hook_is_not_packed_again():
    def program(torch, log):
        x = torch.ones(2, 2, requires_grad=True)

        def pack(tensor):
            log("pack")
            raise RuntimeError("mine")

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
            for call in (lambda: x.mm(x), lambda: x.gather(0, torch.tensor([[1]])), lambda: torch.linalg.det(x)):
                try:
                    call()
                except RuntimeError as error:
                    log(str(error))

    agree(program)


def test_nothing_is_packed_under_no_grad_or_when_hooks_are_disabled():
    def program(torch, log):
        x = torch.ones(2, 3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: log("pack"), lambda packed: packed):
            for recording in (True, False):
                with torch.set_grad_enabled(recording):
                    for given in (x, x.detach()):
                        try:
                            given.mm(torch.ones(2, 2))
                        except RuntimeError as error:
                            log(str(error)[:20])

    agree(program)


def test_cells_check_their_weights():
    def program(torch, log):
        for name, gates in (("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1)):
            for ih, hh, state in ((3, 4, 1), (3, 3, 2), (4, 3, 2), (4, 3, 1)):
                h = torch.ones(state, 3)
                hidden = (h, h) if gates == 4 else h
                try:
                    getattr(torch, name)(torch.ones(1, 2), hidden, torch.ones(gates * ih, 2), torch.ones(gates * hh, 3))
                except RuntimeError as error:
                    log(str(error))

    agree(program)
