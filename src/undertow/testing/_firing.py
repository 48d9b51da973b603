"""`assert_same_firing`: check that a compiled step acts, with its hooks, as the eager one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.compiler import compiler


def assert_same_firing(step: Callable[..., Any], *args: Any, steps: int = 3, **kwargs: Any) -> None:
    """Run a step eagerly and compiled from the same state; raise AssertionError if they differ.

    Results, parameters, buffers, gradients, optimizer state, random state, hook calls with their order and arguments,
    and what hooks left in lists, dicts and variables are compared. All state is restored at the end. `rtol` and `atol`
    are the tolerances.
    """
    compiler().assert_same_firing(step, *args, steps=steps, **kwargs)
