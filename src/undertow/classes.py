"""`torch.classes`: classes of compiled libraries. None can be loaded."""

from __future__ import annotations

from typing import Any, NoReturn

loaded_libraries: set[str] = set()


class _Namespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"Tried to instantiate class '{self.name}.{name}', but it does not exist!")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)
