"""Operators that take functions, with samples of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.operator_tables.op_info import OpInfo, SampleInput
from undertow._src.compat.control_flow import cond, while_loop
from undertow._src.types import dtypes as d
from undertow.testing._creation import Maker


def sample_inputs_cond(
    opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Return a tensor."""
    yield SampleInput(Maker(device, dtype, requires_grad)(2, 2, 2, low=0.1, high=2))


def simple_cond(x: Any) -> Any:
    """One of two functions, chosen by a sum."""
    return cond(x.sum() > 2, lambda x: (x.cos(),), lambda x: (x.sin(),), [x])


def sample_inputs_while_loop(
    opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """How often, and a tensor."""
    t = Maker(device, dtype, False)
    yield SampleInput(t.given(3), args=(t(2, 3, 4, low=0.1, high=2),))


def simple_while_loop(count: Any, x: Any) -> Any:
    """Return a function, again and again."""
    return while_loop(lambda count, x: count > 0, lambda count, x: (count - 1, x.sin()), (count, x))


def _row(name: str, op: Any, samples: Any, autograd: bool) -> OpInfo:
    return OpInfo(
        name, variant_test_name="simple", op=op, sample_inputs_func=samples, dtypes=(d.float32, d.float64),
        supports_out=False, supports_autograd=autograd, supports_gradgrad=autograd, check_batched_grad=False,
        check_batched_gradgrad=False, check_batched_forward_grad=False, check_inplace_batched_forward_grad=False,
    )  # fmt: skip


hop_db = [
    _row("cond", simple_cond, sample_inputs_cond, True),
    _row("while_loop", simple_while_loop, sample_inputs_while_loop, False),
]
