"""Whether attention layers may take their short cut in inference; here there is one way only."""

_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Return what was set."""
    return _fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Note it."""
    global _fastpath_enabled
    _fastpath_enabled = value
