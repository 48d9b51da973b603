"""Signal processing: window functions."""

from undertow.signal import windows as windows

__all__ = ["windows"]
