"""nn.init: the same values as PyTorch's for the same seed, the same gains and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

VALUES = """
uniform_(torch.empty(3, 4)); uniform_(torch.empty(3, 4), -2.0, 5.0); normal_(torch.empty(3, 4))
normal_(torch.empty(30), 1.0, 3.0)
trunc_normal_(torch.empty(40)); trunc_normal_(torch.empty(5, 5), 1.0, 2.0, -1.0, 1.5)
trunc_normal_(torch.empty(4), mean=10.0)
torch.empty(4, device="meta").shape == trunc_normal_(torch.empty(4, device="meta")).shape
constant_(torch.empty(3), 0.3); ones_(torch.empty(2, 2)); zeros_(torch.empty(2, 2)); eye_(torch.empty(3, 4))
eye_(torch.empty(4, 2))
dirac_(torch.empty(4, 3, 3)); dirac_(torch.empty(6, 2, 3, 4), 2); dirac_(torch.empty(3, 3, 1, 2, 3))
xavier_uniform_(torch.empty(3, 5)); xavier_uniform_(torch.empty(3, 5, 2, 2), gain=2.0)
xavier_normal_(torch.empty(20, 5), 0.5)
kaiming_uniform_(torch.empty(3, 5)); kaiming_uniform_(torch.empty(3, 5, 2), a=1, mode='fan_out', nonlinearity='relu')
kaiming_normal_(torch.empty(7, 5)); kaiming_normal_(torch.empty(7, 5), mode='FAN_OUT', nonlinearity='tanh')
kaiming_uniform_(torch.empty(3, 0)); kaiming_normal_(torch.empty(0, 3)); orthogonal_(torch.empty(0, 3))
orthogonal_(torch.empty(5, 3)); orthogonal_(torch.empty(3, 5), gain=2.0); orthogonal_(torch.empty(4, 4))
orthogonal_(torch.empty(3, 2, 2))
sparse_(torch.empty(10, 4), 0.3); sparse_(torch.empty(6, 2), 0.5, std=1.0)
uniform_(torch.empty(2, dtype=torch.float64))
normal_(torch.empty(20, dtype=torch.float16)); kaiming_uniform_(torch.empty(3, 5, dtype=torch.bfloat16))
xavier_uniform_(torch.empty(4, 4).t()); uniform(torch.empty(3)); normal(torch.empty(3)); constant(torch.empty(3), 1.0)
eye(torch.empty(2, 2)); dirac(torch.empty(1, 1, 3)); xavier_uniform(torch.empty(2, 2)); xavier_normal(torch.empty(2, 2))
kaiming_uniform(torch.empty(2, 2)); kaiming_normal(torch.empty(2, 2)); orthogonal(torch.empty(2, 2))
sparse(torch.empty(2, 2), 0.1)
uniform_(torch.empty(3), generator=torch.Generator().manual_seed(5))
orthogonal_(torch.empty(3, 3), generator=torch.Generator().manual_seed(5))
_no_grad_trunc_normal_(torch.empty(5), 0.0, 1.0, -2.0, 2.0); _no_grad_uniform_(torch.empty(2), 0.0, 1.0)
_calculate_fan_in_and_fan_out(torch.empty(2, 3, 4, 5)); _calculate_correct_fan(torch.empty(2, 3), 'fan_in')
"""
REFUSED = """
xavier_uniform_(torch.empty(3)); kaiming_uniform_(torch.empty(3)); xavier_uniform_(torch.empty(0, 0))
eye_(torch.empty(3))
kaiming_uniform_(torch.empty(3, 3), mode='x'); kaiming_uniform_(torch.empty(3, 3), nonlinearity='x')
dirac_(torch.empty(3))
dirac_(torch.empty(3, 3, 3), groups=2); orthogonal_(torch.empty(3)); sparse_(torch.empty(3), 0.1); calculate_gain('x')
calculate_gain('leaky_relu', 'a'); calculate_gain('leaky_relu', True); uniform_(torch.empty(3, dtype=torch.int64))
"""
GAINS = """
linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid tanh relu leaky_relu selu
"""


def calls(table: str) -> list[str]:
    return [part.strip() for line in table.strip().split("\n") for part in line.split(";")]


def call(torch: Any, text: str) -> Any:
    return eval(text, {"torch": torch, **vars(torch.nn.init)})


@pytest.mark.parametrize("text", calls(VALUES))
def test_values(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        log(call(torch, text))
        log("what is drawn next", torch.rand(2))

    agree(program, rtol=1e-5, atol=1e-6, warns=True, raises=False)


@pytest.mark.parametrize("text", calls(REFUSED))
def test_refused(text: str) -> None:
    agree(lambda torch: call(torch, text), raises=True)


def test_gains() -> None:
    def program(torch: Any, log: Any) -> None:
        for name in GAINS.split():
            log(name, torch.nn.init.calculate_gain(name))
        log(torch.nn.init.calculate_gain("leaky_relu", 0.2), torch.nn.init.calculate_gain("leaky_relu", 1))

    agree(program)


def test_parameters_are_filled_in_place() -> None:
    def program(torch: Any, log: Any) -> None:
        weight = torch.nn.Parameter(torch.ones(3, 3))
        log(torch.nn.init.xavier_uniform_(weight) is weight, weight.requires_grad, weight.grad_fn, weight._version)
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.orthogonal_(layer.weight)
        torch.nn.init.trunc_normal_(layer.weight, std=0.02)
        log(layer.weight, layer(torch.ones(1, 2)).requires_grad)

    agree(program)
