"""Tensors on the device `meta` in files: saved, and loaded there from files with values, by both libraries."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import attempt

LIBRARIES = {"torch": real_torch, "undertow": undertow}


def without_values(torch: ModuleType) -> list[Any]:
    parameter = torch.nn.Parameter(torch.ones(2, 3, device="meta"))
    parameter.note = 1
    noted = torch.ones(2, device="meta")
    noted.note = 5
    return [
        torch.nn.Parameter(torch.ones(2, device="meta"), requires_grad=False),
        parameter,
        noted,
        torch.ones(2, 3, device="meta").t(),
        torch.ones(3, dtype=torch.bfloat16, device="meta", requires_grad=True),
        torch.nn.Linear(2, 2, device="meta").state_dict()["weight"],
    ]


def described(torch: ModuleType, tensor: Any) -> tuple[Any, ...]:
    kind = str(tensor.dtype).rpartition(".")[2]
    shown = (tuple(tensor.shape), tensor.stride(), kind, tensor.requires_grad, str(tensor.device))
    return (*shown, isinstance(tensor, torch.nn.Parameter), dict(tensor.__dict__).get("note"))


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("writer", LIBRARIES)
def test_saved_without_values(writer: str, reader: str, weights_only: bool) -> None:
    file = io.BytesIO()
    LIBRARIES[writer].save(without_values(LIBRARIES[writer]), file)
    file.seek(0)
    torch = LIBRARIES[reader]
    loaded = torch.load(file, weights_only=weights_only)
    expected = [described(LIBRARIES[writer], tensor) for tensor in without_values(LIBRARIES[writer])]
    assert [described(torch, tensor) for tensor in loaded] == expected


@pytest.mark.parametrize("weights_only", [True, False])
def test_loaded_to_meta(weights_only: bool) -> None:
    def program(torch: ModuleType, log: Any) -> None:
        file, whole = io.BytesIO(), torch.ones(4)
        linear = torch.nn.Linear(2, 2)
        content = [
            whole,
            whole[:2],
            torch.arange(3),
            torch.ones(0),
            torch.nn.Parameter(torch.ones(2)),
            torch.ones(2, 3).t(),
        ]
        torch.save([content, linear.state_dict()], file)
        for where in ("meta", torch.device("meta"), {"cpu": "meta"}):
            file.seek(0)
            tensors, state = torch.load(file, map_location=where, weights_only=weights_only)
            log([described(torch, tensor) for tensor in tensors])
            attempt(log, "load", lambda state=state: torch.nn.Linear(2, 2).load_state_dict(state))
            log(torch.nn.Linear(2, 2, device="meta").load_state_dict(state, assign=True))

    agree(program)


def test_a_file_cannot_ask_for_memory() -> None:
    rebuild = undertow._utils._rebuild_meta_tensor_no_storage
    with pytest.raises(RuntimeError, match="overflowed"):
        rebuild(undertow.float32, (2,), (2**62,), False)
    with pytest.raises(TypeError, match="whole numbers"):
        rebuild(undertow.float32, (-2,), (1,), False)
