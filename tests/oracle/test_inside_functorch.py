"""Names inside functorch that packages and tests import: modules as functions of their parameters."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle.harness import agree


def names(torch: Any) -> dict[str, Any]:
    nn: Any = torch.nn

    class Tied(nn.Module):
        def __init__(self, buffer: bool) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.register_buffer("c", torch.ones(2) if buffer else None)

        def forward(self, x: Any, k: int = 1) -> Any:
            return self.b(self.a(x)) * k + (0 if self.c is None else self.c)

    def inside(name: str) -> Any:
        return importlib.import_module(f"{torch.__name__}._functorch.{name}")

    norm = nn.BatchNorm1d(2)
    inside("batch_norm_replacement").batch_norm_without_running_stats(norm)
    return {
        "torch": torch, "nn": nn, "Tied": Tied, "mf": inside("make_functional"), "inside": inside, "norm": norm,
        "linear": nn.Linear(2, 3), "x": torch.ones(1, 2), "rows": torch.arange(6.0).reshape(3, 2),
    }  # fmt: skip


ANSWERS = """
[(p, f(p, x), f([q * 2 for q in p], x), f.param_names, f.names_map) for f, p in [mf.make_functional(linear)]]
mf.make_functional(linear, disable_autograd_tracking=True)[1]
mf.make_functional(Tied(True))
[(f.param_names, f.all_names_map, p, b, f(p, b, x, k=2)) for f, p, b in [mf.make_functional_with_buffers(Tied(True))]]
[(f(p, b, rows), b) for f, p, b in [mf.make_functional_with_buffers(nn.BatchNorm1d(2))]]
mf.combine_state_for_ensemble([])
mf.combine_state_for_ensemble([nn.Linear(1, 1), nn.ReLU()])
mf.combine_state_for_ensemble([nn.Linear(1, 1), nn.Linear(1, 1).eval()])
[(p, b, torch.vmap(f, (0, 0, None))(p, b, x)) for f, p, b in [mf.combine_state_for_ensemble([linear, nn.Linear(2, 3)])]]
[(w, n, f(w, (x,))) for w, f, n in [mf.functional_init(nn.Linear)(2, 3)]]
[(w, n) for w, f, n in [mf.functional_init(nn.Linear, (4,))(2, 3)]]
mf.functional_init(nn.Linear, (4, 5))(2, 3)
[(w, b, n) for w, b, _, *n in [mf.functional_init_with_buffers(nn.BatchNorm1d, (4,))(2)]]
mf.make_functional_deprecated_v1(nn.BatchNorm1d(2))
[(w, n, f(w, (x,))) for w, f, n in [mf.make_functional_deprecated_v1(Tied(False))]]
mf.extract_weights(linear), mf.extract_buffers(nn.BatchNorm1d(2))
mf.load_weights(linear, ('weight', 'bias'), [torch.ones(3, 2), torch.zeros(3)], as_params=True), list(linear.parameters())
mf.transpose_stack(((torch.ones(1), torch.zeros(2)), (torch.ones(1), torch.zeros(2))))
mf.create_names_map({'a': x}, {'a': x, 'b': x})
inside('functional_call').functional_call(linear, dict(linear.named_parameters()), (x,))
inside('functional_call').construct_stacked_leaf([rows.requires_grad_(), rows], 'a')
inside('functional_call').construct_stacked_leaf([x.requires_grad_(), rows[:1].detach()], 'a')
inside('deprecated').make_functional(linear)[1], inside('deprecated').grad(lambda x: x.sum())(x)
inside('deprecated').vmap(torch.sin)(x), inside('deprecated').combine_state_for_ensemble([linear, linear])[1:]
norm.running_mean, norm.track_running_stats, norm.num_batches_tracked
inside('utils').unwrap_dead_wrappers((3, x)), inside('utils').exposed_in('zz')(lambda: 0).__module__
""".strip().splitlines()


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    agree(lambda torch: eval(text, names(torch)))
