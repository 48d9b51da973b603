"""`torch.utils._python_dispatch`: taking over operators below autograd, which undertow has no place for.

Nothing beneath undertow's functions dispatches on types: a function's rule runs on arrays. Packages that only ask whether
a mode is on, or whether a tensor wraps others, get the true answer; entering a mode is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from undertow._core import TensorCore

__all__ = ["BaseTorchDispatchMode", "TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode:
    """A block that sees every operator below autograd. Define it at will; to enter it is refused."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "undertow has no torch.utils._python_dispatch.TorchDispatchMode.__enter__: there are no operators below its "
            "functions. torch.overrides.TorchFunctionMode sees every function that a program calls."
        )

    def __exit__(self, *exception: object) -> None:
        pass


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every operator through."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor, or a class of them, says how to take it apart into plain tensors and put it together again."""
    is_tensor = isinstance(t, TensorCore) or (isinstance(t, type) and issubclass(t, TensorCore))
    return is_tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def _get_current_dispatch_mode() -> None:
    """The innermost mode that is on: none is."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    return []


def _len_torch_dispatch_stack() -> int:
    return 0


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A block in which no mode is on."""
    yield []
