"""Random generators of GPUs: seeding them has no effect."""

from __future__ import annotations

from typing import Any

from undertow.cuda._absent import refuse


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU: there is none, so nothing happens."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    int(seed)


def seed() -> None:
    """Seed the generator of the current GPU with a random number."""


def seed_all() -> None:
    """Seed the generators of all GPUs with a random number."""


def get_rng_state_all() -> list[Any]:
    """Return the generator states of all GPUs: an empty list."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the generator states of all GPUs."""
    for state in new_states:
        set_rng_state(state)


get_rng_state = set_rng_state = initial_seed = refuse
