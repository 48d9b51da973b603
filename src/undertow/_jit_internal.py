"""The names of `torch._jit_internal` that packages import. Nothing is scripted: the code stays Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from undertow.jit import export as export
from undertow.jit import ignore as ignore
from undertow.jit import is_scripting as is_scripting
from undertow.jit import unused as unused

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "_copy_to_script_wrapper", "_overload",
    "_overload_method", "boolean_dispatch", "export", "ignore", "is_scripting", "unused",
]  # fmt: skip


class _BroadcastingList:
    """The annotation `BroadcastingList2[int]`: a list that may be given as one item."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str, func_name: str
) -> Callable[..., Any]:
    """Return a function that calls `if_true` or `if_false`, depending on a flag among its arguments."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__doc__ = if_false.__doc__ or if_true.__doc__
    chosen.__module__ = module_name or chosen.__module__
    chosen.__name__ = func_name or chosen.__name__
    return chosen


def _overload(func: Any) -> Any:
    return func


_overload_method = _copy_to_script_wrapper = _overload
