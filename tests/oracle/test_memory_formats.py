"""Which strides count as which memory format, against torch: to(memory_format=…) and dim_order()."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
import torch

import undertow

SHAPES = [*product((1, 2), (1, 3), (1, 2), (1, 3))]


def laid(lib: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    return lib.ones([shape[dim] for dim in order]).permute([order.index(dim) for dim in range(len(shape))])


@pytest.mark.parametrize("name", ["channels_last", "contiguous_format"])
def test_to_copies_unless_the_strides_speak_for_the_format(name: str) -> None:
    for shape in SHAPES:
        for order in permutations(range(4)):
            found = []
            for lib in (torch, undertow):
                tensor = laid(lib, shape, order)
                moved = tensor.to(memory_format=getattr(lib, name))
                found.append((moved is tensor, moved.stride()))
            assert found[0] == found[1], (shape, order)


CHECKS: list[Any] = [False, True, [], ["contiguous_format"], ["channels_last"], ["contiguous_format", "channels_last"]]
TENSORS = {
    "plain": lambda lib: lib.ones(2, 3, 4, 5),
    "ones among the sizes": lambda lib: lib.ones(1, 2, 3, 4),
    "ones at the end": lambda lib: lib.ones(2, 3, 1, 1),
    "channels last": lambda lib: lib.ones(2, 3, 4, 5).to(memory_format=lib.channels_last),
    "transposed": lambda lib: lib.ones(2, 3, 4, 5).transpose(0, 1),
    "expanded": lambda lib: lib.ones(2, 1).expand(2, 3),
    "a number": lambda lib: lib.ones(()),
}


@pytest.mark.parametrize("case", TENSORS)
def test_dim_order(case: str) -> None:
    for check in [*CHECKS, 1, ("contiguous_format",)]:
        assert order_of(torch, case, check) == order_of(undertow, case, check), check


def order_of(lib: Any, case: str, check: Any) -> Any:
    if isinstance(check, (list, tuple)):
        check = type(check)(getattr(lib, name) for name in check)
    try:
        return TENSORS[case](lib).dim_order(ambiguity_check=check)
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).split()[:8]
