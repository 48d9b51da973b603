"""Shared by the modules of this package: settings that apply inside a block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def set_inside(module: str, **switches: Any) -> Iterator[None]:
    """Change a module's settings inside the block; those that are None stay as they are."""
    place = vars(sys.modules[module])
    before = {name: place[name] for name, value in switches.items() if value is not None}
    place.update({name: switches[name] for name in before})
    try:
        yield
    finally:
        place.update(before)
