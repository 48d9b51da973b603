"""Calls that PyTorch refuses, or accepts, in places that are easily overlooked."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree

CALLS = """
x = torch.ones(2, requires_grad=True); y = x * x; x.data = torch.ones(3); y.sum().backward()
x = torch.ones(2, 4, requires_grad=True); y = x * x; x.data = torch.ones(3, 4); y.sum().backward()
nn.RNNBase("x", 2, 3)
nn.LSTMCell(2, 3)(torch.ones(1, 2), (torch.ones(1, 3),))
F.avg_pool1d(torch.ones(1, 1, 4).int(), 2)
F.avg_pool2d(torch.ones(1, 1, 4, 4).bool(), 2)
F.avg_pool3d(torch.ones(1, 1, 4, 4, 4).short(), 2)
F.avg_pool2d(torch.ones(1, 1, 4, 4).long() * 3, 2)
F.avg_pool2d(torch.ones(()), 2)
F.avg_pool2d(torch.ones(1, 2, 3, 4, 5), 2)
F.avg_pool2d(torch.ones(1, 2, 3, 4) * 1j, 2)
F.max_pool2d(torch.ones(1, 2, 3, 4) * 1j, 2)
F.fractional_max_pool2d(torch.ones(()), 2, output_size=2)
F.fractional_max_pool2d(torch.ones(3), 2, output_ratio=(0.5, 0.5))
F.fractional_max_pool2d(torch.ones(1, 2, 3, 4, 5), 2, output_size=2)
F.fractional_max_pool3d(torch.ones(1, 1, 2, 3, 4, 5), 2, output_size=2)
F.pad(torch.ones(1, 1, 1, 1), (1, 2, 1, 0), mode="reflect")
F.bilinear(torch.ones(2, 3).double(), torch.ones(2, 2).double(), torch.ones(4, 3, 2), torch.ones(4))
F.bilinear(torch.ones(2, 3), torch.ones(2, 2), torch.ones(4, 3, 2), torch.ones(4).double())
F.group_norm(torch.ones(2, 4).long(), 2, torch.ones(4))
F.group_norm(torch.ones(2, 4).long(), 2)
F.gelu(torch.ones(2).long())
F.celu(torch.ones(2).long())
F.softshrink(torch.ones(2).bool())
last = torch.ones(2, 8, 3, 4).to(memory_format=torch.channels_last); result = F.pixel_shuffle(last, 2).stride()
last = torch.ones(2, 2, 4, 6).to(memory_format=torch.channels_last); result = F.pixel_unshuffle(last, 2).stride()
last = torch.ones(2, 8, 3, 4).to(memory_format=torch.channels_last); result = F.channel_shuffle(last, 2).stride()
F.ctc_loss(torch.zeros(5, 2, 4), torch.tensor([[1, 2], [3, 3]]), (5, 4), torch.tensor([2, 1]))
F.ctc_loss(torch.zeros(5, 2, 4), torch.tensor([[1, 2], [3, 3]]), torch.tensor([5, 4]), (2, 1))
F.ctc_loss(torch.zeros(3, 2, 4), torch.tensor([[1]]), (3, 3), (1, 1))
torch.func.functional_call(nn.Linear(2, 2), {"weight": 5}, torch.ones(1, 2))
torch.linalg.lstsq(torch.ones(2, 3), torch.ones(9))
torch.ones(2, 3).scatter(0, torch.tensor([[0]]), torch.ones(2))
torch.ones(2, 3).scatter(0, torch.tensor([[0]]), torch.tensor(1.0))
torch.ones(3).scatter_add(0, torch.tensor([0]), torch.ones(2, 2))
torch.ones(2, 2, 2).scatter_reduce(2, torch.zeros(1, 1, 1).long(), torch.ones(2), "sum")
torch.ones(2, 3).to_sparse(9)
F.embedding_bag(torch.tensor([1]), torch.ones(3, 2), torch.tensor([0.0]))
s = nn.Sequential(nn.ReLU()); s.extend(s); result = len(s)
x = torch.ones(1); x.volatile = True; result = x.volatile
nn.utils.skip_init(nn.Linear, 2, 3); result = torch.rand(2)
p = nn.Parameter(torch.ones(2)); p.grad = p * 2; torch.optim.NAdam([p], betas=torch.tensor([0.9, 0.99])).step(); result = p
""".strip().split("\n")


@pytest.mark.parametrize("text", CALLS)
def test_refused_alike(text):
    def program(torch):
        scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        exec(text, scope)
        return scope.get("result")

    agree(program, warns=True)
