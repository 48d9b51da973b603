"""`torch.cond` and `torch.while_loop`: branches and loops as functions, run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["cond", "while_loop"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return `true_fn(*operands)` if the condition holds, else `false_fn(*operands)`.

    >>> torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(1),))
    tensor([2.])
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Apply `body_fn` to its own results, as long as `cond_fn` of them holds.

    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(1)))
    (tensor(3), tensor([8.]))
    """
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        found = body_fn(*values)
        values = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return values
