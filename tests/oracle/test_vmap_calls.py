"""vmap of calls with named arguments, of weighted losses, of windows on memory, and of functions that draw."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import attempt

# Functions of one example: a (3 x 4), b (3 x 4), i (3 indices); F, torch and vmap are there, too.
CALLS = """
torch.topk(input=a, k=1, dim=-1)
torch.sum(input=a, dim=0)
torch.index_add(a, dim=0, index=torch.tensor([0]), source=b[:1])
torch.matmul(input=a, other=b.mT)
torch.cat(tensors=[a, b], dim=0)
torch.where(condition=a > b, input=a, other=b)
torch.gather(input=a, dim=0, index=torch.zeros(1, 4).long())
torch.scatter(input=a, dim=0, index=torch.zeros(1, 4).long(), value=1.0)
torch.permute(input=a, dims=(1, 0))
torch.reshape(input=a, shape=(-1,))
torch.flip(input=a, dims=(0,))
torch.roll(input=a, shifts=1, dims=0)
torch.tile(input=a, dims=(2,))
torch.transpose(input=a, dim0=0, dim1=1)
torch.unsqueeze(input=a, dim=0)
torch.split(tensor=a, split_size_or_sections=2, dim=1)
torch.chunk(input=a, chunks=2, dim=1)
torch.select(input=a, dim=0, index=1)
torch.diagonal(input=a, dim1=0, dim2=1)
torch.broadcast_to(input=a, size=(2, 3, 4))
torch.cumsum(input=a, dim=0)
torch.sort(input=a, dim=0)
torch.norm(input=a, dim=0)
torch.logsumexp(input=a, dim=0)
torch.var(input=a, dim=0)
torch.linalg.inv(A=a[:, :3] + torch.eye(3))
torch.masked_fill(input=a, mask=a > 0, value=0.0)
F.linear(input=a, weight=torch.ones(2, 4))
F.softmax(input=a, dim=-1)
F.layer_norm(input=a, normalized_shape=(4,))
F.cross_entropy(input=a, target=i)
F.cross_entropy(input=a, target=i, weight=a[0].exp())
F.mse_loss(a, b, weight=a.exp())
F.mse_loss(a, b, weight=a.exp(), reduction='sum')
F.l1_loss(a, b, weight=b.exp())
F.huber_loss(a, b, weight=b.exp())
F.binary_cross_entropy_with_logits(a, b.sigmoid(), weight=a.exp())
torch.baddbmm((a / 0)[None, :, :3], a[None], b.mT[None], beta=0)
torch.addmv((a / 0)[:, 0], a, b[0], beta=0)
F.batch_norm(a, None, None, a[0], b[0], True)
F.batch_norm(torch.ones(2, 4), torch.zeros(4), torch.ones(4), a[0], b[0], True)
F.batch_norm(a, torch.zeros(4), torch.ones(4), training=True)
F.batch_norm(a, torch.zeros(4), torch.ones(4))
torch.batch_norm(a, a[0], b[0], None, None, True, 0.1, 1e-5, False)
torch.batch_norm(torch.ones(2, 4), a[0], None, torch.zeros(4), torch.ones(4), True, 0.1, 1e-5, False)
F.instance_norm(torch.ones(2, 4, 3), torch.zeros(4), torch.ones(4), a[0], b[0])
F.embedding(i, torch.arange(8.0).view(4, 2))
F.embedding(i, torch.arange(8.0).view(4, 2), 1)
torch.embedding(torch.arange(8.0).view(4, 2), i)
torch.embedding(a, i.clamp(max=2))
a.as_strided((2, 2), (4, 1))
a.as_strided((2, 2), (4, 1), 1)
a[1:].as_strided((2,), (1,), a[1:].storage_offset())
"""


@pytest.mark.parametrize("code", CALLS.strip().splitlines())
def test_calls(code: str) -> None:
    def program(torch: Any, log: Any) -> None:
        scope = {"torch": torch, "F": torch.nn.functional}

        def run(a: Any, b: Any, i: Any) -> Any:
            return eval(code, {**scope, "a": a, "b": b, "i": i})

        x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
        i = torch.tensor([[0, 1, 2], [3, 2, 1]])
        attempt(log, "mapped", lambda: torch.vmap(run)(x, y, i))
        attempt(log, "in part", lambda: torch.vmap(run, in_dims=(None, 0, 0))(x[0], y, i))
        attempt(
            log, "elsewhere", lambda: torch.vmap(run, in_dims=(1, 1, 0))(x.mT.mT.transpose(0, 1), y.movedim(0, 1), i)
        )

    agree(program)


DRAWS = """
F.gumbel_softmax(a)
F.gumbel_softmax(logits=a, hard=True)
F.scaled_dot_product_attention(a, a, a, dropout_p=0.5)
F.scaled_dot_product_attention(a, a, a)
torch.native_dropout(a, 0.5, True)[0]
torch.native_dropout(a, 0.5, False)[0]
F.alpha_dropout(a, 0.5, True)
F.feature_alpha_dropout(a, 0.5, True)
F.dropout(input=a, p=0.5)
F.fractional_max_pool2d(a[None], 2, output_size=2)
torch.distributions.Normal(a, 1.0).sample()
torch.distributions.Gamma(a.exp(), 1.0).sample()
torch.distributions.Categorical(logits=a).sample()
"""


@pytest.mark.parametrize("code", DRAWS.strip().splitlines())
def test_draws(code: str) -> None:
    def program(torch: Any, log: Any) -> None:
        scope = {"torch": torch, "F": torch.nn.functional}
        x = torch.randn(3, 4).expand(2, 3, 4).clone()
        for randomness in ("error", "same", "different"):

            def run(randomness: str = randomness) -> Any:
                found = torch.vmap(lambda a: eval(code, {**scope, "a": a}), randomness=randomness)(x)
                return found.shape, bool((found[0] == found[1]).all()), found if randomness == "same" else None

            torch.manual_seed(3)
            attempt(log, randomness, run)

    agree(program)
