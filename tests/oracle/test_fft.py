"""torch.fft against torch: values, gradients, second gradients, sizes, norms and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

# Over x (6 real), y (5 real), c (6 complex), d (5 complex), m (3 by 4, real), z (3 by 4, complex), i (ints), b (bools)
EXPRESSIONS = """
fft(x); fft(y); fft(c); fft(x, 4); fft(x, 9); fft(c, 4); fft(c, 9); fft(x, norm='ortho'); fft(c, norm='forward')
fft(m, dim=0); fft(m, 5, 0); fft(z, dim=0, norm='backward'); fft(i); fft(b); fft(x.double()); fft(x[:1])
ifft(x); ifft(c); ifft(c, 4); ifft(c, 9, norm='ortho'); ifft(z, dim=0, norm='forward'); ifft(x, norm='forward')
rfft(x); rfft(y); rfft(x, 4); rfft(x, 9); rfft(m, dim=0); rfft(m, norm='ortho'); rfft(x, norm='forward'); rfft(i)
irfft(c); irfft(d); irfft(c, 7); irfft(c, 10); irfft(c, 20); irfft(c, 1); irfft(c, 2); irfft(x); irfft(z, dim=0)
irfft(c, norm='ortho'); irfft(z, 5, 0, 'forward'); irfft(rfft(y), 5)
hfft(c); hfft(x); hfft(c, 7); hfft(z, dim=0, norm='ortho'); ihfft(x); ihfft(y, 8); ihfft(m, dim=0, norm='ortho')
fft2(m); fft2(z); fft2(m, (2, 5)); fft2(z, dim=(0,)); fft2(m, norm='ortho'); ifft2(m); ifft2(z, (4, 4), norm='forward')
fftn(m); fftn(z, dim=(0,)); fftn(m, s=(2,)); fftn(m, s=(-1, 3)); fftn(m, (2, 6), (1, 0)); ifftn(z); fftn(m, dim=0)
rfftn(m); rfftn(m, (2, 5)); rfftn(m, dim=(0,)); rfftn(m, dim=(1, 0), norm='ortho'); rfft2(m); rfft2(m, (3, 6))
irfftn(z); irfftn(z, (3, 5)); irfftn(z, dim=(1, 0)); irfft2(z); irfft2(m, (4, 3), norm='ortho'); irfftn(z, s=(5,))
hfft2(z); hfftn(z); hfftn(z, (2, 7)); ihfft2(m); ihfftn(m, norm='ortho'); hfftn(c); ihfftn(x)
fftshift(m); fftshift(m, 1); fftshift(y); ifftshift(y); ifftshift(m, (0, 1)); fftshift(z, dim=(1,)); ifftshift(fftshift(y))
"""
FREQUENCIES = """
fftfreq(5); fftfreq(4, 0.5); rfftfreq(5); rfftfreq(6, d=2.0); fftfreq(5, dtype=torch.float64); fftfreq(0)
rfftfreq(4, requires_grad=True)
"""
WRONG = """
fft(x, 0); fft(x, norm='foo'); fft(x, dim=1); fft(torch.tensor(1.0)); fft(x.half()); fft(x.bfloat16()); fft('a'); fft()
rfft(c); ihfft(c); irfft(c[:1]); fftn(m, s=(2, 2, 2)); fftn(m, s=(2,), dim=(0, 1)); fftn(m, dim=(0, 0)); rfftn(z)
fft(torch.ones(2, 0)); fftn(m, s=(0, 1)); rfft2(z); irfftn(z, dim=(5,))
"""


def _split(table: str) -> list[str]:
    return [part.strip() for line in table.strip().split("\n") for part in line.split(";")]


def _names(torch: Any, grad: bool) -> dict[str, Any]:
    numbers = torch.arange(24.0, dtype=torch.float64)
    waves = (numbers * 1.3).sin()
    more = (numbers * 0.7).cos()
    names = {
        "x": waves[:6], "y": more[:5], "c": torch.complex(waves[:6], more[:6]), "d": torch.complex(more[:5], waves[3:8]),
        "m": waves[:12].view(3, 4), "z": torch.complex(waves[:12], more[:12]).view(3, 4),
    }  # fmt: skip
    leaves = {name: value.clone().requires_grad_(grad) for name, value in names.items()}
    functions = {name: getattr(torch.fft, name) for name in dir(torch.fft) if "ff" in name and name != "fft_fft"}
    return {"torch": torch, "i": torch.arange(4), "b": torch.tensor([True, False, True]), **functions, **leaves}


@pytest.mark.parametrize("text", _split(EXPRESSIONS))
def test_transform(text: str) -> None:
    """In double precision with gradients of both orders, and in single precision."""

    def program(torch: Any, log: Any) -> None:
        names = _names(torch, grad=True)
        out = eval(text, names)
        log("value", out)
        leaves = [value for value in names.values() if isinstance(value, torch.Tensor) and value.requires_grad]
        if out.requires_grad:
            along = torch.arange(1.0, 1.0 + out.numel(), dtype=torch.float64).sin().view(out.shape).to(out.dtype)
            along = along * (1 + 0.5j) if out.is_complex() else along
            first = torch.autograd.grad((out * along).abs().pow(2).sum(), leaves, create_graph=True, allow_unused=True)
            log("first", [None if g is None else g.detach() for g in first])
            total = sum((g.abs() ** 2).sum() for g in first if g is not None)
            log("second", torch.autograd.grad(total, leaves, allow_unused=True))
        single = {
            name: value.to(torch.complex64 if value.is_complex() else torch.float32).detach()
            if isinstance(value, torch.Tensor) and value.is_floating_point() | value.is_complex() else value
            for name, value in names.items()
        }  # fmt: skip
        log("single", eval(text, single))

    agree(program, graph=True)


@pytest.mark.parametrize("text", _split(FREQUENCIES) + _split(WRONG))
def test_frequencies_and_refusals(text: str) -> None:
    agree(lambda torch: eval(text, _names(torch, grad=True)), words=12)


def test_out() -> None:
    def program(torch: Any) -> Any:
        names = _names(torch, grad=False)
        out = torch.empty(6, dtype=torch.complex128)
        return torch.fft.fft(names["x"], out=out) is out, out

    agree(program)


def test_a_convolution_by_fft_learns() -> None:
    def program(torch: Any, log: Any) -> None:
        signal, kernel = torch.arange(8.0).sin(), torch.zeros(8, requires_grad=True)
        optimizer = torch.optim.SGD([kernel], lr=0.05)
        target = torch.roll(signal, 2)
        for _ in range(5):
            optimizer.zero_grad()
            made = torch.fft.irfft(torch.fft.rfft(signal) * torch.fft.rfft(kernel), 8)
            loss = (made - target).pow(2).mean()
            loss.backward()
            optimizer.step()
            log(loss, kernel.grad)

    agree(program)
