"""Whether hooks do compiled what they do eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.compiler import compiler


def assert_same_firing(step: Callable[..., Any], *args: Any, steps: int = 3, **kwargs: Any) -> None:
    """Run a step eagerly and compiled from the same state; raises AssertionError where the two differ.

    Compared are results, parameters, buffers, gradients, optimizer state, random state, the hooks that fired with their
    order and arguments, and what they left in lists, dicts and variables. Everything is put back at the end. `rtol` and
    `atol` say how close numbers have to be.
    """
    compiler().assert_same_firing(step, *args, steps=steps, **kwargs)
