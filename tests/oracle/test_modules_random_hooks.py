"""Random programs that register, remove, replace and raise in module hooks do on undertow what they do on torch."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracle.harness import agree
from tests.oracle.module_steps import KINDS, Machine, Step

choice = st.integers(0, 15)
steps = st.lists(st.tuples(st.sampled_from(KINDS), choice, choice, choice), min_size=6, max_size=24)


@settings(
    max_examples=200,
    derandomize=True,  # the same programs in every run
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(steps)
def test_random_module_hooks(program: list[Step]) -> None:
    agree(lambda torch, log: Machine(torch, log).run(program))
