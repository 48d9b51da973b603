"""Operations of matrix products and convolutions, forward and backward, counted by module."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import undertow
from tests.oracle.harness import agree

PROGRAMS = (
    """
(a @ b).sum().backward(); torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5)); torch.addmm(torch.randn(6), a, b)
F.linear(torch.randn(2, 3, 5), torch.randn(6, 5), torch.randn(6)); F.linear(torch.randn(2, 3, 5), torch.randn(6, 5))
torch.matmul(torch.randn(2, 3, 4), torch.randn(4, 5)); torch.mv(a, torch.randn(5))
torch.dot(torch.randn(5), torch.randn(5))
nn.ConvTranspose2d(2, 3, 3)(torch.randn(1, 2, 4, 4)).sum().backward(); torch.einsum("ij,jk->ik", a, b)
nn.Conv1d(2, 4, 3, groups=2)(torch.randn(1, 2, 8, requires_grad=True)).sum().backward(); nn.LSTM(3, 4)(torch.randn(2, 1, 3))
nn.MultiheadAttention(8, 2)(torch.randn(3, 1, 8), torch.randn(3, 1, 8), torch.randn(3, 1, 8)); a.exp().sum().backward()
torch.baddbmm(torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5).requires_grad_()).sum().backward()
nested(torch.randn(1, 3)).sum().backward(); nested(nested(torch.randn(1, 3)).repeat(1, 2)[:, :3]).sum().backward()
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in PROGRAMS])
def test_counts(text: str) -> None:
    def program(torch: Any) -> Any:
        nn = torch.nn
        names = {"torch": torch, "nn": nn, "F": nn.functional, "b": torch.randn(5, 6)}
        names["a"] = torch.randn(4, 5, requires_grad=True)
        names["nested"] = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
        with import_module(f"{torch.__name__}.utils.flop_counter").FlopCounterMode(display=False) as counter:
            eval(text, names)
        counts = {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()}
        return counts, counter.get_total_flops()

    agree(program)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """As PyTorch prints it with the package tabulate, which the tests do without."""
    layer = undertow.nn.Sequential(undertow.nn.Linear(512, 5))
    with undertow.utils.flop_counter.FlopCounterMode(depth=1) as counter:
        layer(undertow.ones(2, 512))
    expected = """
Module           FLOP    % Total
------------  -------  ---------
Sequential    10.240K    100.00%
- aten.addmm  10.240K    100.00%
"""
    assert capsys.readouterr().out == expected.lstrip()
    assert counter.get_table(depth=2).count("Sequential") == 2
    layer(undertow.ones(2, 512))
    assert counter.get_total_flops() == 10240  # nothing is counted outside the block


def test_formulas_of_a_programs_own() -> None:
    def program(torch: Any, log: Any) -> Any:
        flops = import_module(f"{torch.__name__}.utils.flop_counter")

        def exponents(shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
            log(list(shape), list(out_shape))
            return 10

        x = torch.ones(2, 3, requires_grad=True)
        with flops.FlopCounterMode(display=False, custom_mapping={torch.ops.aten.exp: exponents}) as counter:
            (x.exp() @ torch.ones(3, 4)).sum().backward()
        return {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}

    agree(program)


def test_registering_formulas() -> None:
    def program(torch: Any) -> Any:
        flops = import_module(f"{torch.__name__}.utils.flop_counter")
        sine, cosine = torch.ops.aten.sin, torch.ops.aten.cos
        flops.register_flop_formula([sine])(lambda shape, *args, out_shape=None, **kwargs: 7)
        flops.register_flop_formula(cosine, get_raw=True)(lambda x, *args, out_val=None, **kwargs: out_val.numel())
        try:
            with flops.FlopCounterMode(display=False) as counter:
                torch.ones(2, 3).sin().cos()
        finally:
            del flops.flop_registry[sine], flops.flop_registry[cosine]
        return counter.get_total_flops(), torch.ops.aten.mm in flops.flop_registry

    agree(program)


def test_refused_registrations() -> None:
    def flops(torch: Any) -> Any:
        return import_module(f"{torch.__name__}.utils.flop_counter")

    agree(lambda torch: flops(torch).register_flop_formula(torch.ops.aten.mm)(lambda *shapes: 0), raises=True)
    agree(lambda torch: flops(torch).register_flop_formula(torch.ops.aten.mm.default)(lambda *shapes: 0), raises=True)


def test_numbers_as_text() -> None:
    def program(torch: Any) -> Any:
        flops = import_module(f"{torch.__name__}.utils.flop_counter")
        numbers = (5, 999, 1000, 12345, 999999, 1234567, 10**10, 10**14)
        texts = [flops.convert_num_with_suffix(number, flops.get_suffix_str(number)) for number in numbers]
        shapes = ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))
        return (
            texts,
            flops.convert_to_percent_str(1, 3),
            flops.sdpa_flop_count(*shapes),
            flops.convert_to_percent_str(1, 0),
        )

    agree(program)


def test_attention_backward_count() -> None:
    def program(torch: Any) -> Any:
        flops = import_module(f"{torch.__name__}.utils.flop_counter")
        return flops.sdpa_backward_flop_count((2, 3, 4, 7), (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))

    agree(program)
