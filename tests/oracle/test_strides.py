"""In which order results lie in memory, where the input lies in another order than row by row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

INPUTS: dict[str, Any] = {
    "rows": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 3, 1),
    "channels_last": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "turned": lambda x: x.transpose(1, 2),
    "sliced": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(2, 3, 4, 5),
}

CALLS = (
    """
x.sum(1); x.mean((1, 2)); x.prod(1); x.amax(1); x.amin(2); x.var(1, keepdim=True); x.std(1); x.norm(dim=1)
x.any(1); x.all(1)
x.max(1); x.min(1); x.argmax(1); x.logsumexp(1); x.logsumexp((0, 2), keepdim=True); x.nansum(1); x.nanmean(1)
x.aminmax(dim=1)
x.kthvalue(1, 1); x.median(1); x.nanmedian(1); x.mode(1); x.count_nonzero(1); x.half().sum(1); x.long().sum(1)
(x > 0).sum(1)
F.logsigmoid(x); 2**x; torch.mvlgamma(x + 5, 2); x.renorm(2, 0, 1.0); x.tril(); x.triu(1); F.rrelu(x, training=True); x**2
x.put(torch.tensor([0]), torch.tensor([1.0])); x.index_put((torch.tensor([0]),), torch.tensor(1.0)); x.exp(); x + x
x.index_put((torch.tensor([0]),), torch.tensor(1.0), accumulate=True); torch.linalg.vector_norm(x, dim=1)
torch.fft.fft(x, dim=1); torch.fft.ifftn(x, dim=(3, 0)); torch.fft.fftn(x + 1j); torch.fft.rfftn(x, dim=(2, 0, 1))
torch.fft.irfftn(x, dim=(0, 2)); torch.fft.hfft(x, dim=2); torch.rot90(x, 1, (0, 2)); torch.rot90(x, 2, (0, 1))
torch.rot90(x, 7, (1, 3))
torch.linalg.cross(x[:, :3, :3, :3], x[:1, :3, :3, :3], dim=2) if x.shape[2] > 2 else x
""".strip()
    .replace("\n", ";")
    .split(";")
)


def _strides(found: Any) -> Any:
    return [_strides(part) for part in found] if isinstance(found, tuple) else (tuple(found.shape), found.stride())


@pytest.mark.parametrize("text", [text.strip() for text in CALLS])
def test_functions(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        base = torch.arange(120.0).reshape(2, 3, 4, 5) / 100 + 0.1
        for name, view in INPUTS.items():
            log(name, _strides(eval(text, {"torch": torch, "F": torch.nn.functional, "x": view(base)})))

    agree(program)


MATRICES = (
    """
qr(x); qr(x, mode="complete"); qr(x, mode="r"); svd(x); svd(x, full_matrices=False); svdvals(x); pinv(x); lu(x)
lu_factor(x)
cholesky(p); cholesky(p, upper=True); cholesky_ex(p); eigh(p); eigvalsh(p); eig(p); inv(p); inv_ex(p); solve(p, b); det(p)
solve(p, b.mT, left=False); solve_triangular(p, b, upper=True); slogdet(p); matrix_power(p, -1); matrix_power(p, 2)
lstsq(p, b)[0]
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in MATRICES])
def test_matrices(text: str) -> None:
    """Results of LAPACK lie column by column."""

    def program(torch: Any, log: Any) -> None:
        for shape in ((3, 3), (2, 3, 3), (2, 3, 2), (2, 2, 3)):
            x = torch.rand(shape)
            names = {"x": x, "p": x @ x.mT + torch.eye(shape[-2]), "b": torch.rand(*shape[:-1], 4)}
            log(shape, _strides(eval(text, {n: getattr(torch.linalg, n) for n in NAMES} | names)))

    agree(program)


NAMES = {text.strip().partition("(")[0] for text in MATRICES}
