"""Names inside PyTorch's distributions that packages import: closed forms of divergences, small products of matrices."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch as real_torch
import torch.distributions.kl

from tests.oracle.harness import agree

CLOSED_FORMS = sorted(name for name in vars(real_torch.distributions.kl) if name.startswith("_kl_"))

ANSWERS = """
kl._x_log_x(torch.tensor([0.0, 2.0])), kl._batch_trace_XXT(W), kl._infinite_like(D), kl._euler_gamma
low._batch_capacitance_tril(W, D), low._batch_lowrank_logdet(W, D, low._batch_capacitance_tril(W, D))
low._batch_lowrank_mahalanobis(W, D, torch.ones(3), low._batch_capacitance_tril(W, D))
inside('von_mises')._log_modified_bessel_fn(D), inside('von_mises')._log_modified_bessel_fn(D, order=1)
inside('von_mises')._log_modified_bessel_fn(D, order=2)
inside('constraint_registry')._transform_to_positive(inside('constraints').positive)(D)
inside('constraint_registry')._transform_to_interval(inside('constraints').unit_interval)(D)
""".strip().splitlines()


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    def program(torch: Any) -> Any:
        def inside(name: str) -> Any:
            return importlib.import_module(f"{torch.__name__}.distributions.{name}")

        return eval(
            text,
            {
                "torch": torch, "inside": inside, "kl": inside("kl"), "low": inside("lowrank_multivariate_normal"),
                "W": torch.arange(6.0).reshape(3, 2), "D": torch.tensor([1.0, 2.0, 3.0]),
            },
        )  # fmt: skip

    agree(program, rtol=1e-5)


def test_closed_forms_have_names() -> None:
    kl = importlib.import_module("undertow.distributions.kl")
    assert len(CLOSED_FORMS) > 50
    assert [name for name in CLOSED_FORMS if not callable(getattr(kl, name, None))] == []

    def program(torch: Any) -> Any:
        forms, d = importlib.import_module(f"{torch.__name__}.distributions.kl"), torch.distributions
        normal, gumbel = d.Normal(torch.tensor([0.0, 1.0]), 2.0), d.Gumbel(torch.tensor(0.5), 1.5)
        exponential = d.Exponential(torch.tensor([1.0, 2.0]))
        return (
            forms._kl_normal_normal(normal, d.Normal(0.0, 1.0)), forms._kl_normal_gumbel(normal, gumbel),
            forms._kl_normal_infinity(normal, exponential),
            d.kl_divergence(d.Poisson(torch.ones(2)), d.Bernoulli(0.5)),
            d.kl_divergence(d.Poisson(torch.ones(2)), d.Binomial(3, torch.tensor(0.5))),
            forms._kl_expfamily_expfamily(normal, d.Normal(0.0, 1.0)),
        )  # fmt: skip

    agree(program)
