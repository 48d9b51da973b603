"""Functions whose kernels change with the size of their inputs, on inputs that are large enough."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree_op

# Over m (70 by 160) and n (its like), w (6 by 40 by 40), s (2 by 3 by 200), p (positive, 70 by 160), t (m with ties and
# a nan in every second row), i (300 indices below 70).
EXPRESSIONS = """
m.topk(2); m.topk(3, largest=False); m.topk(1, 0); t.topk(2).values.detach(); m.kthvalue(7); m.kthvalue(3, 0)
t.kthvalue(2).values.detach(); m.median(1); m.median(0); t.median(1); t.nanmedian(1); m.mode(1); m.cumsum(0)
m.cumsum(1); w.cumsum(1); m.cumprod(0); w.cumprod(1); m.double().cumsum(0); (m > 0).cumsum(0); m.logcumsumexp(0)
torch.where(m > 0, 1.5, m); torch.where(m > 0, m, -2); torch.where(m > 0.3, m, n); torch.where(m > 0, 1.5, -2.5)
F.smooth_l1_loss(m, n); F.huber_loss(m, n, delta=0.5); F.hardswish(m * 4); F.threshold(m, 0.1, 20.0); F.elu(m)
F.pad(w, (3, 2, 1, 4), 'reflect'); F.pad(w, (3, 2), 'replicate'); F.pad(w, (3, 2, 0, 0), 'circular')
F.pad(s, (150, 90), 'reflect'); m.index_select(0, i); m[i]; m.index_add(0, i, m[i])
m.index_select(0, torch.arange(69, -1, -1)); F.interpolate(s, scale_factor=2, mode='linear'); F.one_hot(i)
F.interpolate(s, size=301, mode='linear', align_corners=True); F.interpolate(s, size=90, mode='linear')
m.detach().clone().clamp_(-0.5, 0.7); m.detach().clone().mul_(torch.tensor(0.3)); F.embedding(i, m); m.std(1)
m.softmax(0); torch.manual_seed(3) and torch.multinomial(p, 9, True); torch.manual_seed(3) and torch.multinomial(p, 9)
"""


@pytest.mark.parametrize(
    "expression", [part.strip() for part in EXPRESSIONS.replace("\n", ";").split(";") if part.strip()]
)
def test_large_inputs(expression: str) -> None:
    draw = np.random.default_rng(0)
    m, n = draw.standard_normal((2, 70, 160))
    w, s = draw.standard_normal((6, 40, 40)), draw.standard_normal((2, 3, 200))
    t = np.round(m * 4)
    t[::2, 17] = np.nan
    code = compile(expression, expression, "eval")

    def function(torch: ModuleType, m: Any, n: Any, w: Any, s: Any, p: Any, t: Any, i: Any) -> Any:
        names = {"F": torch.nn.functional, "torch": torch, "m": m, "n": n, "w": w, "s": s, "p": p, "t": t, "i": i}
        return eval(code, names)

    agree_op(function, m, n, w, s, np.abs(m), t, draw.integers(0, 70, 300), second=False)
