"""torch.overrides' tables: which functions may be overridden, and with which parameters, against torch."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import undertow


def needed(lib: Any, name: str) -> list[str]:
    """The parameters without defaults of what stands for a function in tests."""
    home = lib.Tensor if name.startswith("Tensor.") else lib
    dummy = lib.overrides.get_testing_overrides()[getattr(home, name.rpartition(".")[2])]
    specs = inspect.getfullargspec(dummy)
    assert dummy(*[None] * len(specs.args)) == -1
    return specs.args[: len(specs.args) - len(specs.defaults or ())]


@pytest.mark.parametrize(
    "name", ["add", "atan2", "eq", "floor_divide", "addmm", "sum", "Tensor.gather", "Tensor.addcmul_"]
)
def test_what_has_to_be_given(name: str) -> None:
    ours, theirs = needed(undertow, name), needed(torch, name)
    assert len(ours) == len(theirs)
    assert ours[0] == ("self" if name.startswith("Tensor.") else theirs[0])


def test_settings_and_factories_are_not_asked() -> None:
    for lib in (torch, undertow):
        ignored = lib.overrides.get_ignored_functions()
        functions = {each for found in lib.overrides.get_overridable_functions().values() for each in found}
        for never in (lib.zeros, lib.get_num_threads, lib.set_printoptions, lib.save, lib.Tensor.as_subclass):
            assert never in ignored and never not in functions
        for asked in (lib.add, lib.Tensor.add_, lib.Tensor.shape.__get__, lib.nn.functional.relu, lib.linalg.inv):
            assert asked in functions and asked not in ignored
