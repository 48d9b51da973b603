"""`torch.hub.tqdm`: the progress bar of the package tqdm or, without that package, a printed count."""

from __future__ import annotations

import sys
from typing import Any


class tqdm:
    """Counts up to `total`; a `with` block ends it."""

    __module__ = "undertow.hub"

    def __init__(self, total: float | None = None, disable: bool = False, **options: Any) -> None:
        self.total, self.disable, self.n = total, disable, 0.0

    def update(self, n: float) -> None:
        """Count `n` more."""
        self.n += n
        if not self.disable:
            done = f"{self.n:.0f} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
            print(f"\r{done}", end="", file=sys.stderr, flush=True)

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            print(file=sys.stderr)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    """Return `best`: tqdm's own bar where that package is installed."""
    if name != "best":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tqdm.auto import tqdm as installed  # type: ignore[import-untyped]
    except ImportError:
        return tqdm
    return installed
