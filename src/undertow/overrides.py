"""`__torch_function__`: who may take over a call, and how it is handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow import tree
from undertow._core import TensorCore
from undertow.modes import local, special

_NUMBERS = (bool, int, float, complex, np.generic)


class Overrides:
    """Whether any class of this process could take over calls; set when such a class or mode appears."""

    __slots__ = ("present",)

    def __init__(self) -> None:
        self.present = False


state = Overrides()


def is_operand(value: Any) -> bool:
    """A tensor, a number, or something that takes over calls itself."""
    return isinstance(value, (TensorCore, *_NUMBERS)) or hasattr(type(value), "__torch_function__")


def wanted(args: Iterable[Any]) -> bool:
    """Whether a call with these arguments must be offered to overrides first."""
    modes = local.modes
    if modes.function_modes:
        return True
    if modes.function_off:
        return False
    return any(_takes_over(value) for value in args)


def wanted_anywhere(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`wanted`, looking into lists and tuples of arguments too."""
    return wanted(tree.leaves((args, kwargs)))


def _takes_over(value: Any) -> bool:
    implementation = getattr(type(value), "__torch_function__", None)
    return implementation is not None and implementation is not disabled and not getattr(type(value), "_plain", False)


def disabled(*args: Any, **kwargs: Any) -> Any:
    """A class whose `__torch_function__` is this one is treated as a plain tensor."""
    return NotImplemented


def dispatch(public: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Offers a call to the function modes and to the classes among its arguments, subclasses first."""
    raise AssertionError((public, args, kwargs, special))
