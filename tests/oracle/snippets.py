"""Programs of one line: statements separated by `; `, the last an expression of which everything is compared.

    agree_snippet("x[1] = 5; x")

Every snippet starts with fresh tensors of these names:

    x   float32 (3, 4), 0 … 11        c   float32 (2, 3, 4), 0 … 23      i   int64 (6,), 0 … 5
    g   as x, requires grad           m   bool (3, 4), True and False    z   complex64 (3,)
    s   float32, zero dimensions      e   float32 (0, 3)                 n   NumPy's float64 (2, 3)
"""

from __future__ import annotations

import ast
import copy
import io
import math
import operator
import pickle
from types import ModuleType
from typing import Any

import numpy as np

from tests.oracle.harness import Log, agree


def agree_snippet(text: str, *, layout: bool = True, **options: Any) -> None:
    """Assert that the snippet gives the same on both: values, dtypes, graph, and strides unless `layout=False`."""

    def program(torch: ModuleType, log: Log) -> Any:
        result = evaluate(text, names(torch))
        if layout:
            log("layout", [described(tensor) for tensor in tensors_in(torch, result)])
        return result

    agree(program, **{"graph": True, "raises": False, **options})


def refuse_snippet(text: str, words: int = 10) -> None:
    """Assert that the snippet raises on both: same class, same opening words."""
    agree_snippet(text, raises=True, words=words)


def evaluate(text: str, scope: dict[str, Any]) -> Any:
    """Run all statements of `text`; the value of the last one."""
    *statements, last = ast.parse(text).body
    exec(compile(ast.Module(statements, []), text, "exec"), scope)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), text, "eval"), scope)
    exec(compile(ast.Module([last], []), text, "exec"), scope)
    return None


def names(torch: ModuleType) -> dict[str, Any]:
    """What a snippet may name."""
    numbers = torch.arange(12.0).reshape(3, 4).clone()  # a clone, because reshape makes views
    modules = {"np": np, "math": math, "copy": copy, "pickle": pickle, "io": io, "operator": operator}
    return modules | {
        "torch": torch,
        "x": numbers,
        "c": torch.arange(24.0).reshape(2, 3, 4).clone(),
        "i": torch.arange(6),
        "g": numbers.clone().requires_grad_(),
        "m": numbers % 3 == 0,
        "z": torch.tensor([1 + 2j, -3j, 0.5]),
        "s": torch.tensor(2.5),
        "e": torch.empty(0, 3),
        "n": np.arange(6.0).reshape(2, 3),
    }


def tensors_in(torch: ModuleType, value: Any) -> list[Any]:
    """The tensors of a nest of lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_in(torch, item)] if isinstance(value, (list, tuple)) else []


def described(tensor: Any) -> tuple[Any, ...]:
    """How a tensor lies in memory."""
    return tensor.stride(), tensor.storage_offset(), tensor.is_contiguous(), tensor._is_view()
