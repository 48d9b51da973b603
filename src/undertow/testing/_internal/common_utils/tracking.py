"""The seed of every test, and the tracking of its samples."""

from __future__ import annotations

import inspect
import random
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow.random import manual_seed

SEED = 1234


def set_rng_seed(seed: int | None = None) -> None:
    """Seed every generator."""
    seed = SEED if seed is None else seed
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


class TrackedInput:
    """The last sample of a test, and its index."""

    def __init__(self, index: int, val: Any, type_desc: str) -> None:
        self.index, self.val, self.type_desc = index, val, type_desc


_tracked: dict[str, TrackedInput] = {}


def extract_test_fn() -> Callable[..., Any] | None:
    """Return the test method that is running, found on the stack."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, unittest.TestCase):
            return getattr(owner, owner._testMethodName)
        frame = frame.f_back
    return None


def _test_id() -> str | None:
    test = extract_test_fn()
    return None if test is None else test.__qualname__


def get_tracked_input() -> TrackedInput | None:
    """Return the last sample of the running test."""
    return _tracked.get(_test_id() or "")


def clear_tracked_input() -> None:
    _tracked.pop(_test_id() or "", None)


class TrackedInputIter:
    """An iterator of samples, each drawn from the same seed and stored, so that a failure can report it."""

    def __init__(
        self, child_iter: Any, input_type_desc: str, item_callback: Any = None, track_callback: Any = None,
        set_seed: bool = True, restrict_to_index: int | None = None,
    ) -> None:  # fmt: skip
        self.child_iter, self.input_type_desc = enumerate(child_iter), input_type_desc
        self.item_callback = item_callback or (lambda value, number: value)
        self.track_callback = track_callback or (lambda value: value)
        self.set_seed, self.restrict_to_index = set_seed, restrict_to_index

    def __iter__(self) -> TrackedInputIter:
        return self

    def __next__(self) -> Any:
        while True:
            if self.set_seed:
                set_rng_seed()
            number, value = next(self.child_iter)
            if self.restrict_to_index is not None and number != self.restrict_to_index:
                continue
            self._set_tracked_input(TrackedInput(number, self.track_callback(value), self.input_type_desc))
            return self.item_callback(value, number)

    def _set_tracked_input(self, tracked_input: TrackedInput) -> None:
        name = _test_id()
        if name is not None:
            _tracked[name] = tracked_input
