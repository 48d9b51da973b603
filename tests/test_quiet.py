"""Dividing by zero is silent in undertow, in every thread, and NumPy's own setting stays the user's."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import undertow
from undertow._src.arrays.quiet import quiet, quietly, silently


def overflowing(count: int) -> None:
    """Divides by zero, overflows and takes logarithms of negative numbers, forward and backward."""
    for _ in range(count):
        x = undertow.tensor([0.0, -1.0, 1e30], requires_grad=True)
        (x / 0 + x * 1e30 + x.log() + (1 / x).sqrt() + x**-3).sum().backward()
        x.detach().mul_(1e30).div_(0)
        (undertow.ones(2, dtype=undertow.float16) * 1e6).half()


def test_ops_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        overflowing(1)


def test_threads_are_silent_together() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            overflowing(50)
        except BaseException as error:
            failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_numpy_still_warns_the_user() -> None:
    before = np.geterr()
    overflowing(1)
    assert np.geterr() == before
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.ones(1) / 0


def test_a_setting_of_the_users_survives() -> None:
    with np.errstate(divide="raise"):
        overflowing(1)
        with pytest.raises(FloatingPointError):
            np.ones(1) / 0


def test_silence_nests() -> None:
    def divide() -> float:
        return float((np.ones(1) / 0)[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quietly(lambda: quietly(divide)) == np.inf
        assert silently(lambda: quietly(divide)) == np.inf
        assert quiet(divide)() == np.inf
        with pytest.raises(RuntimeError, match="already entered"):
            silently(lambda: silently(divide))


def test_an_error_inside_ends_the_silence() -> None:
    with pytest.raises(RuntimeError, match="size of tensor a"):
        undertow.ones(2) * undertow.ones(3)
    assert np.geterr()["divide"] == "warn"
