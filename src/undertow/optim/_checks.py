"""Options of optimizers: the ones in a parameter group, and the check of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from undertow._src.tensor.core import TensorCore

Options = Mapping[str, Any]
Check = Callable[[Any, Options], None]  # an option's value, and the dict of all options


def options(arguments: Options, order: str, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return the options among a constructor's arguments, checked, in the order of PyTorch's groups and checkpoints."""
    chosen = {name: arguments[name] for name in order.split()}
    for name, check in checks.items():
        check(chosen[name], chosen)
    return chosen


def requires(holds: Callable[[Any], bool], message: str) -> Check:
    """Return a check that a value satisfies `holds`; the error is `message` formatted with the value."""

    def check(value: Any, _: Options) -> None:
        if not holds(value):
            raise ValueError(message.format(value))

    return check


def at_least_zero(message: str) -> Check:
    return requires(lambda value: value >= 0.0, message)


def rate(holds: Check) -> Check:
    """Return a check of a learning rate, which may be a tensor of one element."""

    def check(value: Any, options: Options) -> None:
        one_element(value, "lr")
        holds(value, options)

    return check


def one_element(value: Any, name: str) -> None:
    if isinstance(value, TensorCore) and value._array.size != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def betas(values: Any, _: Options) -> None:
    for place in (0, 1):
        if not 0.0 <= values[place] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {values[place]}")


def fused(options: Options) -> None:
    """Check that `fused` is not combined with `foreach`; PyTorch does so after the groups are made."""
    for other, message in _WITHOUT_FUSED.items():
        if options.get("fused") and options.get(other):
            raise RuntimeError(message)


_WITHOUT_FUSED = {
    "differentiable": "`fused` does not support `differentiable`",
    "foreach": "`fused` and `foreach` cannot be `True` together.",
}

lr = rate(at_least_zero("Invalid learning rate: {}"))
eps = at_least_zero("Invalid epsilon value: {}")
momentum = at_least_zero("Invalid momentum value: {}")
weight_decay = at_least_zero("Invalid weight_decay value: {}")
