"""Intel's Math Kernel Library, which is not here."""


def is_available() -> bool:
    """Whether it can be used."""
    return False
