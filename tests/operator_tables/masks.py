"""Operators of `torch.masked`; their dtypes, and what they support, are in `operator_facts.txt`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from tests.operator_tables.kinds import ReductionOpInfo, gradcheck_wrapper_masked_operation
from tests.operator_tables.making import Calls, operator, sampled
from tests.operator_tables.op_info import OpInfo
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes as d
from undertow.testing._creation import Maker

_MASKS = ([[True, False, True], [True, True, False]], [True, False, True], [[True], [True]])


def masked_operators() -> list[OpInfo]:
    """All of them."""

    def reduction(name: str, calls: Calls, **options: Any) -> OpInfo:
        return ReductionOpInfo(
            f"masked.{name}", dtypes=(d.float32,), op=_function(name), sample_inputs_func=sampled(calls),
            method_variant=None, gradcheck_wrapper=gradcheck_wrapper_masked_operation, **options,
        )  # fmt: skip

    def row(name: str, calls: Calls) -> OpInfo:
        return operator(
            f"masked.{name}", "f", calls, op=_function(name), method_variant=None,
            gradcheck_wrapper=gradcheck_wrapper_masked_operation,
        )  # fmt: skip

    return [
        reduction("sum", _reduced, identity=0, promotes_int_to_int64=True),
        reduction("prod", _reduced, identity=1, promotes_int_to_int64=True),
        *[reduction(name, _reduced, nan_policy="propagate") for name in ("amax", "amin", "mean", "logsumexp")],
        *[reduction(name, partial(_along, 0), supports_multiple_dims=False) for name in ("argmax", "argmin")],
        *[reduction(name, _spread) for name in ("var", "std")],
        reduction("norm", lambda t: [(x, order, {"dim": 1, "mask": m}) for x, m in _pairs(t) for order in (2.0, 1)]),
        *[
            row(name, partial(_along, 1))
            for name in ("cumsum", "cumprod", "median", "softmax", "log_softmax", "softmin")
        ],
        row("normalize", lambda t: [(x, 2.0, 1, {"mask": m}) for x, m in _pairs(t)]),
        row("logaddexp", lambda t: [
            (x, t(2, 3), {"input_mask": m, "other_mask": None}) for x, m in _pairs(t)[: 1 if t.requires_grad else None]]),
    ]  # fmt: skip


def _function(name: str) -> Any:
    return getattr(import_module("undertow.masked"), name)


def _pairs(t: Maker) -> list[tuple[Any, Any]]:
    """Tensors with masks, and one without."""
    masks = [None, *[tensor(values, device=t.device) for values in _MASKS]]
    return [(t(2, 3), mask) for mask in masks]


def _reduced(t: Maker) -> list[Any]:
    return [
        (x, {"mask": m, **more}) for x, m in _pairs(t) for more in ({}, {"dim": 1}, {"dim": (0, 1), "keepdim": True})
    ]


def _along(dim: int, t: Maker) -> list[Any]:
    return [(x, dim, {"mask": m}) for x, m in _pairs(t)]


def _spread(t: Maker) -> list[Any]:
    return [(x, {"dim": 1, "unbiased": False, "mask": m}) for x, m in _pairs(t)]
