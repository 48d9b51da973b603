"""Aliases of types for annotations, shared by `undertow.types` and the stubs of public modules."""

from __future__ import annotations

import os
from typing import IO, TypeAlias

from undertow._src.types.devices import device
from undertow._src.types.sizes import Size

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
