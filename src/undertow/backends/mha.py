"""Whether attention layers may use PyTorch's inference fast path; undertow has none."""

_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Return the setting."""
    return _fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Change the setting, which has no effect."""
    global _fastpath_enabled
    _fastpath_enabled = value
