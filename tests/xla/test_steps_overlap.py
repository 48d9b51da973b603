"""Compiled steps that write to memory which shows in several places, or which the same call reads."""

from __future__ import annotations

import warnings

import pytest

import undertow as torch


def read_while_written(x):
    y = x * 1
    torch.cumsum(y[1:], 0, out=y[:-1])
    return y


def gathered_into_itself(x):
    y = x * 1
    return torch.gather(y, 0, torch.tensor([1, 0, 2, 3, 4, 5]), out=y)


def indexed_from_itself(x):
    y = x * 1
    y[torch.arange(3)] = y[1:4]
    return y


def added_to_its_neighbours(x):
    y = x * 1
    y[1:].add_(y[:-1])
    return y


def written_into_its_neighbours(x):
    y = x * 1
    return torch.mul(y[:4], 2, out=y[1:5])


@pytest.mark.parametrize("step", [
    read_while_written, gathered_into_itself, indexed_from_itself, added_to_its_neighbours, written_into_its_neighbours,
])  # fmt: skip
def test_what_eager_mode_refuses_is_refused(step):
    for run in (step, torch.compile(step)):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            run(torch.arange(6.0))


@pytest.mark.parametrize("write", [
    lambda y: y.add_(1),
    lambda y: y.index_fill_(1, torch.tensor([0]), 5.0),
    lambda y: y.index_put_((torch.tensor([0]),), torch.tensor(5.0)),
    lambda y: y.masked_fill_(torch.tensor([True, False, False]), 5.0),
    lambda y: y[0].add_(5.0),
])  # fmt: skip
def test_expanded_tensors_are_not_written(write):
    def step(x):
        y = (x * 1).expand(2, 3)
        write(y)
        return y * 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # masked_fill_ of expanded tensors is deprecated
        with pytest.raises(RuntimeError, match=r"written-to tensor|whose elements share memory"):
            torch.compile(step)(torch.arange(3.0))


def test_parts_that_lie_apart_may_be_read_and_written():
    def step(x):
        y = x * 1
        y[:3].index_put_((torch.tensor([2, 1, 0]),), y[3:])
        torch.cumsum(y[:3], 0, out=y[3:])
        y[::2].add_(y[1::2])
        return y

    assert torch.compile(step)(torch.arange(6.0)).tolist() == step(torch.arange(6.0)).tolist()
