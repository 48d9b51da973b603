"""Points of Sobol sequences, scrambled and not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree

STEPS = (
    """
e.draw(5); e.draw(); e.draw_base2(3); (e.draw(3), e.reset().draw(2)); (e.draw(2), e.fast_forward(4).draw(3)); repr(e)
e.fast_forward(6).draw(2); e.draw(4, dtype=torch.float64); (e.draw(3), e.draw_base2(3)); (e.draw(7), e.num_generated)
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in STEPS])
@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("options", [{}, {"scramble": True}, {"scramble": True, "seed": 7}], ids=str)
def test_points(text: str, dimension: int, options: dict[str, Any]) -> None:
    def program(torch: Any) -> Any:
        engine = import_module(f"{torch.__name__}.quasirandom").SobolEngine(dimension, **options)
        return eval(text, {"torch": torch, "e": engine}), torch.rand(1)

    agree(program)


@pytest.mark.parametrize("dimension", [0, 30000])
def test_too_few_and_too_many_dimensions(dimension: int) -> None:
    agree(lambda torch: import_module(f"{torch.__name__}.quasirandom").SobolEngine(dimension), raises=True)
