"""The keyword arguments with which layers make their parameters."""

from __future__ import annotations

from typing import Any

_KNOWN = frozenset({"device", "dtype", "memory_format"})


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return a layer's keywords for its tensors: device, dtype, memory_format and those in "factory_kwargs"."""
    if kwargs is None:
        return {}
    given = {name: value for name, value in kwargs.items() if name != "factory_kwargs"}
    strangers = set(given) - _KNOWN
    if strangers:
        raise TypeError(f"unexpected kwargs {strangers}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for name, value in given.items():
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = value
    return result
