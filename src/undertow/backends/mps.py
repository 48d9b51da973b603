"""Apple's Metal, which is not here."""


def is_available() -> bool:
    """Whether it can be used."""
    return False


def is_built() -> bool:
    """Whether PyTorch was built with it."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of at least a version."""
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")
