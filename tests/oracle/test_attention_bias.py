"""Masks known by their form, and small functions of `nn.utils` and `optim` that take part in layouts and checks."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from tests.oracle.harness import agree, agree_error

importlib.import_module("torch.nn.attention.bias")


def bias(torch: ModuleType) -> Any:
    return importlib.import_module(f"{torch.__name__}.nn.attention.bias")


@pytest.mark.parametrize("form", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("sizes", [(3, 3), (3, 5)])
def test_causal_masks(form: str, sizes: tuple[int, int]) -> None:
    def program(torch: ModuleType) -> Any:
        mask = getattr(bias(torch), form)(*sizes)
        query, key = torch.randn(1, 2, sizes[0], 4, requires_grad=True), torch.randn(1, 2, sizes[1], 4)
        result = torch.nn.functional.scaled_dot_product_attention(query, key, key, mask)
        result.sum().backward()
        return result, query.grad, repr(mask), tuple(mask.shape), mask.seq_len_q, mask.seq_len_kv, int(mask.variant)

    agree(program)


def test_causal_masks_that_are_refused() -> None:
    def twice(torch: ModuleType) -> Any:
        x = torch.ones(1, 1, 2, 2)
        mask = bias(torch).causal_upper_left(2, 2)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask, is_causal=True)

    agree_error(twice)
    agree_error(lambda torch: bias(torch).causal_upper_left(2, 3, 4))
    agree(lambda torch: bias(torch).causal_lower_right(5, 3).shape, warns=True)


def test_weights_in_another_memory_format() -> None:
    def program(torch: ModuleType) -> Any:
        net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Sequential(torch.nn.Conv3d(2, 3, 2)))
        torch.nn.utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
        torch.nn.utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
        return net[0].weight, net[0].weight.stride(), net[1][0].weight.stride(), net[0](torch.ones(1, 2, 3, 3))

    agree(program)


REFUSED = """
torch.optim.SparseAdam([torch.ones(2).to_sparse()])
torch.optim.SparseAdam([torch.nn.Parameter(torch.ones(2))], lr=0)
torch.nn.utils.rnn.pad_sequence([1])
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_arguments_that_are_refused(text: str) -> None:
    agree_error(lambda torch: eval(text, {"torch": torch}))
